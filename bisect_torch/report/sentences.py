"""One sentence for each thing that changed, with its evidence. Pure functions that return text.

Rules: a change of detail alone makes no sentence; what an API's absence causes is never called broken or fixed; a flaky
build makes a sentence that says so and no transition; instances of one case with the same history share one sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bisect_torch.model import Point, Series, Transition, TransitionKind, Verdict
from bisect_torch.report.differences import difference_words
from bisect_torch.report.findings import Findings
from bisect_torch.report.handoff import Handoff, handoff
from bisect_torch.report.parameters import in_common
from bisect_torch.report.phrases import did, does, doing, instead_of, noun
from bisect_torch.report.seen import explanations, seen
from bisect_torch.report.text import clean, listed, plural


@dataclass(frozen=True)
class Sentence:
    """One finding.

    Args:
        kind: Value of :class:`TransitionKind`, or ``flaky``, or ``always`` (the same bad verdict in every build).
        text: The sentence.
        evidence: Label and text of each line below it.
        instances: Names of what it is about.
        rows: Case file, instance and device of each.
        before: Build at the older end; for ``flaky`` and ``always``, the first build.
        after: Build at the newer end; for ``flaky`` and ``always``, the last build.
        compare: Address of the list of commits between the ends, where both are known to be public.
        bisect: The command that begins a bisection of the source between them, where one end is no release.
    """

    kind: str
    text: str
    evidence: tuple[tuple[str, str], ...]
    instances: tuple[str, ...]
    rows: tuple[tuple[str, str, str], ...]
    before: str
    after: str
    compare: str | None = None
    bisect: str | None = None


def sentences(findings: Findings) -> list[Sentence]:
    """All sentences, in the order of the instances and, within one, of the builds."""
    order = {_key_of(each): place for place, each in enumerate(findings.series)}
    placed: list[tuple[int, int, Sentence]] = []
    place_of = {name: place for place, name in enumerate(findings.build_names)}
    for group in _groups_of_transitions(findings.transitions):
        place = order.get(_key_of(group[0].series), len(order))
        placed.append((place, place_of.get(group[0].after.build, 0), transition_sentence(group, findings)))
    changed = {_key_of(each.series) for each in findings.transitions}
    for same in _groups_of_series(findings.series):
        sentence = flaky_sentence(same, findings)
        if sentence is None and _key_of(same[0]) not in changed:
            sentence = always_sentence(same, findings)
        if sentence is not None:
            placed.append((order[_key_of(same[0])], -1, sentence))
    return [sentence for _, _, sentence in sorted(placed, key=lambda each: each[:2])]


def subject(series: Sequence[Series], findings: Findings) -> str:
    """``bmm_view``, or ``12 instances of bmm`` (all of them: ``all 12 instances of bmm``)."""
    several = findings.several_devices
    if len({_case_of(each) for each in series}) > 1:
        words = (f" on {clean(each.device)}" if several else "" for each in series)
        return listed([clean(findings.name_of(each)) + word for each, word in zip(series, words, strict=True)])
    device = f" on {clean(series[0].device)}" if several else ""
    if len(series) == 1:
        return clean(findings.name_of(series[0])) + device
    every = findings.instances_of.get(_case_of(series[0]), ())
    amount = f"all {len(series)}" if len(every) == len(series) else f"{len(series)} of {len(every)}"
    common = in_common({each.instance for each in series}, every) if len(every) > len(series) else ()
    which = f" ({clean(', '.join(f'{name}={value}' for name, value in common))})" if common else ""
    return f"{amount} instances of {clean(findings.case_of(series[0]))}{which}{device}"


def transition_sentence(group: Sequence[Transition], findings: Findings) -> Sentence:
    """The sentence for a transition that all instances of ``group`` share."""
    first = group[0]
    series = [each.series for each in group]
    before, after = first.before.build, first.after.build
    gap = bool(findings.left_out(first.before.build, first.after.build))
    text = f"{subject(series, findings)} {statement(first, len(group), gap=gap)}"
    if not first.confirmed:
        text += ", not confirmed"
    further = handoff(first, findings)
    if further.same_commit:
        text += ", between builds of one commit: not by torch's code"
    return Sentence(
        kind=first.kind.value,
        text=text + ".",
        evidence=tuple(_evidence(group, findings, further)),
        instances=tuple(each.instance for each in series),
        rows=tuple(map(_key_of, series)),
        before=before,
        after=after,
        compare=further.compare,
        bisect=further.bisect,
    )


def statement(transition: Transition, number: int, *, gap: bool = False) -> str:
    """What happened, without its subject, which is ``number`` instances.

    Args:
        gap: Releases between the two ends did not take part.
    """
    old, new = transition.before.judgement, transition.after.judgement
    old_name, new_name = clean(transition.before.build), clean(transition.after.build)
    since = f"{new_name} on"
    if gap:
        new_name = since = f"{new_name} or an earlier release that was not run"
    again = " again" if _happened_before(transition) else ""
    new_does = plural_verb(does(new), number)
    are = "is" if number == 1 else "are"
    if transition.kind is TransitionKind.BROKE:
        return f"{new_does}{again} from {since} (last good {old_name})"
    if transition.kind is TransitionKind.FIXED:
        return f"{are} fixed{again} in {new_name} ({did(old)} up to {old_name})"
    if transition.kind is TransitionKind.BECAME_SILENT:
        return f"{new_does} from {since}, instead of {doing(old)} up to {old_name}: {noun(old)} became silent"
    if transition.kind is TransitionKind.APPEARED:
        it = "it" if number == 1 else "they"
        where = "" if new.verdict is Verdict.OK else f", where {it} {new_does}"
        when = f"available again in {new_name}" if _was_available(transition) else f"first available in {new_name}"
        return f"{are} {when}{where} (absent up to {old_name})"
    if transition.kind is TransitionKind.DISAPPEARED:
        return f"{are} gone from {since} (last available in {old_name})"
    return f"{new_does} from {since}, instead of {instead_of(old, new)} up to {old_name}"


def _was_available(transition: Transition) -> bool:
    """Whether a build before the older end has the name."""
    older = transition.series.answers[: transition.series.builds.index(transition.before.build)]
    return any(point is not None and point.solid and not point.judgement.api_absent for point in older)


def _happened_before(transition: Transition) -> bool:
    """Whether the series already went the same way once: ok then bad, or bad then ok."""
    states: list[bool] = []
    for point in transition.series.answers:
        if point is None or not point.solid or point.judgement.api_absent:
            continue
        states.append(point.judgement.verdict.bad)
        if point.build == transition.before.build:
            break
    if transition.kind is TransitionKind.BROKE:
        return True in states
    return any(not later and earlier for earlier, later in pairwise(states))


def _evidence(group: Sequence[Transition], findings: Findings, further: Handoff) -> Iterable[tuple[str, str]]:
    first = group[0]
    before, after = first.before, first.after
    if len(group) > 1:
        yield "instances", listed([clean(each.series.instance) for each in group], most=3)
    yield "signature", f"{clean(before.judgement.signature)} → {clean(after.judgement.signature)}"
    for label, ends in (
        ("before", [(each.series, each.before) for each in group]),
        ("after", [(each.series, each.after) for each in group]),
    ):
        what = seen(ends, findings)
        if what:
            yield label, what
        models = explanations(ends, findings)
        if models:
            yield "explained by", models
    commits = [findings.commit(point.build) for point in (before, after)]
    if any(commits):
        yield "commits", " → ".join((commit or "unknown")[:12] for commit in commits)
    if further.compare:
        yield "compare", further.compare
    yield from further.evidence
    if further.bisect:
        yield "git bisect", further.bisect
    yield from _differs(before.build, after.build, findings)
    left_out = findings.left_out(before.build, after.build)
    if left_out:
        these = listed(list(left_out), most=4)
        yield "not run between", f"{these}; narrow it with --from {clean(before.build)} --to {clean(after.build)}"
    if first.between:
        yield "untested between", listed([f"{clean(name)} ({clean(reason)})" for name, reason in first.between], most=6)
    yield "confidence", _confidence(group)
    yield from _isolation(point for each in group for point in (each.before, each.after))


def _isolation(points: Iterable[Point]) -> Iterable[tuple[str, str]]:
    """A note where forks of a worker that had everything loaded answered otherwise than ``python file.py`` would."""
    words = dict.fromkeys(f"{clean(point.in_forks)} on {clean(point.build)}" for point in points if point.in_forks)
    if words:
        yield "in a shared process", f"{listed(list(words), most=4)}; an interpreter of its own is what counts"


def _differs(before: str, after: str, findings: Findings) -> Iterable[tuple[str, str]]:
    old, new = findings.environments.get(before), findings.environments.get(after)
    if old is not None and new is not None:
        words = difference_words(old, new)
        yield "also differ", "; ".join(words) if words else "nothing else: only torch"


def _confidence(group: Sequence[Transition]) -> str:
    before = min(_agreeing(each.before) for each in group)
    after = min(_agreeing(each.after) for each in group)
    own = all(each.before.own_process and each.after.own_process for each in group)
    how = ", each side once in its own interpreter" if own else ""
    text = f"{before} and {plural(after, 'process', 'processes')} agree{how}"
    return text if all(each.confirmed for each in group) else f"not confirmed: {text}"


def _agreeing(point: Point) -> int:
    """Processes that gave the answer that counts."""
    return min(point.processes, point.counts.get(point.judgement.signature, point.processes))


def flaky_sentence(series: Sequence[Series], findings: Findings) -> Sentence | None:
    """The sentence for instances that gave different verdicts on the same build; None where none did."""
    flaky = [point for each in series for point in each.answers if point is not None and point.flaky]
    if not flaky:
        return None
    builds = {point.build for point in flaky}
    names = [name for name in series[0].builds if name in builds]
    judged = _judged_names(series)
    span = clean(names[0]) if len(names) == 1 else f"{clean(names[0])} to {clean(names[-1])}"
    counts: Counter[str] = Counter()
    for point in flaky:
        counts.update(point.counts)
    total = counts.total()
    words = listed(
        [f"{clean(name)} in {count}" for name, count in counts.most_common() if name != Verdict.OK.value], most=5
    )
    where = f"{len(names)} of {plural(len(judged), 'build')}"
    return Sentence(
        kind="flaky",
        text=f"{subject(series, findings)} {plural_verb('is', len(series))} flaky in {where} ({span}): "
        f"{words} of {plural(total, 'run')}; no transition is claimed there.",
        evidence=tuple(_flaky_evidence(series)),
        instances=tuple(each.instance for each in series),
        rows=tuple(map(_key_of, series)),
        before=names[0],
        after=names[-1],
    )


def _flaky_evidence(series: Sequence[Series]) -> Iterable[tuple[str, str]]:
    found: dict[str, Counter[str]] = {name: Counter() for name in series[0].builds}
    for each in series:
        for point in each.answers:
            if point is not None and point.flaky:
                found[point.build].update(point.counts)
    words = []
    for name, counts in found.items():
        if counts:
            bad = ", ".join(f"{clean(key)} {number}" for key, number in sorted(counts.items()) if key != "ok")
            words.append(f"{clean(name)}: {bad} of {counts.total()}")
    yield "runs", listed(words, most=8)


def always_sentence(series: Sequence[Series], findings: Findings) -> Sentence | None:
    """The sentence for instances with the same bad signature, or no such API, in every build that was judged."""
    first = series[0]
    judged = [point for point in first.answers if point is not None and point.judgement.verdict.judged]
    if not judged or not judged[0].judgement.verdict.bad:
        return None
    if len({(point.judgement.signature, point.judgement.api_absent) for point in judged}) != 1:
        return None
    judgement = judged[0].judgement
    left = len(first.builds) - len(judged)
    some = "any" if judgement.api_absent else "every"
    every = f"{some} build" if not left else f"{some} judged build ({left} not judged)"
    span = f"from {clean(judged[0].build)} to {clean(judged[-1].build)}"
    if len(judged) == 1:
        every, span = clean(judged[0].build), "the only build judged"
    what = plural_verb("is not available" if judgement.api_absent else does(judgement), len(series))
    last = first.builds.index(judged[-1].build)
    newest = [(each, point) for each in series if (point := each.points[last]) is not None]
    what_seen = seen(newest[:1], findings)
    models = explanations(newest, findings)
    return Sentence(
        kind="always",
        text=f"{subject(series, findings)} {what} in {every}, {span}.",
        evidence=(
            *([("seen", what_seen)] if what_seen else []),
            *([("explained by", models)] if models else []),
            *_isolation(judged),
        ),
        instances=tuple(each.instance for each in series),
        rows=tuple(map(_key_of, series)),
        before=judged[0].build,
        after=judged[-1].build,
    )


def plural_verb(phrase: str, number: int) -> str:
    """``give`` for ``gives`` where the subject is several instances."""
    if number == 1:
        return phrase
    verb, space, rest = phrase.partition(" ")
    known = {"is": "are", "does": "do", "crashes": "crash", "raises": "raise"}
    return known.get(verb, verb.removesuffix("s")) + space + rest


def _judged_names(series: Sequence[Series]) -> set[str]:
    return {
        point.build
        for each in series
        for point in each.answers
        if point is not None and (point.flaky or point.judgement.verdict.judged)
    }


def _key_of(series: Series) -> tuple[str, str, str]:
    return series.case_file, series.instance, series.device


def _case_of(series: Series) -> tuple[str, str, str]:
    return series.case_file, series.instance.partition("[")[0], series.device


def _groups_of_transitions(transitions: Iterable[Transition]) -> list[list[Transition]]:
    groups: dict[tuple[object, ...], list[Transition]] = {}
    for each in transitions:
        old, new = each.before.judgement, each.after.judgement
        key = (
            _case_of(each.series), each.kind, each.before.build, each.after.build, old.signature, new.signature,
            old.api_absent, new.api_absent, each.between, each.confirmed, _happened_before(each),
        )  # fmt: skip
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _groups_of_series(series: Iterable[Series]) -> list[list[Series]]:
    """Series of one case that are flaky, or give the same signature, on the same builds."""
    groups: dict[tuple[object, ...], list[Series]] = {}
    known: dict[int, int] = {}  # by the identity of answers that several series share
    number: dict[tuple[object, ...], int] = {}
    for each in series:
        if id(each.answers) not in known:
            history = tuple(
                None
                if point is None
                else ("flaky" if point.flaky else point.judgement.signature, point.judgement.api_absent)
                for point in each.answers
            )
            known[id(each.answers)] = number.setdefault(history, len(number))
        groups.setdefault((_case_of(each), known[id(each.answers)]), []).append(each)
    return list(groups.values())

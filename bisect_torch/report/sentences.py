"""One sentence for each thing that changed, with its evidence. Pure functions that return text.

Rules: a change of detail alone makes no sentence; what an API's absence causes is never called broken or fixed; a flaky
build makes a sentence that says so and no transition; instances of one case with the same history share one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from bisect_torch.analysis.transitions import API_ABSENT, NOT_RUN, enough_processes
from bisect_torch.analysis.unreached import why_unreached
from bisect_torch.model import BAD_OUTPUT, STRICT_XFAIL, UNEXPECTED_SUCCESS, Series, Transition, TransitionKind, Verdict
from bisect_torch.report.attributed import attributed_words
from bisect_torch.report.beside import differing_at
from bisect_torch.report.differences import difference_words
from bisect_torch.report.doubts import doubts
from bisect_torch.report.findings import Findings
from bisect_torch.report.handoff import Handoff, handoff
from bisect_torch.report.origin import from_a_dependency, imported_too
from bisect_torch.report.phrases import did, does, doing, instead_of, noun
from bisect_torch.report.rerun import range_line
from bisect_torch.report.seen import explanations, seen, uses
from bisect_torch.report.sentence import (
    NO_LONGER_BAD,
    Sentence,
    agreeing,
    case_of,
    isolation,
    key_of,
    lacking,
    plural_verb,
    subject,
)
from bisect_torch.report.text import clean, listed
from bisect_torch.report.throughout import always_sentence, flaky_sentence
from bisect_torch.report.unchecked import only_ran

_WORDS = {
    TransitionKind.BROKE: "broke",
    TransitionKind.FIXED: "fixed",
    TransitionKind.BECAME_SILENT: "became silent",
    TransitionKind.CHANGED: "bad in another way",
    TransitionKind.APPEARED: "newly available",
    TransitionKind.DISAPPEARED: "gone",
}
"""What happened to a row, for a line that counts rows."""


def sentences(findings: Findings) -> list[Sentence]:
    """All sentences, in the order of the instances and, within one, of the builds."""
    order = {key_of(each): place for place, each in enumerate(findings.series)}
    placed: list[tuple[int, int, Sentence]] = []
    place_of = {name: place for place, name in enumerate(findings.build_names)}
    for group in _groups_of_transitions(findings.transitions):
        place = order.get(key_of(group[0].series), len(order))
        placed.append((place, place_of.get(group[0].after.build, 0), transition_sentence(group, findings)))
    changed = {key_of(each.series) for each in findings.transitions}
    for same in _groups_of_series(findings.series):
        sentence = flaky_sentence(same, findings)
        if sentence is None and key_of(same[0]) not in changed:
            sentence = always_sentence(same, findings)
        if sentence is not None:
            placed.append((order[key_of(same[0])], -1, sentence))
    return [sentence for _, _, sentence in sorted(placed, key=lambda each: each[:2])]


def transition_sentence(group: Sequence[Transition], findings: Findings) -> Sentence:
    """The sentence for a transition that all instances of ``group`` share."""
    first = group[0]
    series = [each.series for each in group]
    before, after = first.before.build, first.after.build
    unreached = _unreached(first, findings)
    no_more = _only_fails_no_more(first, findings, unreached)
    text = f"{subject(series, findings)} {_statement(group, findings, no_more=no_more)}"
    if not first.confirmed:
        text += ", not confirmed"
    further = handoff(first, findings)
    if further.same_commit:
        text += ", between builds of one commit: not by torch's code"
    return Sentence(
        kind=first.kind.value,
        text=text + ".",
        evidence=tuple(_evidence(group, findings, further, unreached)),
        instances=tuple(each.instance for each in series),
        rows=tuple(map(key_of, series)),
        before=before,
        after=after,
        compare=further.compare,
        bisect=further.bisect,
        word=NO_LONGER_BAD if no_more else _WORDS[first.kind],
        confirmed=first.confirmed,
    )


def statement(group: Sequence[Transition], findings: Findings) -> str:
    """What happened, without its subject, which is the instances that ``group`` is of: all of one kind, alike.

    The newer end is the one where it happened only where nothing lies between that nobody knows. What checks nothing,
    or may not have come to what failed, is not known to be fixed: it fails no more.
    """
    no_more = _only_fails_no_more(group[0], findings, _unreached(group[0], findings))
    return _statement(group, findings, no_more=no_more)


def _statement(group: Sequence[Transition], findings: Findings, *, no_more: bool) -> str:
    transition, number = group[0], len(group)
    old, new = transition.before.judgement, transition.after.judgement
    old_name, new_name = clean(transition.before.build), newer_end(transition, findings)
    since = since_when(transition, findings)
    again = " again" if _happened_before(transition) else ""
    new_does = plural_verb(does(new), number)
    are = "is" if number == 1 else "are"
    later = _ok_again(group)
    if transition.kind is TransitionKind.BROKE:
        return f"{new_does}{again} from {since} (last good {old_name}{later and f'; {later}'})"
    if no_more:
        no_longer = f"{again} no longer".lstrip()
        return f"{no_longer} {plural_verb(does(old), number)} from {since} (last bad {old_name})"
    if transition.kind is TransitionKind.FIXED:
        return f"{are} fixed{again} in {new_name} ({did(old)} up to {old_name})"
    if transition.kind is TransitionKind.BECAME_SILENT:
        silent = "" if new.failure in (BAD_OUTPUT, STRICT_XFAIL, UNEXPECTED_SUCCESS) else f": {noun(old)} became silent"
        return f"{new_does} from {since}, instead of {doing(old)} up to {old_name}{later and f' ({later})'}{silent}"
    if transition.kind is TransitionKind.APPEARED:
        they = "the case" if number == 1 else "these instances"
        where = "" if new.verdict is Verdict.OK else f", where {they} {new_does}"
        when = f"available again in {new_name}" if _was_available(transition) else f"first available in {new_name}"
        used = uses([(each.series, each.before) for each in group], findings)
        return f"{used} is {when}{where} (absent up to {old_name})"
    if transition.kind is TransitionKind.DISAPPEARED:
        used = uses([(each.series, each.after) for each in group], findings)
        return f"{used} is gone from {since} (last available in {old_name})"
    return f"{new_does} from {since}, instead of {instead_of(old, new)} up to {old_name}{later and f' ({later})'}"


def _ok_again(group: Sequence[Transition]) -> str:
    """Where what is bad from some build on does not stay so; empty where it does."""
    builds = [name for each in group if (name := _next_ok(each)) is not None]
    if not builds:
        return ""
    some = f"{len(builds)} of {len(group)} instances " if len(builds) < len(group) else ""
    return f"{some}ok again in {listed([clean(name) for name in dict.fromkeys(builds)], most=3)}"


def _next_ok(transition: Transition) -> str | None:
    """The first build after a transition on which the row is ok."""
    series = transition.series
    place = series.builds.index(transition.after.build)
    newer = zip(series.builds[place + 1 :], series.answers[place + 1 :], strict=True)
    return next(
        (name for name, point in newer if point and point.solid and point.judgement.verdict is Verdict.OK), None
    )


def _only_fails_no_more(transition: Transition, findings: Findings, unreached: str) -> bool:
    """Whether it went from bad to ok, and that is not known to be a fix."""
    if transition.kind is not TransitionKind.FIXED:
        return False
    observed = findings.observed(transition.series, transition.after.build)
    return bool(unreached) or only_ran(observed, findings.sources, findings.runs)


def _unreached(transition: Transition, findings: Findings) -> str:
    series = transition.series
    if transition.kind is not TransitionKind.FIXED:
        return ""
    before, after = (findings.observed(series, point.build) for point in (transition.before, transition.after))
    return why_unreached(before, after, findings.sources)


def newer_end(transition: Transition, findings: Findings) -> str:
    """The build on which it happened: ``2.9.1``, or ``2.9.1 or an earlier release that was not run``."""
    name, unknown = clean(transition.after.build), _unknown_between(transition, findings)
    return f"{name} or an earlier {unknown}" if unknown else name


def since_when(transition: Transition, findings: Findings) -> str:
    """The same, to follow "from": ``2.9.1 on``."""
    name = newer_end(transition, findings)
    return f"{name} on" if name == clean(transition.after.build) else name


def _unknown_between(transition: Transition, findings: Findings) -> str:
    """What is not known of what lies between the ends, to follow "an earlier"; empty where nothing does."""
    gap = bool(findings.left_out(transition.before.build, transition.after.build))
    reasons = {reason for _, reason in transition.between} - {API_ABSENT}  # where there is no such name nothing changed
    why = ["was not run"] if gap or NOT_RUN in reasons else []
    why += ["could not be judged"] if reasons - {NOT_RUN} else []
    what = "release" if gap else "build"
    return f"{what} that {' or '.join(why)}" if why else ""


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


def _evidence(
    group: Sequence[Transition], findings: Findings, further: Handoff, unreached: str
) -> Iterable[tuple[str, str]]:
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
        if label == "after" and unreached:
            what = f"ok, but what failed may not have run: {clean(unreached)}"
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
    yield from _origin(group, findings)
    yield from _differs(group, findings)
    left_out = findings.left_out(before.build, after.build)
    if left_out:
        these = listed(list(left_out), most=4)
        yield "not run between", f"{these}; narrow it with {_narrower(first, findings)}"
    if first.between:
        yield "untested between", listed([f"{clean(name)} ({clean(reason)})" for name, reason in first.between], most=6)
    yield "confidence", _confidence(group, findings)
    yield from isolation(point for each in group for point in (each.before, each.after))


def _origin(group: Sequence[Transition], findings: Findings) -> Iterable[tuple[str, str]]:
    """Whether it is torch: the answer where ``attribute`` was asked, else what speaks for asking it."""
    first = group[0]
    if answer := attributed_words(group, findings):
        yield "attributed to", answer
    elif package := from_a_dependency(group, findings):
        yield "error comes from", package
    elif packages := imported_too(first, findings):
        yield "imported too", packages


def _narrower(transition: Transition, findings: Findings) -> str:
    """What runs the releases between the ends: the whole line, where it is known how the newer end ran."""
    ends = clean(transition.before.build), clean(transition.after.build)
    runs = {str(run.get("run_id")): run for run in findings.runs}
    for each in findings.observed(transition.series, transition.after.build):
        if each.run_id in runs:
            return f"`{range_line(each, runs[each.run_id], *ends, findings.results)}`"
    return "--from {} --to {}".format(*ends)


def _differs(group: Sequence[Transition], findings: Findings) -> Iterable[tuple[str, str]]:
    before, after = group[0].before.build, group[0].after.build
    old, new = findings.environments.get(before), findings.environments.get(after)
    known = old is not None and new is not None
    words = difference_words(old, new) if old is not None and new is not None else []
    files = differing_at([(each.series, before, after) for each in group], findings)
    words += [f"{clean(file)}, which is read" for file in files]
    if words or known:
        yield "also differ", "; ".join(words) if words else "nothing else: only torch"


def _confidence(group: Sequence[Transition], findings: Findings) -> str:
    before = min(agreeing(each.before) for each in group)
    after = min(agreeing(each.after) for each in group)
    own = all(each.before.own_process and each.after.own_process for each in group)
    how = ", each side once in its own interpreter" if own else ""
    enough = max(enough_processes(each.series.answers) for each in group)
    needed = lacking([point for each in group for point in (each.before, each.after)], ends=2, enough=enough)
    text = f"{before} and {after} processes agree{needed}{how}"
    if all(each.confirmed for each in group):
        return text
    why = doubts([(each.series, each.before.build, each.after.build) for each in group], findings)
    missing = "" if own or needed else ", but not each side in its own interpreter"
    return f"not confirmed: {'; '.join([*why, text + missing])}"


def _groups_of_transitions(transitions: Iterable[Transition]) -> list[list[Transition]]:
    groups: dict[tuple[object, ...], list[Transition]] = {}
    for each in transitions:
        old, new = each.before.judgement, each.after.judgement
        key = (
            case_of(each.series), each.kind, each.before.build, each.after.build, old.signature, new.signature,
            old.failure, new.failure, old.api_absent, new.api_absent, each.between, each.confirmed,
            _happened_before(each),
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
                else (
                    "flaky" if point.flaky else point.judgement.signature,
                    point.judgement.api_absent,
                    "" if point.flaky else point.judgement.failure,
                )
                for point in each.answers
            )
            known[id(each.answers)] = number.setdefault(history, len(number))
        groups.setdefault((case_of(each), known[id(each.answers)]), []).append(each)
    return list(groups.values())

"""Sentences about rows without a transition: flaky, or bad in the same way on every build. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bisect_torch.analysis.transitions import confirmed, flaky_repeats
from bisect_torch.model import Isolation, Point, Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.origin import from_a_package
from bisect_torch.report.phrases import SEVERAL, does
from bisect_torch.report.seen import explanations, seen, uses
from bisect_torch.report.sentence import Sentence, agreeing, isolation, key_of, lacking, plural_verb, subject
from bisect_torch.report.text import clean, listed, plural


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
        f"{words} of {plural(total, 'run')}; no transition is claimed there{_few_elsewhere(series)}.",
        evidence=tuple(_flaky_evidence(series)),
        instances=tuple(each.instance for each in series),
        rows=tuple(map(key_of, series)),
        before=names[0],
        after=names[-1],
    )


def _few_elsewhere(series: Sequence[Series]) -> str:
    """That the builds that are not flaky ran too few times to tell, to follow what is told of the flaky ones."""
    enough = flaky_repeats(len(series[0].builds))
    runs: dict[str, int] = {}
    for each in series:
        for point in each.answers:
            if point is not None and point.judgement.verdict.judged and not point.flaky:
                runs[point.build] = min(sum(point.counts.values()), runs.get(point.build, enough))
    few = [number for number in runs.values() if number < enough]
    if not few:
        return ""
    least, most = ("once" if number == 1 else f"{number} times" for number in (min(few), max(few)))
    times = f"{least} each" if least == most else f"{least} to {most}"
    others = "the other build" if len(runs) == 1 else f"the other {len(runs)} builds"
    which = others if len(few) == len(runs) else f"{len(few)} of {others}"
    return f", and {which} ran only {times.removesuffix(' each') if len(few) == 1 else times}: too few to tell"


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


def _judged_names(series: Sequence[Series]) -> set[str]:
    return {
        point.build
        for each in series
        for point in each.answers
        if point is not None and (point.flaky or point.judgement.verdict.judged)
    }


def always_sentence(series: Sequence[Series], findings: Findings) -> Sentence | None:
    """The sentence for instances with the same bad signature, or no such API, in every build that was judged."""
    first = series[0]
    judged = [point for point in first.answers if point is not None and point.judgement.verdict.judged]
    if not judged or not judged[0].judgement.verdict.bad:
        return None
    if len({(point.judgement.signature, point.judgement.api_absent) for point in judged}) != 1:
        return None
    judgement = judged[0].judgement
    if len({point.judgement.failure for point in judged}) > 1:
        judgement = replace(judgement, failure=SEVERAL)
    left = len(first.builds) - len(judged)
    every = "every build" if not left else f"every judged build ({left} not judged)"
    span, on = f"from {clean(judged[0].build)} to {clean(judged[-1].build)}", f"on {clean(judged[-1].build)}: "
    if len(judged) == 1:
        every, span, on = clean(judged[0].build), "the only build judged", ""
    what = plural_verb(does(judgement), len(series))
    if judgement.api_absent:
        cells = [(each, point) for each in series for point in each.answers if point and point.judgement.api_absent]
        what = f"{uses(cells, findings)} is absent"
    last = first.builds.index(judged[-1].build)
    newest = [(each, point) for each in series if (point := each.points[last]) is not None]
    what_seen = on + seen(newest[:1], findings)
    if judgement.verdict is Verdict.ERROR and judged[0].judgement.detail != judged[-1].judgement.detail:
        oldest = seen([(first, judged[0])], findings)
        if f"{on}{oldest}" != what_seen:
            what_seen = f"on {clean(judged[0].build)}: {oldest}; {what_seen}"
    models = explanations(newest, findings)
    ends = list(dict.fromkeys((judged[0].build, judged[-1].build)))
    package = from_a_package(series, ends, findings) if judgement.verdict is Verdict.ERROR else None
    unsure, confidence = _confidence_of_ends(judged, series, findings)
    return Sentence(
        kind="always",
        text=f"{subject(series, findings)} {what} in {every}, {span}{', not confirmed' if unsure else ''}.",
        evidence=(
            *([("seen", what_seen)] if what_seen != on else []),
            *([("perhaps meant", meant)] if (meant := _meant(newest, findings)) else []),
            *([("explained by", on + models)] if models else []),
            *([("error comes from", package)] if package else []),
            ("confidence", confidence),
            *isolation(judged),
        ),
        instances=tuple(each.instance for each in series),
        rows=tuple(map(key_of, series)),
        before=judged[0].build,
        after=judged[-1].build,
        word="API absent" if judgement.api_absent else "bad",
        confirmed=not unsure,
    )


def _meant(ends: Sequence[tuple[Series, Point]], findings: Findings) -> str:
    """The name of torch that is like the absent one, where all rows have the same."""
    near = {
        each.measured.get("nearest_name") if point.judgement.api_absent else None
        for series, point in ends
        for each in findings.observed(series, point.build)
    }
    name = near.pop() if len(near) == 1 else None
    return clean(name) if isinstance(name, str) else ""


def _confidence_of_ends(judged: Sequence[Point], series: Sequence[Series], findings: Findings) -> tuple[bool, str]:
    """Whether it is doubtful that these are bad at the oldest and the newest build that was judged, and why.

    What :mod:`bisect_torch.analysis.confirm` leaves at fewer runs by design is not confirmed either: it is said why.
    """
    names = list(dict.fromkeys((judged[0].build, judged[-1].build)))
    ends = [[point for each in series if (point := _at(each, name)) is not None] for name in names]
    every = [point for points in ends for point in points]
    own = all(point.own_process for point in every)
    unsure = not all(map(confirmed, every))
    fewest = [min(map(agreeing, points)) for points in ends]
    needed = lacking(every, ends=len(names))
    if len(names) == 1:
        one_of_them = "" if fewest[0] == 1 else "one of them "
        text = f"seen in {plural(fewest[0], 'process', 'processes')}{needed}"
        text += f", {one_of_them}its own interpreter" if own else ""
    else:
        text = f"{fewest[0]} and {fewest[1]} processes agree at the first and the last build{needed}"
        text += ", each once in its own interpreter" if own else ""
    why = _why_no_more(judged[-1], series, findings, own=own)
    if unsure and not why and not own and not needed:
        why = ", but not each once in its own interpreter" if len(names) > 1 else ", none of them its own interpreter"
    return unsure, f"not confirmed: {text}{why}" if unsure else text


def _why_no_more(newest: Point, series: Sequence[Series], findings: Findings, *, own: bool) -> str:
    """Why no more runs are made of it, to follow the number of them; empty where only time was short."""
    if Isolation.SESSION.value in {o.isolation for o in findings.observed(series[0], newest.build)}:
        return "; a test of a suite runs again only where it changes"
    if own and newest.judgement.verdict is Verdict.TIMEOUT:
        return "; what times out in every build is waited for no more than that"
    return ""


def _at(series: Series, build: str) -> Point | None:
    return series.answers[series.builds.index(build)]

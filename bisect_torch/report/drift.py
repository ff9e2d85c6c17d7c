"""Where the bits of a result changed although it is right on both sides. A mention, never a transition."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bisect_torch.model import Point, Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import clean, listed, plural

_Digests = Mapping[tuple[object, object], set[object]]
"""Repeat and seed to digests: only the same input is compared."""

WHAT = {"digest": "output", "reference_digest": "reference", "input_digest": "input"}

_MOST_PAIRS = 3
"""Pairs of builds that are named; of more, all but two are counted."""

_COMPARED = ("repeat", "seed", *WHAT)


@dataclass(frozen=True)
class Drift:
    """Bits that differ between two neighbouring builds that are both ok.

    Args:
        what: ``digest``, ``reference_digest`` or ``input_digest``.
        instances: Where; with the name of the file, where several have a case of that name.
    """

    what: str
    before: str
    after: str
    instances: tuple[str, ...]


def drift_words(found: Sequence[Drift]) -> list[str]:
    """One line for outputs, one for references, one for inputs, where there is any drift."""
    return [_words(what, [each for each in found if each.what == what]) for what in WHAT if _any(found, what)]


def _any(found: Sequence[Drift], what: str) -> bool:
    return any(each.what == what for each in found)


def _words(what: str, found: Sequence[Drift]) -> str:
    meaning = "all are ok" if what == "digest" else "what the results are measured with changed too"
    if len(found) == 1:
        ends = f"{clean(found[0].before)} and {clean(found[0].after)}"
        return f"{WHAT[what]} bits differ between {ends} in {_where(found[0])} ({meaning})"
    places = [f"between {clean(each.before)} and {clean(each.after)} in {_where(each)}" for each in found]
    if len(places) > _MOST_PAIRS:
        places[_MOST_PAIRS - 1 :] = [f"between {len(places) - _MOST_PAIRS + 1} more pairs of builds"]
    return f"{WHAT[what]} bits differ ({meaning}) {listed(places)}"


def _where(drift: Drift) -> str:
    return clean(drift.instances[0]) if len(drift.instances) == 1 else plural(len(drift.instances), "instance")


def drifts(findings: Findings) -> list[Drift]:
    """All drifts, oldest first; within one pair of builds the output comes before reference and input."""
    found: dict[tuple[int, int, str, str, str], list[str]] = {}
    kinds = list(WHAT)
    order = {name: place for place, name in enumerate(findings.build_names)}
    for series, before, after, what in drifting(findings):
        place = (order.get(after.build, 0), kinds.index(what), what, before.build, after.build)
        found.setdefault(place, []).append(findings.name_of(series))
    return [
        Drift(what, before_name, after_name, tuple(instances))
        for (_, _, what, before_name, after_name), instances in sorted(found.items())
    ]


def drifting(findings: Findings) -> Iterator[tuple[Series, Point, Point, str]]:
    """Series, older and newer point, and what of :data:`WHAT` differs between them, cell by cell."""
    varying = findings.varying(_COMPARED)
    for series in findings.series:
        if varying is not None and (series.case_file, series.instance, series.device) not in varying:
            continue
        known = findings.combinations(series, _COMPARED)
        digests = functools.cache(functools.partial(_digests, findings, series))
        before: Point | None = None
        for point in series.answers:
            if point is None or not point.solid or point.judgement.verdict is not Verdict.OK:
                before = None if point is not None and point.judgement.verdict.judged else before
                continue
            if before is not None and not _surely_alike(known, before, point):
                for what in findings.unlike(series, before.build, point.build, tuple(WHAT)):
                    if _differ(digests(before.build)[what], digests(point.build)[what]):
                        yield series, before, point, what
            before = point


def _surely_alike(known: Mapping[str, frozenset[int]], before: Point, after: Point) -> bool:
    return before.build in known and known[before.build] == known.get(after.build)


def _differ(left: _Digests, right: _Digests) -> bool:
    """Whether the same input gave other bits."""
    return any(left[key].isdisjoint(right[key]) for key in left.keys() & right.keys())


def _digests(findings: Findings, series: Series, build: str) -> Mapping[str, _Digests]:
    """What of :data:`WHAT` to its digests in one cell."""
    found: dict[str, dict[tuple[object, object], set[object]]] = {what: {} for what in WHAT}
    for repeat, seed, *digests in findings.facts(series, build, _COMPARED):
        for what, digest in zip(WHAT, digests, strict=True):
            if digest is not None:
                found[what].setdefault((repeat, seed), set()).add(digest)
    return found

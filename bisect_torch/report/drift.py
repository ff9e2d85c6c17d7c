"""Where the bits of a result changed although it is right on both sides. A mention, never a transition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bisect_torch.model import Observation, Point, Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import clean, plural

_Digests = Mapping[tuple[int, int | None], frozenset[str]]
"""Repeat and seed to digests: only the same input is compared."""

WHAT = {"digest": "output", "reference_digest": "reference", "input_digest": "input"}


@dataclass(frozen=True)
class Drift:
    """Bits that differ between two neighbouring builds that are both ok.

    Args:
        what: ``digest``, ``reference_digest`` or ``input_digest``.
        instances: Where.
    """

    what: str
    before: str
    after: str
    instances: tuple[str, ...]

    def __str__(self) -> str:
        where = clean(self.instances[0]) if len(self.instances) == 1 else plural(len(self.instances), "instance")
        ends = f"between {clean(self.before)} and {clean(self.after)}"
        if self.what == "digest":
            return f"output bits differ {ends} in {where} (all within tolerance)"
        return f"{WHAT[self.what]} bits differ {ends} in {where}: what the results are measured with changed too"


def drifts(findings: Findings) -> list[Drift]:
    """All drifts, oldest first; within one pair of builds the output comes before reference and input."""
    found: dict[tuple[int, int, str, str, str], list[str]] = {}
    kinds = list(WHAT)
    by_cell = _by_cell(findings.observations)
    order = {name: place for place, name in enumerate(findings.build_names)}
    for series in findings.series:
        before: Point | None = None
        for point in series.points:
            if point is None or not point.solid or point.judgement.verdict is not Verdict.OK:
                before = None if point is not None and point.judgement.verdict.judged else before
                continue
            if before is not None:
                for what in _differing(series, before, point, by_cell):
                    place = (order.get(point.build, 0), kinds.index(what), what, before.build, point.build)
                    found.setdefault(place, []).append(series.instance)
            before = point
    return [
        Drift(what, before_name, after_name, tuple(instances))
        for (_, _, what, before_name, after_name), instances in sorted(found.items())
    ]


_Cell = tuple[str, str, str, str]


def _by_cell(observations: Iterable[Observation]) -> dict[_Cell, list[Observation]]:
    cells: dict[_Cell, list[Observation]] = {}
    for each in observations:
        cells.setdefault((each.case_file, each.instance, each.device, each.build_name), []).append(each)
    return cells


def _differing(
    series: Series, before: Point, after: Point, by_cell: Mapping[_Cell, list[Observation]]
) -> Iterable[str]:
    cell = (series.case_file, series.instance, series.device)
    old, new = by_cell.get((*cell, before.build), []), by_cell.get((*cell, after.build), [])
    for what in WHAT:
        left, right = _digests(old, what), _digests(new, what)
        if any(left[key].isdisjoint(right[key]) for key in left.keys() & right.keys()):
            yield what


def _digests(observations: Iterable[Observation], what: str) -> _Digests:
    found: dict[tuple[int, int | None], set[str]] = {}
    for each in observations:
        digest = getattr(each, what)
        if digest is not None:
            found.setdefault((each.repeat, each.seed), set()).add(digest)
    return {key: frozenset(digests) for key, digests in found.items()}

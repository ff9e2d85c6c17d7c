"""The two builds that a report is about, and one observation on each that shows what happened there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bisect_torch.analysis import judge
from bisect_torch.analysis.causes import Cause
from bisect_torch.model import Isolation, Observation, Point, Series, TransitionKind
from bisect_torch.report.findings import Findings

_WORDS = {
    TransitionKind.BROKE: ("last good", "first bad"),
    TransitionKind.FIXED: ("last bad", "first good"),
    TransitionKind.APPEARED: ("last without it", "first with it"),
    TransitionKind.DISAPPEARED: ("last with it", "first without it"),
}


@dataclass(frozen=True)
class End:
    """One of them.

    Args:
        words: ``first bad``.
        seen: What happened; of a cell that ran several times, a run in an interpreter of its own comes first.
    """

    words: str
    series: Series
    point: Point
    seen: Observation

    @property
    def short(self) -> str:
        """``last good: ok``."""
        happened = "flaky" if self.point.flaky else self.point.judgement.signature
        return f"{self.words.partition(';')[0]}: {happened}"

    @property
    def build(self) -> str:
        """Name of its build."""
        return self.point.build


def ends_of(cause: Cause, findings: Findings) -> list[End]:
    """The older and the newer end of the main change; where nothing changed, the newest build that is bad."""
    change = cause.main_change
    if change:
        first = change[0]
        words = _WORDS.get(first.kind, ("before", "after"))
        pairs = [(words[0], first.series, first.before), (words[1], first.series, first.after)]
    else:
        bad = [point for point in cause.series[0].points if point and (point.flaky or point.judgement.verdict.bad)]
        newest = "newest; one of the runs that differ" if bad[-1].flaky else "newest"
        pairs = [(newest, cause.series[0], bad[-1])]
    found = [
        (words, series, point, _showing(findings.observed(series, point.build), point))
        for words, series, point in pairs
    ]
    return [End(words, series, point, seen) for words, series, point, seen in found if seen is not None]


def shown(ends: Sequence[End]) -> End | None:
    """The end whose traceback and values are shown: the newer one that is bad."""
    return next((end for end in reversed(ends) if end.point.judgement.verdict.bad), None)


def _showing(observations: Sequence[Observation], point: Point) -> Observation | None:
    fitting = [each for each in observations if judge(each).signature == point.judgement.signature]
    own = [each for each in fitting if each.isolation == Isolation.PROCESS.value]
    return next(iter([*own, *fitting]), None)

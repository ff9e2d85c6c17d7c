"""What became of earlier verdicts on a new build. Pure."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass

from bisect_torch.analysis.series import Row
from bisect_torch.analysis.transitions import CONFIRMING_PROCESSES, confirmed
from bisect_torch.model import Point, Series, Verdict

MOST_REPEATS = 30
MISSED = 0.05
"""Accepted probability that a flaky case shows nothing of its fault in all repeats, though the fault is still there."""


class Change(str, enum.Enum):
    """What became of a cell."""

    FIXED = "fixed"
    NO_LONGER_BAD = "no longer bad"
    STILL_BAD = "still bad"
    FAILS_DIFFERENTLY = "fails differently"
    FLAKY = "flaky"
    NEWLY_BAD = "newly bad"
    STILL_OK = "still ok"
    UNJUDGED = "not judged"

    @property
    def bad(self) -> bool:
        """Whether the new build is bad there."""
        return self in (Change.STILL_BAD, Change.FAILS_DIFFERENTLY, Change.FLAKY, Change.NEWLY_BAD)


@dataclass(frozen=True)
class Rechecked:
    """One row, before and now.

    Args:
        row: Case file, instance and device, as the earlier results name them.
        before: The newest judged point of the earlier results.
        after: On the new build; None where it did not run.
        reason: Why it was not judged; empty otherwise.
    """

    row: Row
    before: Point
    after: Point | None
    change: Change
    reason: str = ""

    @property
    def answer(self) -> str:
        """Change and signature: what a later run compares with."""
        return f"{self.change.value}: {self.after.judgement.signature}" if self.after else self.change.value


def newest_judged(series: Series) -> Point | None:
    """The point of the newest build on which the row was judged; None where it never was."""
    judged = [point for point in series.points if point is not None and point.judgement.verdict.judged]
    return judged[-1] if judged else None


def is_bad(point: Point) -> bool:
    """Whether a judged point is bad, or only now and then good."""
    return point.flaky or point.judgement.verdict.bad


def rechecked(
    row: Row,
    before: Point,
    after: Point | None,
    *,
    missing: str = "it did not run",
    unreached: str = "",
    only_ran: bool = False,
) -> Rechecked:
    """What became of a row.

    A cell that is ok has become so only once it could be the end of a transition, and only where what failed has run:
    else nothing is said.

    Args:
        missing: Why there is no point.
        unreached: Of a cell that is ok, why what failed may not have run: :func:`~.unreached.why_unreached`.
        only_ran: It is known to check nothing. What is ok then is not known to be fixed.
    """
    if after is None:
        return Rechecked(row, before, None, Change.UNJUDGED, missing)
    judgement = after.judgement
    if not judgement.verdict.judged:
        reason = judgement.reason if judgement.reason != judgement.verdict.value else ""
        said = f"{judgement.verdict.value}: {reason}" if reason else judgement.verdict.value
        return Rechecked(row, before, after, Change.UNJUDGED, said)
    if not is_bad(before):
        return Rechecked(row, before, after, Change.NEWLY_BAD if is_bad(after) else Change.STILL_OK)
    if after.flaky:
        return Rechecked(row, before, after, Change.FLAKY)
    if judgement.verdict is Verdict.OK:
        if unreached:
            return Rechecked(row, before, after, Change.UNJUDGED, f"ok, but what failed may not have run: {unreached}")
        if confirmed(after):
            return Rechecked(row, before, after, Change.NO_LONGER_BAD if only_ran else Change.FIXED)
        return Rechecked(row, before, after, Change.UNJUDGED, "ok, but not in enough processes to be sure")
    same = judgement.signature in (before.counts or {before.judgement.signature: 1})
    return Rechecked(row, before, after, Change.STILL_BAD if same else Change.FAILS_DIFFERENTLY)


def repeats_for(points: Iterable[Point]) -> int:
    """Repeats of each cell so that a fix is no chance: 1, and the confirmations come on top, where no point is flaky.

    A cell that was bad in a share p of its repeats is good n times in a row, with its fault still there, with a
    probability of (1 - p)**n; n is the least with which that is at most :data:`MISSED`, but at most
    :data:`MOST_REPEATS`.
    """
    most = 1
    for point in points:
        total = sum(point.counts.values())
        bad = total - point.counts.get(Verdict.OK.value, 0)
        if point.flaky and 0 < bad < total:
            most = max(most, CONFIRMING_PROCESSES, math.ceil(math.log(MISSED) / math.log(1 - bad / total)))
    return min(most, MOST_REPEATS)


def exit_code(rows: Iterable[Rechecked]) -> int:
    """0: what was bad no longer is, and nothing else; 1: something is bad; 3: the rest could not be judged."""
    changes = {row.change for row in rows}
    if any(change.bad for change in changes):
        return 1
    return 3 if Change.UNJUDGED in changes else 0

"""Which rows likely have one cause, and which of the causes weighs most. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from bisect_torch.analysis.transitions import changes, fold, transitions
from bisect_torch.model import Point, Series, Transition, TransitionKind, Verdict

Models = Mapping[tuple[str, str, str, str], str]
"""Case file, instance, device and build to the fault model that reproduces the wrong value there exactly."""

_BAD_ENDS = (TransitionKind.BECAME_SILENT, TransitionKind.BROKE)
_KINDS = (
    *_BAD_ENDS, TransitionKind.CHANGED, TransitionKind.FIXED, TransitionKind.DISAPPEARED, TransitionKind.APPEARED,
)  # fmt: skip
_NO_EXCEPTION = (Verdict.CRASH, Verdict.TIMEOUT, Verdict.OOM)
_VERDICTS = (Verdict.WRONG, Verdict.CRASH, Verdict.ERROR, Verdict.TIMEOUT, Verdict.OOM)


class Others(Sequence[Series]):
    """Rows of a group that are not among some of them, without a copy of the group for each cause."""

    def __init__(self, group: Sequence[Series], without: Sequence[Series]) -> None:
        self._group = group
        self._without = without

    def __len__(self) -> int:
        return len(self._group) - len(self._without)

    @overload
    def __getitem__(self, place: int) -> Series: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Series]: ...
    def __getitem__(self, place: int | slice) -> Series | Sequence[Series]:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            return list(itertools.islice(self, start, stop, step)) if step > 0 else list(self)[place]
        return next(itertools.islice(self, range(len(self))[place], None))

    def __iter__(self) -> Iterator[Series]:
        left_out = {id(each) for each in self._without}
        return (each for each in self._group if id(each) not in left_out)


@dataclass(frozen=True)
class Cause:
    """Rows that went the same way on every build, and what shows that it likely is for one reason.

    Args:
        series: At least one, in the order of the results.
        changes: One for each change, oldest first: the transitions of all rows there, unconfirmed ones first.
        same_history: Other rows with the same signature on every build, of which nothing tells that they have the
            same cause.
    """

    series: tuple[Series, ...]
    changes: tuple[tuple[Transition, ...], ...]
    same_history: Sequence[Series] = ()

    @property
    def judged(self) -> tuple[Point, ...]:
        """The judged points of the first row."""
        return tuple(point for point in self.series[0].answers if point is not None and point.judgement.verdict.judged)

    @property
    def flaky(self) -> bool:
        """Whether a cell of one of its rows is."""
        return any(point is not None and point.flaky for each in self.series for point in each.answers)

    @property
    def main_change(self) -> tuple[Transition, ...]:
        """The change that a report is about: the newest of those that made it worst. Empty where nothing changed."""
        return min(reversed(self.changes), key=lambda change: _badness(change[0]), default=())


def _badness(change: Transition) -> tuple[int, bool]:
    """What made it worse sorts first; of two other ways to fail, an exception that gave way to a crash or a hang."""
    was, became = change.before.judgement.verdict, change.after.judgement.verdict
    return _KINDS.index(change.kind), not (was is Verdict.ERROR and became in _NO_EXCEPTION)


def causes(series: Sequence[Series], models: Models | None = None) -> list[Cause]:
    """What is to be told about these rows, grouped, the most severe first; rows that are ok wherever judged are not.

    Instances of one case with the same signature on every build are one cause. Rows of different cases are so only
    where more is alike than the builds: the same normalised message and frame, or the same fault model, wherever they
    are bad at the end of a change and on the newest build. Two values that become wrong in one release are common, and
    say nothing about each other.

    Args:
        models: For wrong values that a fault model explains.
    """
    found: list[Cause] = []
    for alike in fold(series):
        if not _telling(alike[0]):
            continue
        groups: dict[object, list[Series]] = {}
        for each in alike:
            groups.setdefault(_evidence(each, models or {}) or _case(each), []).append(each)
        parts = _with_their_case(list(groups.values()))
        for part in parts:
            found.append(Cause(tuple(part), _changes(part), Others(alike, part)))
    return sorted(found, key=_severity)  # stable


def _with_their_case(groups: list[list[Series]]) -> list[list[Series]]:
    """Groups that share a case are one: instances of a case that went alike are never told apart."""
    merged: list[list[Series]] = []
    of_case: dict[tuple[str, str], int] = {}
    for group in groups:
        cases = dict.fromkeys(map(_case, group))
        home = min((of_case[case] for case in cases if case in of_case), default=len(merged))
        if home == len(merged):
            merged.append([])
        merged[home] += group
        for case in cases:
            of_case.setdefault(case, home)
    return merged


def _case(series: Series) -> tuple[str, str]:
    return series.case_file, series.instance.partition("[")[0]


def _telling(series: Series) -> bool:
    """Whether something is bad, flaky or changes."""
    return any(point is not None and (point.flaky or point.judgement.verdict.bad) for point in series.answers)


def _evidence(series: Series, models: Models) -> tuple[object, ...] | None:
    """What is seen at every bad end of a change and at the newest point; None where one of them shows too little."""
    ends = [
        end
        for one, other, _ in changes(series.builds, series.answers)
        for end in (series.answers[one], series.answers[other])
        if end is not None
    ]
    judged = [point for point in series.answers if point is not None and point.judgement.verdict.judged]
    shown: list[str] = []
    for point in [*ends, *judged[-1:]]:
        if not point.judgement.verdict.bad:
            continue
        if point.flaky:
            return None
        what = point.judgement.detail
        if point.judgement.verdict is Verdict.WRONG:
            what = models.get((series.case_file, series.instance, series.device, point.build), "")
        elif point.judgement.verdict is not Verdict.ERROR:
            what = ""  # a signal, or an end that did not come, has many causes
        if not what:
            return None
        shown.append(what)
    return tuple(shown) or None


def _changes(series: Sequence[Series]) -> tuple[tuple[Transition, ...], ...]:
    at: dict[tuple[str, str], list[Transition]] = {}
    for each in series:
        for found in transitions(each):
            at.setdefault((found.before.build, found.after.build), []).append(found)
    return tuple(tuple(sorted(change, key=lambda one: one.confirmed)) for change in at.values())


def _severity(cause: Cause) -> tuple[int, int, int]:
    """Bad on the newest build before fixed, then what a release broke, then silent values before crashes and errors."""
    judged = cause.judged
    newest = judged[-1] if judged else None
    change = cause.main_change
    worst = min(
        (_VERDICTS.index(point.judgement.verdict) for point in judged if point.judgement.verdict.bad), default=9
    )
    broke = bool(change) and change[0].kind in _BAD_ENDS
    if newest is not None and newest.judgement.verdict.bad and not newest.judgement.api_absent:
        return 0, 0 if broke else 2 if newest.flaky else 1, _VERDICTS.index(newest.judgement.verdict)
    return 1, 0 if broke else 1 + (_KINDS.index(change[0].kind) if change else 0), worst

"""Two sets of results, cell by cell: what differs, what is equal to the bit, what only one of them has. Pure."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bisect_torch.analysis.cells import Cell
from bisect_torch.analysis.matching import (
    Cells,
    Pairs,
    device_pairs,
    devices_of,
    matched_builds,
    matched_rows,
    text_changed,
)
from bisect_torch.analysis.ordering import PlannedOrder
from bisect_torch.analysis.series import Row, collect
from bisect_torch.model import Observation, Point, Verdict
from bisect_torch.numerics.tolerance import kind, unit_roundoff

FACTOR = 10.0
"""Ratio of two errors from which they are said to differ. Another order of the same roundings changes the largest error
by a small factor: measured on 68 instances of the shipped cases, at most 2.1 between one thread and two. A tenfold
error is a digit lost."""


class Relation(str, enum.Enum):
    """How a cell of one set stands to the same cell of the other. The first four are differences."""

    VERDICT = "verdict"
    SIGNATURE = "signature"  # the same verdict by another exception or signal
    ERROR = "error"  # the same signature, and one error is more than the factor times the other
    BITS = "bits"  # the same signature, and other bits
    EQUAL = "equal to the bit"
    ALIKE = "alike"  # the same signature, and no value on both sides that could be compared
    OTHER_INPUT = "other input"  # the same signature, but other inputs: the values cannot be compared
    FLAKY = "flaky"
    UNJUDGED = "not judged"  # on at least one side
    SHARED = "shared"  # one and the same observation stands in both

    @property
    def differs(self) -> bool:
        """Whether the two cells came out differently."""
        return self in (Relation.VERDICT, Relation.SIGNATURE, Relation.ERROR, Relation.BITS)


@dataclass(frozen=True)
class Side:
    """One set of results.

    Args:
        name: What the reports call it.
        observations: In the order in which they were recorded.
        runs: Manifests of the runs that made them.
    """

    name: str
    observations: tuple[Observation, ...]
    runs: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True)
class Compared:
    """One cell that both sets have.

    Args:
        row: Case file, instance and device, as the first set names them.
        device: In the second set.
        builds: The build's name in either set; they differ for local interpreters alone.
        before: In the first set.
        after: In the second.
        bits: Whether the values are equal to the bit; None where there is nothing to compare.
        errors: Largest relative error of either, of the repeats that were compared; None where one is not known, or
            they are of different checks.
        ratio: The larger error over the smaller, infinite where only one is infinite or NaN.
        other_message: Only the detail differs: another message or frame.
    """

    row: Row
    device: str
    builds: tuple[str, str]
    before: Point
    after: Point
    relation: Relation
    bits: bool | None = None
    errors: tuple[float, float] | None = None
    ratio: float | None = None
    other_message: bool = False


@dataclass(frozen=True)
class Comparison:
    """Two sets of results, compared.

    Args:
        first, second: The sets, with only those observations that stand in a compared cell.
        cells: Every cell that both have; rows in the order in which the first set planned them, then builds.
        builds: Builds of these cells, in the order of columns, as the first set names them.
        only_first, only_second: Row and build of the cells that the other set does not have, in its own order.
        devices: Names of the devices that were compared with one another.
        aside: Devices that were not compared, of the first and of the second set.
        changed_files: Case files whose text, or that of a neighbour, is not the same in both.
        older: Number of observations of either set that older case texts, machines or keys have left behind.
        factor: From which ratio of errors on they differ.
        columns: Names of all builds of either set, in the order of columns.
    """

    first: Side
    second: Side
    cells: tuple[Compared, ...]
    builds: tuple[str, ...]
    only_first: tuple[tuple[Row, str], ...]
    only_second: tuple[tuple[Row, str], ...]
    devices: Pairs
    aside: tuple[tuple[str, ...], tuple[str, ...]]
    changed_files: tuple[str, ...]
    older: tuple[int, int]
    factor: float
    columns: tuple[str, ...] = ()

    def of(self, *relations: Relation) -> list[Compared]:
        """The cells that stand so to one another."""
        return [each for each in self.cells if each.relation in relations]

    @property
    def comparable(self) -> bool:
        """Whether at least one cell was judged on both sides, independently."""
        return any(each.relation not in (Relation.UNJUDGED, Relation.SHARED) for each in self.cells)

    @property
    def exit_code(self) -> int:
        """0: no differences; 1: some; 3: there is nothing that could be compared."""
        if not self.comparable:
            return 3
        return int(any(each.relation.differs for each in self.cells))


def compare(
    first: Side, second: Side, builds: Sequence[str], *, devices: Pairs = (), factor: float = FACTOR
) -> Comparison:
    """Compare two sets of results.

    A cell is the same in both when its instance, its build and its case file are: a file of the same bytes, else one
    of the same name, which is then said to have changed. Of each set, only what would stand in a matrix counts.

    Args:
        builds: Names of builds in the order of columns.
        devices: Names in the first and in the second set that are compared; see :func:`device_pairs`.
    """
    ours, theirs = _rows_of(first), _rows_of(second)
    there_are = devices_of(first.observations), devices_of(second.observations)
    pairs = device_pairs(*there_are, devices)
    matched = matched_rows(ours, theirs, pairs)
    names = matched_builds(first.observations, second.observations)
    cells: list[Compared] = []
    used: tuple[list[Observation], list[Observation]] = ([], [])
    for row, other in matched.items():
        for build in sorted(ours[row], key=lambda name: _place(name, builds)):
            there = theirs[other].get(names.get(build, build))
            if there is not None:
                here = ours[row][build]
                cells.append(_compared(row, other[2], (build, names.get(build, build)), (here, there), factor))
                for place, cell in enumerate((here, there)):
                    used[place].extend(observation for observation, _ in cell.repeats)
    seen_first = {(each.row, each.builds[0]) for each in cells}
    seen_second = {(matched[each.row], each.builds[1]) for each in cells}
    return Comparison(
        first=_narrowed(first, used[0]),
        second=_narrowed(second, used[1]),
        cells=tuple(cells),
        builds=tuple(sorted({each.builds[0] for each in cells}, key=lambda name: (_place(name, builds), name))),
        only_first=_rest(ours, seen_first, {one for one, _ in pairs}, builds),
        only_second=_rest(theirs, seen_second, {other for _, other in pairs}, builds),
        devices=pairs,
        aside=(
            tuple(name for name in there_are[0] if name not in {one for one, _ in pairs}),
            tuple(name for name in there_are[1] if name not in {other for _, other in pairs}),
        ),
        changed_files=tuple(
            dict.fromkeys(row[0] for row, other in matched.items() if text_changed(ours[row], theirs[other]))
        ),
        older=(len(first.observations) - _count(ours), len(second.observations) - _count(theirs)),
        factor=factor,
        columns=tuple(builds),
    )


def _rows_of(side: Side) -> Cells:
    """The cells of a set, row by row in the order in which its runs planned them."""
    cells, order = collect(side.observations), PlannedOrder(side.runs)
    return {row: cells[row] for row in sorted(cells, key=order.place)}


# --- sorting out ----------------------------------------------------------------------------------------------


def _place(build: str, builds: Sequence[str]) -> int:
    return builds.index(build) if build in builds else len(builds)


def _count(cells: Cells) -> int:
    return sum(len(cell.repeats) for by_build in cells.values() for cell in by_build.values())


def _rest(
    cells: Cells, seen: set[tuple[Row, str]], devices: set[str], builds: Sequence[str]
) -> tuple[tuple[Row, str], ...]:
    return tuple(
        (row, build)
        for row, by_build in cells.items()
        if row[2] in devices
        for build in sorted(by_build, key=lambda name: _place(name, builds))
        if (row, build) not in seen
    )


def _narrowed(side: Side, used: list[Observation]) -> Side:
    runs = {each.run_id for each in used}
    return Side(side.name, tuple(used), tuple(run for run in side.runs if run.get("run_id") in runs))


# --- how two cells stand to one another -------------------------------------------------------------------------

_Repeats = Mapping[tuple[int, int | None], Observation]
"""Repeat and seed to observation: only the same input is compared."""


def _compared(row: Row, device: str, builds: tuple[str, str], cells: tuple[Cell, Cell], factor: float) -> Compared:
    points = (cells[0].point(builds[0]), cells[1].point(builds[1]))
    plain = Compared(row, device, builds, *points, Relation.SHARED)
    if _shared(*cells):
        return plain
    if not all(point.judgement.verdict.judged for point in points):
        return _with(plain, Relation.UNJUDGED)
    if any(point.flaky for point in points):
        return _with(plain, Relation.FLAKY)
    ours, theirs = _repeats(cells[0]), _repeats(cells[1])
    common = sorted(ours.keys() & theirs.keys(), key=str)
    pairs = [(ours[key], theirs[key]) for key in common]
    same_input = [pair for pair in pairs if _same_input(*pair)]
    bits = _same_bits(same_input)
    errors = _errors(same_input)
    ratio = None if errors is None else _ratio(*errors, _roundoff(same_input))
    relation = _relation(points, bits, ratio is not None and ratio > factor)
    if relation is Relation.ALIKE and same_input != pairs:
        relation = Relation.OTHER_INPUT
    other_message = (
        points[0].judgement.signature == points[1].judgement.signature
        and points[0].judgement.detail != points[1].judgement.detail
    )
    return Compared(row, device, builds, *points, relation, bits, errors, ratio, other_message)


def _with(cell: Compared, relation: Relation) -> Compared:
    return Compared(cell.row, cell.device, cell.builds, cell.before, cell.after, relation)


def _relation(points: tuple[Point, Point], bits: bool | None, error_differs: bool) -> Relation:
    old, new = points[0].judgement, points[1].judgement
    if old.verdict is not new.verdict:
        return Relation.VERDICT
    if old.signature != new.signature:
        return Relation.SIGNATURE
    if bits:
        return Relation.EQUAL
    if error_differs:
        return Relation.ERROR
    return Relation.ALIKE if bits is None else Relation.BITS


def _shared(here: Cell, there: Cell) -> bool:
    """Whether one side has nothing but observations of the other: that they agree then says nothing."""
    mine, others = ({(o.key, o.repeat, o.run_id) for o, _ in cell.repeats} for cell in (here, there))
    return mine <= others or others <= mine


def _repeats(cell: Cell) -> _Repeats:
    return {(o.repeat, o.seed): o for o, _ in cell.judged}


def _same_input(one: Observation, other: Observation) -> bool:
    return None in (one.input_digest, other.input_digest) or one.input_digest == other.input_digest


def _same_bits(pairs: Sequence[tuple[Observation, Observation]]) -> bool | None:
    known = [(one.digest, other.digest) for one, other in pairs if one.digest is not None and other.digest is not None]
    return all(one == other for one, other in known) if known else None


def _errors(pairs: Sequence[tuple[Observation, Observation]]) -> tuple[float, float] | None:
    """The largest of either side; None where they are not known, or are of different checks: an observation has the
    numbers of its worst check alone."""
    if any(_check(one) != _check(other) for one, other in pairs):
        return None
    known = [(a.rel_error, b.rel_error) for a, b in pairs if a.rel_error is not None and b.rel_error is not None]
    return (_largest([one for one, _ in known]), _largest([other for _, other in known])) if known else None


def _check(observation: Observation) -> tuple[object, ...]:
    """What tells the checks of a case apart."""
    o = observation
    return o.checks, o.check_path, o.dtype, o.elements, o.criterion, o.reduction_length


def _largest(errors: Sequence[float]) -> float:
    return next((error for error in errors if math.isnan(error)), max(errors))


def _roundoff(pairs: Sequence[tuple[Observation, Observation]]) -> float:
    """Unit roundoff of the compared values: a correctly rounded result may have an error of that size (Higham, Accuracy
    and Stability of Numerical Algorithms, 2nd ed., theorem 2.2), so that smaller ones are no better."""
    known = [o.dtype for pair in pairs for o in pair if o.dtype is not None and kind(o.dtype) in ("float", "complex")]
    return max((unit_roundoff(name) for name in known), default=0.0)


def _ratio(one: float, other: float, floor: float) -> float:
    if math.isfinite(one) and math.isfinite(other):
        low, high = sorted((max(one, floor), max(other, floor)))
        return 1.0 if low == high else high / low if low else math.inf
    return 1.0 if repr(one) == repr(other) else math.inf


def wrong_among(cells: Iterable[Compared]) -> int:
    """How many of these are wrong on both sides."""
    return sum(each.before.judgement.verdict is each.after.judgement.verdict is Verdict.WRONG for each in cells)

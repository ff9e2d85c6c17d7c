"""Observations that lie in columns: what many rows share is looked at once. Pure.

A results file with a million rows holds few different combinations of the facts that a judgement depends on, and a
report shows few of its cells. So rows are told apart by numbers, and an observation is made only for what is really
looked at. What is meant is said elsewhere, once: :func:`~bisect_torch.analysis.judge.judge`,
:class:`~bisect_torch.analysis.cells.Cell`.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bisect_torch.analysis.judge import FACTS_TO_JUDGE, Tolerances, judge
from bisect_torch.model import Judgement, Observation

ROW = ("case_file", "instance", "device")
CELL = (*ROW, "build_name")
GENERATION = ("case_file_hash", "machine", "device_name", "driver")


@dataclass(frozen=True)
class Codes:
    """Numbers for the combinations of some fields.

    Args:
        of: The number of each row; combinations are numbered from 0 in the order in which they first occur.
        first: A row of each combination: the first.
    """

    of: Sequence[int]
    first: Sequence[int]


class Columns(Sequence[Observation]):
    """Observations in the order in which they were recorded, each made when it is asked for."""

    @abstractmethod
    def codes(self, names: Sequence[str]) -> Codes:
        """Which rows agree in these fields."""

    @abstractmethod
    def values(self, name: str) -> Sequence[object]:
        """One field of every row. A value that many rows share is one object."""

    @abstractmethod
    def ordered(self, codes: Codes, name: str) -> Sequence[int]:
        """All rows, sorted by their numbers, then by a text field (None counts as empty), then by their place."""

    @abstractmethod
    def take(self, places: Sequence[int]) -> Columns:
        """These rows, in this order, without copying anything."""

    def distinct(self, name: str) -> list[object]:
        """The different values of a field, in the order in which they first occur."""
        return [self.field(place, name) for place in self.codes((name,)).first]

    @abstractmethod
    def field(self, place: int, name: str) -> object:
        """One field of one row."""

    def with_value(self, name: str) -> Columns:
        """The rows in which a text is there and not empty."""
        return self.take([place for place, value in enumerate(self.values(name)) if value])

    def of_rows(self, rows: Iterable[tuple[str, str, str]]) -> Columns:
        """The observations of these rows: case file, instance, device."""
        known = self.by_row.number
        return self.take(sorted(place for row in rows if row in known for place in self.by_row.of(row)))

    def cells_of(self, row: tuple[str, str, str]) -> Mapping[str, Sequence[int]]:
        """Build name to where the observations of that cell of a row stand, in the order in which they were made."""
        if self._last_row != row:
            found: dict[str, list[int]] = {}
            names = self.values("build_name")
            for place in sorted(self.by_row.of(row)) if row in self.by_row.number else ():
                found.setdefault(str(names[place]), []).append(place)
            self._last_row, self._last_cells = row, found
        return self._last_cells

    _last_row: tuple[str, str, str] | None = None
    _last_cells: Mapping[str, Sequence[int]] = {}

    @functools.cached_property
    def once_each(self) -> bool:
        """Whether all observations count: a row has one generation, a cell one key, a repeat one observation."""
        cells, rows = (len(self.codes(names).first) for names in (CELL, ROW))
        return (
            len(self.codes((*ROW, *GENERATION)).first) == rows
            and len(self.codes((*CELL, "key")).first) == cells
            and len(self.codes((*CELL, "repeat")).first) == len(self)
        )

    @functools.cached_property
    def by_row(self) -> RowPlaces:
        """Where the observations of each row stand, oldest first."""
        codes = self.codes(ROW)
        ends = [0] * len(codes.first)
        for code in codes.of:
            ends[code] += 1
        starts, total = [], 0
        for number in ends:
            starts.append(total)
            total += number
        files, instances, devices = ([str(self.field(place, name)) for place in codes.first] for name in ROW)
        return RowPlaces(
            {row: place for place, row in enumerate(zip(files, instances, devices, strict=True))},
            (*starts, total),
            self.ordered(codes, "started_at"),
        )


@dataclass(frozen=True)
class RowPlaces:
    """Where the observations of each row stand.

    Args:
        number: Case file, instance and device to the row's number, in the order of their first observations.
        starts: Where the places of each row begin in ``places``, and the end of the last.
        places: Of all observations, row by row, the oldest of a row first; of equally old ones that recorded first.
    """

    number: dict[tuple[str, str, str], int]
    starts: tuple[int, ...]
    places: Sequence[int]

    def of(self, row: tuple[str, str, str]) -> Sequence[int]:
        """The places of one row."""
        number = self.number[row]
        return self.places[self.starts[number] : self.starts[number + 1]]


def telling(observations: Iterable[Observation], names: Sequence[str]) -> Iterable[Observation]:
    """Enough observations to see every combination of these fields: of columns, the first of each."""
    if isinstance(observations, Columns):
        return observations.take(observations.codes(names).first)
    return observations


def judged(columns: Columns, tolerances: Tolerances | None) -> tuple[Sequence[int], list[Judgement]]:
    """What every row means, each combination of facts judged once.

    Returns:
        For each row the number of its judgement, and the different judgements.
    """
    codes = columns.codes(FACTS_TO_JUDGE)
    number: dict[Judgement, int] = {}
    of_code = [number.setdefault(judge(each, tolerances), len(number)) for each in columns.take(codes.first)]
    return array("q", map(of_code.__getitem__, codes.of)), list(number)

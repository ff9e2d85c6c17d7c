"""Observations that lie in columns: what many rows share is looked at once. Pure.

A results file with a million rows holds few different combinations of the facts that a judgement depends on, and a
report shows few of its cells. So rows are told apart by numbers, and an observation is made only for what is really
looked at. What is meant is said elsewhere, once: :func:`~bisect_torch.analysis.judge.judge`,
:class:`~bisect_torch.analysis.cells.Cell`.
"""

from __future__ import annotations

import functools
import itertools
from abc import abstractmethod
from array import array
from collections import Counter
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
    def first(self, names: Sequence[str]) -> Sequence[int]:
        """A row of each combination of these fields, as :meth:`codes` has them, which takes less to keep."""

    @abstractmethod
    def values(self, name: str) -> Sequence[object]:
        """One field of every row. A value that many rows share is one object."""

    @abstractmethod
    def grouped(self, numbers: Sequence[int]) -> Sequence[int]:
        """The places of all rows, sorted by their numbers, then as they stand."""

    @abstractmethod
    def several(self, names: Sequence[str]) -> Sequence[int]:
        """Places of the rows with which another row agrees in these fields."""

    @abstractmethod
    def laid_out(self, builds: Sequence[str]) -> Sequence[int]:
        """For each row of :attr:`by_row` and each of these builds, where the first observation of that cell stands; -1
        where there is none."""

    @abstractmethod
    def gathered(self, numbers: Sequence[int], places: Sequence[int]) -> Sequence[int]:
        """Those of the numbers that stand at these places; -1 for the place -1."""

    @abstractmethod
    def paired(self, one: Sequence[int], other: Sequence[int], size: int) -> Sequence[int]:
        """A number for each pair of numbers, of which the second is below ``size``: ``one * size + other``."""

    @abstractmethod
    def take(self, places: Sequence[int]) -> Columns:
        """These rows, in this order, without copying anything."""

    @abstractmethod
    def only(self, places: Sequence[int], names: Sequence[str]) -> Iterable[Observation]:
        """The observations there, of which nothing but these fields may be looked at."""

    def distinct(self, name: str) -> list[object]:
        """The different values of a field, in the order in which they first occur."""
        return [self.field(place, name) for place in self.first((name,))]

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
            self._last_row = row
            self._last_cells = self.by_build(self.by_row.of(row)) if row in self.by_row.number else {}
        return self._last_cells

    _last_row: tuple[str, str, str] | None = None
    _last_cells: Mapping[str, Sequence[int]] = {}

    def by_build(self, places: Iterable[int]) -> dict[str, list[int]]:
        """Build name to those of these places, in the order in which the observations there were made."""
        found: dict[str, list[int]] = {}
        builds = self.values("build_name")
        for place in places:
            build: str = builds[place]  # type: ignore[assignment]
            if build in found:
                found[build].append(place)
            else:
                found[build] = [place]
        for several in found.values():
            if len(several) > 1:
                several.sort(key=self.started_at)  # stable
        return found

    def started_at(self, place: int) -> str:
        """When an observation was made; nothing where that is not known."""
        return str(self.field(place, "started_at") or "")

    @functools.cached_property
    def once_each(self) -> bool:
        """Whether all observations count: a row has one generation, a cell one key, a repeat one observation."""
        if len(self.first((*ROW, *GENERATION))) > len(self.codes(ROW).first):
            return False
        beside = self.take(self.several(CELL))  # an observation that is alone in its cell counts
        cells = len(beside.first(CELL))
        keys, repeats = (len(beside.first((*CELL, name))) for name in ("key", "repeat"))
        return (keys, repeats) == (cells, len(beside))

    @functools.cached_property
    def by_row(self) -> RowPlaces:
        """Where the observations of each row stand, in the order in which they were recorded."""
        codes = self.codes(ROW)
        firsts = self.take(codes.first)
        files, instances, devices = (map(str, firsts.values(name)) for name in ROW)
        number = {row: place for place, row in enumerate(zip(files, instances, devices, strict=True))}
        ends = [0] * len(number)
        for code, times in Counter(codes.of).items():
            ends[code] = times
        return RowPlaces(number, (0, *itertools.accumulate(ends)), self.grouped(codes.of))


@dataclass(frozen=True)
class RowPlaces:
    """Where the observations of each row stand.

    Args:
        number: Case file, instance and device to the row's number, in the order of their first observations.
        starts: Where the places of each row begin in ``places``, and the end of the last.
        places: Of all observations, row by row, of each row in the order in which they were recorded.
    """

    number: dict[tuple[str, str, str], int]
    starts: tuple[int, ...]
    places: Sequence[int]

    def of(self, row: tuple[str, str, str]) -> Sequence[int]:
        """The places of one row."""
        number = self.number[row]
        return self.places[self.starts[number] : self.starts[number + 1]]


def telling(observations: Iterable[Observation], names: Sequence[str]) -> Iterable[Observation]:
    """Enough observations to see every combination of these fields: of columns, the first of each.

    Nothing else of them may be looked at.
    """
    if isinstance(observations, Columns):
        return observations.only(observations.first(names), names)
    return observations


def judged(columns: Columns, tolerances: Tolerances | None) -> tuple[Sequence[int], list[Judgement]]:
    """What every row means, each combination of facts judged once.

    Returns:
        For each row the number of its judgement, and the different judgements.
    """
    codes = columns.codes(FACTS_TO_JUDGE)
    number: dict[Judgement, int] = {}
    of_code = [
        number.setdefault(judge(each, tolerances), len(number)) for each in columns.only(codes.first, FACTS_TO_JUDGE)
    ]
    return columns.gathered(array("q", of_code), codes.of), list(number)

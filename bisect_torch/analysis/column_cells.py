"""Cells of observations that lie in columns, with the meaning of :mod:`bisect_torch.analysis.cells`. Pure.

Most rows of a large results file went alike: the same answer in the same isolation on every build. So what the cells
of a row answered is a line of numbers, each different line becomes points once, and what was measured in a cell is
looked up when it is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import overload

from bisect_torch.analysis.cells import Answer, Cell, answer_of, current, point_of
from bisect_torch.analysis.columns import CELL, GENERATION, ROW, Columns, judged
from bisect_torch.analysis.judge import Tolerances
from bisect_torch.model import Judgement, Observation, Point, Series

Row = tuple[str, str, str]


_MEASURED = ("worker", "elapsed_s", "rel_error", "digest")
"""What enters a point as a number."""


class ColumnRows(Mapping[Row, "ColumnCells"]):
    """Row to build name to cell, each made when it is looked at."""

    def __init__(self, columns: Columns, tolerances: Tolerances | None = None) -> None:
        self.columns = counting(columns)
        self._tolerances = tolerances
        self._by_row = self.columns.by_row
        self._answers: dict[tuple[tuple[int, int], ...], Answer] = {}
        self._several: dict[tuple[int, int], int] = {}
        self._of_several: list[tuple[Answer, int]] = []
        self._points: dict[tuple[int, str], Point | None] = {}

    def __len__(self) -> int:
        return len(self._by_row.number)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._by_row.number)

    def __getitem__(self, row: Row) -> ColumnCells:
        return ColumnCells(self, self.columns.by_build(self._by_row.of(row)))

    def lean(self, row: Row, names: Sequence[str]) -> Mapping[str, Cell]:
        """As the cells of a row, with observations of which nothing but these fields may be looked at."""
        places = self.columns.by_build(self._by_row.of(row))
        return self.made(places, iter(self.columns.only([at for of in places.values() for at in of], names)))

    def made(self, places: Mapping[str, Sequence[int]], made: Iterator[Observation]) -> dict[str, Cell]:
        """Cells of observations that stand at these places, in the same order."""
        return {build: Cell(tuple((next(made), self.judgement(at)) for at in of)) for build, of in places.items()}

    def series(self, builds: Sequence[str]) -> list[Series]:
        """One of every row, over these builds."""
        names, width = tuple(builds), len(builds)
        places = self.columns.laid_out(names)
        numbers = self._laid_out(names, places)
        known: dict[bytes, tuple[Point | None, ...]] = {}
        found = []
        for number, row in enumerate(self):
            line = numbers[number * width : (number + 1) * width]
            answers = known.get(key := line.tobytes())
            if answers is None:
                answers = known[key] = tuple(map(self._bare, line, names))
            points = ColumnPoints(self, row, answers, line, places[number * width : (number + 1) * width], names)
            found.append(Series(*row, builds=names, points=points, alike=answers))
        return found

    def _laid_out(self, names: Sequence[str], places: Sequence[int]) -> array[int]:
        """For each row and build the number of what was answered there."""
        numbers = array("q", self.columns.gathered(self._alone, places))
        column = {name: place for place, name in enumerate(names)}
        for row, build, at in self._cells_with_several:
            if build in column:
                numbers[row * len(names) + column[build]] = self._number_of_several(at)
        return numbers

    @cached_property
    def _cells_with_several(self) -> list[tuple[int, str, list[int]]]:
        """Number of the row, build and places of every cell with several observations."""
        beside = self.columns.several(CELL)
        rows = self.columns.codes(ROW).of
        by_row: dict[int, list[int]] = {}
        for place in beside:
            by_row.setdefault(rows[place], []).append(place)
        return [
            (row, build, at) for row, places in by_row.items() for build, at in self.columns.by_build(places).items()
        ]

    @cached_property
    def _judged(self) -> tuple[Sequence[int], list[Judgement]]:
        return judged(self.columns, self._tolerances)

    @cached_property
    def _isolation(self) -> tuple[Sequence[int], list[str | None]]:
        codes = self.columns.codes(("isolation",))
        return codes.of, [_text(self.columns.field(place, "isolation")) for place in codes.first]

    @cached_property
    def _alone(self) -> Sequence[int]:
        """A number for what each observation means where it is the only one of its cell."""
        return self.columns.paired(self._judged[0], self._isolation[0], len(self._isolation[1]))

    def _number_of_several(self, places: Sequence[int]) -> int:
        """The same for the observations of one cell: below -1."""
        answer = self.answer(places)
        processes = len({self.columns.field(at, "worker") for at in self._judged_of(places)})
        alike = id(answer), processes  # answers live as long as these rows
        if alike not in self._several:
            self._several[alike] = -2 - len(self._of_several)
            self._of_several.append((answer, processes))
        return self._several[alike]

    def _bare(self, number: int, build: str) -> Point | None:
        """The point of a cell, but for what was measured there."""
        if number == -1:
            return None
        known = self._points.get((number, build))
        if known is None:
            if number < 0:
                answer, processes = self._of_several[-2 - number]
            else:
                judgement, isolation = divmod(number, len(self._isolation[1]))
                answer = answer_of([(self._isolation[1][isolation], self._judged[1][judgement])])
                processes = int(answer.judgement.verdict.judged)
            known = self._points[number, build] = Point(
                build, answer.judgement, answer.flaky, answer.counts, processes, answer.own_process, answer.in_forks
            )
        return known

    def answer(self, places: Sequence[int]) -> Answer:
        """What the observations of one cell mean together."""
        codes, judgements = self._judged
        isolation, isolations = self._isolation
        together = tuple([(isolation[at], codes[at]) for at in places])
        answer = self._answers.get(together)
        if answer is None:
            answer = answer_of([(isolations[number], judgements[code]) for number, code in together])
            self._answers[together] = answer
        return answer

    def _judged_of(self, places: Sequence[int]) -> list[int]:
        return [at for at in places if self.judgement(at).verdict.judged]

    def judgement(self, place: int) -> Judgement:
        """What an observation means."""
        codes, judgements = self._judged
        return judgements[codes[place]]

    def point(self, build: str, places: Sequence[int]) -> Point:
        """The point of a cell whose repeats stand there."""
        return point_of(build, self.answer(places), list(self.columns.only(self._judged_of(places), _MEASURED)))


def counting(columns: Columns) -> Columns:
    """The observations that stand in a series."""
    if columns.once_each:
        return columns
    found = array("q")
    generation, key = (columns.codes(names).of for names in (GENERATION, ("key",)))
    builds, repeats = columns.values("build_name"), columns.values("repeat")
    for row in columns.by_row.number:
        places = sorted(columns.by_row.of(row), key=columns.started_at)
        facts = [(generation[at], str(builds[at]), key[at], repeats[at]) for at in places]
        for of in current(facts).values():
            found.extend(places[at] for at in of)
    return columns.take(found)


class ColumnPoints(Sequence[Point | None]):
    """The points of one row, each made when it is looked at; equal to any other sequence of the same points.

    Args:
        answers: The points without what was measured.
        numbers: Of what was answered.
        places: Where the first observation of each cell stands.
        builds: Names of the builds.
    """

    def __init__(
        self,
        rows: ColumnRows,
        row: Row,
        answers: Sequence[Point | None],
        numbers: Sequence[int],
        places: Sequence[int],
        builds: Sequence[str],
    ) -> None:
        self._rows = rows
        self._row = row
        self._builds = builds
        self._answers = answers
        self._numbers = numbers
        self._places = places

    def __len__(self) -> int:
        return len(self._builds)

    @overload
    def __getitem__(self, place: int) -> Point | None: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Point | None, ...]: ...
    def __getitem__(self, place: int | slice) -> Point | tuple[Point | None, ...] | None:
        if isinstance(place, slice):
            return tuple(self[each] for each in range(len(self))[place])
        answer = self._answers[place]
        if answer is None or not answer.processes:
            return answer  # nothing was measured
        build = self._builds[place]
        several = self._numbers[place] < -1
        return self._rows.point(
            build, self._rows.columns.cells_of(self._row)[build] if several else [self._places[place]]
        )

    def __iter__(self) -> Iterator[Point | None]:
        """All of them, for which what was measured is gathered at once."""
        measured = iter(self._rows.columns.only([at for at in self._places if at >= 0], _MEASURED))
        for place, (build, answer) in enumerate(zip(self._builds, self._answers, strict=True)):
            each = next(measured) if self._places[place] >= 0 else None
            if each is None or answer is None or not answer.processes:
                yield answer
            elif self._numbers[place] < -1:
                yield self[place]
            else:
                yield point_of(build, self._rows.answer([self._places[place]]), [each])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class ColumnCells(Mapping[str, Cell]):
    """Build name to cell of one row."""

    def __init__(self, rows: ColumnRows, places: Mapping[str, Sequence[int]]) -> None:
        self._rows = rows
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, build: object) -> bool:
        return build in self._places

    def __getitem__(self, build: str) -> Cell:
        return self._cells[build]

    @cached_property
    def _cells(self) -> dict[str, Cell]:
        """All of them: to make their observations together takes little more than to make one."""
        return self._rows.made(
            self._places, iter(self._rows.columns.take([at for of in self._places.values() for at in of]))
        )

    def point(self, build: str) -> Point | None:
        """The point of a cell; None where it was not run."""
        places = self._places.get(build)
        return None if places is None else self._rows.point(build, places)


def _text(value: object) -> str | None:
    return None if value is None else str(value)

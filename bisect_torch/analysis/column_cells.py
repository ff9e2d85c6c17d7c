"""Cells of observations that lie in columns, with the meaning of :mod:`bisect_torch.analysis.cells`. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from bisect_torch.analysis.cells import Answer, Cell, answer_of, current, point_of
from bisect_torch.analysis.columns import GENERATION, Columns, judged
from bisect_torch.analysis.judge import Tolerances
from bisect_torch.model import Judgement, Point

Row = tuple[str, str, str]


class _Measured(NamedTuple):
    worker: str | None
    elapsed_s: float | None
    rel_error: float | None
    digest: str | None


class ColumnRows(Mapping[Row, "ColumnCells"]):
    """Row to build name to cell, each made when it is looked at."""

    def __init__(self, columns: Columns, tolerances: Tolerances | None = None) -> None:
        self.columns = columns
        self._tolerances = tolerances
        self._by_row = columns.by_row
        self._build = columns.values("build_name")
        self._repeat = columns.values("repeat")
        self._answers: dict[tuple[tuple[object, int], ...], Answer] = {}
        self._alone: dict[tuple[int, int], Point] = {}

    def __len__(self) -> int:
        return len(self._by_row.number)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._by_row.number)

    def __getitem__(self, row: Row) -> ColumnCells:
        return ColumnCells(self, self._current(row))

    def places(self) -> array[int]:
        """Of all observations that count, row by row and cell by cell."""
        found = array("q")
        for row in self:
            for places in self._current(row).values():
                found.extend(places)
        return found

    def _current(self, row: Row) -> dict[str, list[int]]:
        places = self._by_row.of(row)
        if self.columns.once_each:
            return self._all(places)
        generation, key = (self.columns.codes(names).of for names in (GENERATION, ("key",)))
        facts = [(generation[at], str(self._build[at]), key[at], self._repeat[at]) for at in places]
        return {build: [places[at] for at in of] for build, of in current(facts).items()}

    def _all(self, places: Sequence[int]) -> dict[str, list[int]]:
        """As :func:`~bisect_torch.analysis.cells.current`, where everything counts."""
        found: dict[str, list[int]] = {}
        for at in places:
            build: str = self._build[at]  # type: ignore[assignment]
            if build in found:
                found[build].append(at)
            else:
                found[build] = [at]
        return found

    @cached_property
    def _judged(self) -> tuple[Sequence[int], list[Judgement]]:
        return judged(self.columns, self._tolerances)

    @cached_property
    def _isolation(self) -> Sequence[object]:
        return self.columns.values("isolation")

    @cached_property
    def _measured(self) -> tuple[Sequence[object], ...]:
        return tuple(self.columns.values(name) for name in _Measured._fields)

    def judgement(self, place: int) -> Judgement:
        """What an observation means."""
        codes, judgements = self._judged
        return judgements[codes[place]]

    def point(self, build: str, places: Sequence[int]) -> Point:
        """The point of a cell whose repeats stand there."""
        if len(places) == 1:
            return self._point_alone(build, places[0])
        return self._point(build, places)

    def _point(self, build: str, places: Sequence[int]) -> Point:
        codes, judgements = self._judged
        together = tuple([(self._isolation[at], codes[at]) for at in places])
        answer = self._answers.get(together)
        if answer is None:
            answer = answer_of([(_text(isolation), judgements[code]) for isolation, code in together])
            self._answers[together] = answer
        measured = [
            _Measured(*[values[at] for values in self._measured])  # type: ignore[arg-type]
            for at in places
            if judgements[codes[at]].verdict.judged
        ]
        return point_of(build, answer, measured)

    def _point_alone(self, build: str, place: int) -> Point:
        """Of a cell with one repeat: all but the time that it took is shared with cells like it."""
        alike = self._judged[0][place], self._shared[place]
        known = self._alone.get(alike)
        if known is None:
            known = self._alone[alike] = self._point(build, (place,))
        elapsed = self._elapsed[place] if known.processes else None
        return Point(
            build, known.judgement, known.flaky, known.counts, known.processes, known.own_process, known.in_forks,
            elapsed, known.rel_error, known.digests,
        )  # fmt: skip

    @cached_property
    def _shared(self) -> Sequence[int]:
        return self.columns.codes(("isolation", "rel_error", "digest")).of

    @cached_property
    def _elapsed(self) -> Sequence[float | None]:
        return self.columns.values("elapsed_s")  # type: ignore[return-value]


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
        places = self._places[build]
        made = self._rows.columns.take(places)
        return Cell(tuple((each, self._rows.judgement(at)) for each, at in zip(made, places, strict=True)))

    def point(self, build: str) -> Point | None:
        """The point of a cell; None where it was not run."""
        places = self._places.get(build)
        return None if places is None else self._rows.point(build, places)


def _text(value: object) -> str | None:
    return None if value is None else str(value)

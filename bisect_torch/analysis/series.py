"""Observations become points, points become series. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence

from bisect_torch.analysis.cells import Cell, current
from bisect_torch.analysis.column_cells import ColumnCells, ColumnRows, counting
from bisect_torch.analysis.columns import Columns
from bisect_torch.analysis.judge import Tolerances, judge
from bisect_torch.model import Observation, Series

Row = tuple[str, str, str]
"""Case file, instance, device: what names a series."""


def build_series(
    observations: Iterable[Observation],
    builds: Sequence[str],
    tolerances: Tolerances | None = None,
    *,
    rows: Sequence[Row] | None = None,
    keys: Container[str] | None = None,
) -> list[Series]:
    """One series per instance and device.

    Args:
        observations: Of any number of runs, in the order in which they were recorded.
        builds: Names of the builds (``Build.name``), in the order of the columns.
        rows: Which series, in which order; without it every one that was observed, in the order of its first
            observation. A row with no observation has only cells that were not run.
        keys: Keys of the cells that count. Without it, see :func:`collect`.
    """
    cells = collect(observations, tolerances, keys=keys)
    if isinstance(cells, ColumnRows) and rows is None:
        return cells.series(builds)
    return [series_of(row, cells.get(row, {}), builds) for row in (cells if rows is None else rows)]


def series_of(row: Row, cells: Mapping[str, Cell], builds: Sequence[str]) -> Series:
    """The series of one row from its cells by build name."""
    if isinstance(cells, ColumnCells):
        return Series(*row, builds=tuple(builds), points=tuple(map(cells.point, builds)))
    return Series(
        case_file=row[0],
        instance=row[1],
        device=row[2],
        builds=tuple(builds),
        points=tuple(cells[build].point(build) if build in cells else None for build in builds),
    )


def collect(
    observations: Iterable[Observation],
    tolerances: Tolerances | None = None,
    *,
    keys: Container[str] | None = None,
) -> Mapping[Row, Mapping[str, Cell]]:
    """Row to build name to cell.

    Results may hold several generations of a row: the case file was edited, an environment was locked anew, another
    machine had a turn. Only one generation may stand in a series, or that would read as a change of torch. So of a row
    only observations with the case file, machine class and device of the newest one count, and of a cell only those
    with its newest key. Of several runs of the same repeat of a cell, the newest counts.
    """
    if isinstance(observations, Columns) and keys is None:
        return ColumnRows(observations, tolerances)
    by_row: dict[Row, list[Observation]] = defaultdict(list)
    for observation in observations:
        if keys is None or observation.key in keys:
            by_row[(observation.case_file, observation.instance, observation.device)].append(observation)
    return {row: _cells(each, tolerances) for row, each in by_row.items()}


def counted(observations: Iterable[Observation], *, keys: Container[str] | None = None) -> Sequence[Observation]:
    """The observations that stand in a series, without those of older generations (see :func:`collect`)."""
    if isinstance(observations, Columns) and keys is None:
        return counting(observations)
    rows = collect(observations, keys=keys).values()
    return [observation for cells in rows for cell in cells.values() for observation, _ in cell.repeats]


def alike(series: Iterable[Series]) -> list[tuple[Series, int]]:
    """One of all the series that share their answers, and how many there are, in order of first occurrence."""
    found: dict[int, tuple[Series, int]] = {}
    for each in series:
        first, number = found.get(id(each.answers), (each, 0))
        found[id(each.answers)] = first, number + 1
    return list(found.values())


def _cells(observations: list[Observation], tolerances: Tolerances | None) -> dict[str, Cell]:
    ordered = sorted(observations, key=lambda o: o.started_at or "")  # stable: the order of recording decides ties
    counting = current([(_generation(o), o.build_name, o.key, o.repeat) for o in ordered])
    return {
        build: Cell(tuple((ordered[place], judge(ordered[place], tolerances)) for place in places))
        for build, places in counting.items()
    }


def _generation(observation: Observation) -> tuple[str | None, ...]:
    return observation.case_file_hash, observation.machine, observation.device_name, observation.driver

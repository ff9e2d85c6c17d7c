"""The rows of a results file as observations, each made when it is looked at."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from bisect_torch.analysis.columns import ROW, Codes, Columns
from bisect_torch.model import Observation
from bisect_torch.results.schema import DEFAULTS, STORED

_BLOCK = 4096
_FEW = 8
"""Rows up to which one value after another is quicker than making a table of them."""
_MOST = 2**62


class Rows(Columns):
    """Observations that lie in an Arrow table; equal to any other sequence of the same observations.

    Args:
        table: Columns of :data:`~bisect_torch.results.schema.STORED`; those that are left out hold defaults.
        places: Which of its rows, in which order; all when None.
    """

    def __init__(self, table: pa.Table, places: Sequence[int] | None = None) -> None:
        self.table = table
        self._places = places
        self._values: dict[str, Sequence[object]] = {}
        self._codes: dict[tuple[str, ...], Codes] = {}

    def __len__(self) -> int:
        return self.table.num_rows if self._places is None else len(self._places)

    @overload
    def __getitem__(self, place: int) -> Observation: ...
    @overload
    def __getitem__(self, place: slice) -> Rows: ...
    def __getitem__(self, place: int | slice) -> Observation | Rows:
        if isinstance(place, slice):
            return self.take(range(len(self))[place])
        return self._made(range(len(self))[place], 1)[0]

    def __iter__(self) -> Iterator[Observation]:
        for start in range(0, len(self), _BLOCK):
            yield from self._made(start, min(_BLOCK, len(self) - start))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} observations>"

    def _made(self, start: int, number: int) -> list[Observation]:
        places = range(start, start + number) if self._places is None else self._places[start : start + number]
        if number <= _FEW:
            return list(_made(self._names, self._absent, map(self._row, places)))
        part = self.table.slice(start, number) if self._places is None else self.table.take(as_array(places))
        return observations_of(part)

    def _row(self, place: int) -> tuple[object, ...]:
        values = [column[place].as_py() for column in self._columns]
        return tuple(
            value if value is not None else DEFAULTS.get(name) for name, value in zip(self._names, values, strict=True)
        )

    @functools.cached_property
    def _names(self) -> list[str]:
        return _present(self.table)

    @functools.cached_property
    def _absent(self) -> Mapping[str, object]:
        return {name: value for name, value in DEFAULTS.items() if name not in set(self._names)}

    @functools.cached_property
    def _columns(self) -> list[pa.Array]:
        return [self.table.column(name).combine_chunks() for name in self._names]

    # --- by columns

    def take(self, places: Sequence[int]) -> Rows:
        inside = self._places
        taken = Rows(self.table, places if inside is None else array("q", (inside[place] for place in places)))
        taken.__dict__ |= {name: getattr(self, name) for name in ("_names", "_absent", "_columns")}  # as the table's
        return taken

    def field(self, place: int, name: str) -> object:
        if name not in self._names:
            return DEFAULTS[name]
        at = place if self._places is None else self._places[place]
        value = self._columns[self._names.index(name)][at].as_py()
        return DEFAULTS.get(name) if value is None else value

    def values(self, name: str) -> Sequence[object]:
        if name not in self._values:
            self._values[name] = self._values_of(name)
        return self._values[name]

    def _values_of(self, name: str) -> Sequence[object]:
        if name not in self.table.column_names:
            return [DEFAULTS[name]] * len(self)
        numbers, values = _numbered(self._column(name), DEFAULTS.get(name))
        return list(map(values.to_pylist().__getitem__, _numbers_in(numbers)))

    def codes(self, names: Sequence[str]) -> Codes:
        key = tuple(names)
        if key not in self._codes:
            self._codes[key] = self._codes_of(key)
        return self._codes[key]

    def _codes_of(self, names: tuple[str, ...]) -> Codes:
        together, most = pa.repeat(pa.scalar(0, pa.int64()), len(self)), 1
        for name in names:
            if name not in self.table.column_names:
                continue
            numbers, values = _numbered(self._column(name), DEFAULTS.get(name))
            if len(values) < 2:
                continue
            if most * len(values) > _MOST:
                together, most = _renumbered(together)
            together = pc.add(pc.multiply(together, len(values)), numbers)
            most *= len(values)
        numbers, number = _renumbered(together)
        first = pc.index_in(as_array(range(number)), value_set=numbers).cast(pa.int64())
        return Codes(_numbers_in(numbers), _numbers_in(first))

    def grouped(self, numbers: Sequence[int]) -> Sequence[int]:
        return _numbers_in(pc.sort_indices(as_array(numbers)).cast(pa.int64()))

    def several(self, names: Sequence[str]) -> Sequence[int]:
        codes = self.codes(names)
        if len(codes.first) == len(codes.of):
            return ()
        numbers = as_array(codes.of)
        counts = numbers.value_counts()
        shared = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        return _numbers_in(pc.indices_nonzero(pc.is_in(numbers, value_set=shared)).cast(pa.int64()))

    def laid_out(self, builds: Sequence[str]) -> Sequence[int]:
        names, rows = self.codes(("build_name",)), self.codes(ROW)
        column = {name: place for place, name in enumerate(builds)}
        places = pa.array([column.get(str(self.field(place, "build_name"))) for place in names.first], pa.int64())
        cells = pc.add(pc.multiply(as_array(rows.of), len(builds)), places.take(as_array(names.of)))
        wanted = as_array(range(len(rows.first) * len(builds)))
        return _numbers_in(pc.fill_null(pc.index_in(wanted, value_set=cells).cast(pa.int64()), -1))

    def gathered(self, numbers: Sequence[int], places: Sequence[int]) -> Sequence[int]:
        at = as_array(places)
        found = as_array(numbers).take(pc.if_else(pc.less(at, 0), pa.scalar(None, pa.int64()), at))
        return _numbers_in(pc.fill_null(found, -1))

    def paired(self, one: Sequence[int], other: Sequence[int], size: int) -> Sequence[int]:
        return _numbers_in(pc.add(pc.multiply(as_array(one), size), as_array(other)))

    def _column(self, name: str) -> pa.Array:
        column = self.table.column(name)
        if self._places is not None:
            column = column.take(as_array(self._places))
        return column.combine_chunks()


def observations_of(table: pa.Table) -> list[Observation]:
    """The rows as observations."""
    names = _present(table)
    absent = {name: value for name, value in DEFAULTS.items() if name not in names}
    columns = [_with_defaults(table, name) for name in names]
    return list(_made(names, absent, zip(*columns, strict=True)))


def _present(table: pa.Table) -> list[str]:
    there = set(table.column_names)
    return [name for name in STORED if name in there]


def _made(names: list[str], absent: Mapping[str, object], rows: Iterable[tuple[object, ...]]) -> Iterator[Observation]:
    for row in rows:
        observation = object.__new__(Observation)  # as in values.observation_of
        if absent:
            observation.__dict__.update(absent)
        observation.__dict__.update(zip(names, row, strict=True))
        yield observation


def _with_defaults(table: pa.Table, name: str) -> list[object]:
    column = table.column(name)
    default = DEFAULTS.get(name)
    if column.null_count == len(column):
        return [default] * len(column)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values: list[object] = column.to_pylist()
    if default is not None and column.null_count:
        return [default if value is None else value for value in values]
    return values


def _numbered(column: pa.Array, default: object) -> tuple[pa.Array, pa.Array]:
    """For each value its number, and the values by number; None has one too, unless a default stands for it."""
    if default is not None and column.null_count:
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        column = pc.fill_null(plain, default)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode(null_encoding="encode")
    numbers, values = column.indices, column.dictionary
    if numbers.null_count:
        numbers = pc.fill_null(numbers, len(values))
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    return numbers.cast(pa.int64()), values


def _renumbered(numbers: pa.Array) -> tuple[pa.Array, int]:
    """From 0, in the order in which they first occur; and how many there are."""
    encoded = numbers.dictionary_encode()
    return encoded.indices.cast(pa.int64()), len(encoded.dictionary)


def _numbers_in(numbers: pa.Array) -> memoryview:
    """The whole numbers of an array without None, where they lie."""
    if not len(numbers):
        return memoryview(b"").cast("q")
    start = numbers.offset * 8
    return memoryview(numbers.buffers()[1])[start : start + len(numbers) * 8].cast("q")


def as_array(numbers: Sequence[int]) -> pa.Array:
    """Whole numbers as an Arrow array, those in a buffer without a copy."""
    if not isinstance(numbers, (memoryview, array)):
        return pa.array(numbers, pa.int64())
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])

"""The rows of a results file as observations, each made when it is looked at."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

import pyarrow as pa

from bisect_torch.analysis.columns import ROW, Codes, Columns
from bisect_torch.model import Observation
from bisect_torch.results import compute as pc
from bisect_torch.results.held import Held
from bisect_torch.results.schema import DEFAULTS

_BLOCK = 4096
_ROWS_IN_A_TABLE = 2**17
_FEW = 8
"""Rows up to which one value after another is quicker than making a table of them."""
_TIMES_AS_LONG = 8
"""How many times as long it takes to make one text of a dictionary by itself as with all the others."""
_MOST = 2**62


class Rows(Columns):
    """Observations that lie in columns; equal to any other sequence of the same observations.

    Args:
        held: The columns; those that are left out hold defaults.
        places: Which of the rows, in which order; all when None.
    """

    def __init__(self, held: Held, places: Sequence[int] | None = None) -> None:
        self.held = held
        self._places = places
        self._values: dict[str, Sequence[object]] = {}
        self._codes: dict[tuple[str, ...], Codes] = {}
        self._first: dict[tuple[str, ...], Sequence[int]] = {}
        self._laid_out: dict[tuple[str, ...], Sequence[int]] = {}

    def __len__(self) -> int:
        return self.held.num_rows if self._places is None else len(self._places)

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
            values: Iterable[tuple[object, ...]] = map(self._row, places)
        else:
            values = zip(*[self._some(name, places) for name in self.held.names], strict=True)
        return list(_made(self.held.names, self._absent, values))

    def _some(self, name: str, places: Sequence[int]) -> list[object]:
        column = self.held.column(name)
        if isinstance(places, range) and places.step == 1:
            part = column.slice(places.start, len(places))
        else:
            part = column.take(as_array(places))
        return _listed(part, DEFAULTS.get(name))

    def _row(self, place: int) -> tuple[object, ...]:
        return tuple([self._value(place, name) for name in self.held.names])

    def _value(self, place: int, name: str) -> object:
        value = self.held.column(name)[place].as_py()
        return DEFAULTS.get(name) if value is None else value

    @functools.cached_property
    def _absent(self) -> Mapping[str, object]:
        return {name: value for name, value in DEFAULTS.items() if name not in self.held.names}

    # --- by columns

    def take(self, places: Sequence[int]) -> Rows:
        inside = self._places
        return Rows(self.held, places if inside is None else array("q", (inside[place] for place in places)))

    def only(self, places: Sequence[int], names: Sequence[str]) -> Iterator[Observation]:
        if len(places) <= _FEW:
            return _made(names, {}, (tuple([self.field(place, name) for name in names]) for place in places))
        chosen = self.take(array("q", places))  # made into an array once, and not for each field
        return _made(names, {}, zip(*map(chosen.listed, names), strict=True))

    def listed(self, name: str) -> list[object]:
        """One field of every row."""
        if name not in self.held.names:
            return [DEFAULTS[name]] * len(self)
        return _listed(self.column(name), DEFAULTS.get(name))

    def field(self, place: int, name: str) -> object:
        if name not in self.held.names:
            return DEFAULTS[name]
        return self._value(place if self._places is None else self._places[place], name)

    def values(self, name: str) -> Sequence[object]:
        if name not in self._values:
            self._values[name] = self._values_of(name)
        return self._values[name]

    def _values_of(self, name: str) -> Sequence[object]:
        if name not in self.held.names:
            return [DEFAULTS[name]] * len(self)
        numbers, values = _numbered(self.column(name), DEFAULTS.get(name))
        return list(map(values.to_pylist().__getitem__, _numbers_in(numbers.cast(pa.int64()))))

    def codes(self, names: Sequence[str]) -> Codes:
        key = tuple(names)
        if key not in self._codes:
            self._codes[key] = self._codes_of(key)
        return self._codes[key]

    def first(self, names: Sequence[str]) -> Sequence[int]:
        key = tuple(names)
        if key not in self._first:
            self._first[key] = (self._codes.get(key) or self._codes_of(key)).first
        return self._first[key]

    def _codes_of(self, names: tuple[str, ...]) -> Codes:
        together, most = pa.repeat(pa.scalar(0, pa.int64()), len(self)), 1
        for name in names:
            if name not in self.held.names:
                continue
            numbers, values = _numbered(self._own(self.held.once(name)), DEFAULTS.get(name))
            if len(values) < 2:
                continue
            if most * len(values) > _MOST:
                together, most = _renumbered(together)
            together = pc.add(pc.multiply(together, len(values)), numbers)
            most *= len(values)
        numbers, _ = _renumbered(together)
        return Codes(_numbers_in(numbers), _first(numbers))

    def grouped(self, numbers: Sequence[int]) -> Sequence[int]:
        return _numbers_in(pc.sort_indices(as_array(numbers)).cast(pa.int64()))

    def several(self, names: Sequence[str]) -> Sequence[int]:
        codes = self.codes(names)
        if len(codes.first) == len(codes.of):
            return ()
        numbers = as_array(codes.of)
        alone = pc.equal(as_array(codes.first).take(numbers), _counted(len(numbers)))
        shared = numbers.filter(pc.invert(alone)).unique()
        return _numbers_in(pc.indices_nonzero(pc.is_in(numbers, value_set=shared)).cast(pa.int64()))

    def laid_out(self, builds: Sequence[str]) -> Sequence[int]:
        key = tuple(builds)
        if key not in self._laid_out:
            self._laid_out[key] = self._lay_out(key)
        return self._laid_out[key]

    def _lay_out(self, builds: Sequence[str]) -> Sequence[int]:
        names, rows = self.codes(("build_name",)), self.codes(ROW)
        column = {name: place for place, name in enumerate(builds)}
        places = pa.array([column.get(str(self.field(place, "build_name"))) for place in names.first], pa.int64())
        cells = pc.add(pc.multiply(as_array(rows.of), len(builds)), places.take(as_array(names.of)))
        wanted = _counted(len(rows.first) * len(builds))
        return _numbers_in(pc.fill_null(pc.index_in(wanted, value_set=cells).cast(pa.int64()), -1))

    def gathered(self, numbers: Sequence[int], places: Sequence[int]) -> Sequence[int]:
        at = as_array(places)
        found = as_array(numbers).take(pc.if_else(pc.less(at, 0), pa.scalar(None, pa.int64()), at))
        return _numbers_in(pc.fill_null(found, -1))

    def paired(self, one: Sequence[int], other: Sequence[int], size: int) -> Sequence[int]:
        return _numbers_in(pc.add(pc.multiply(as_array(one), size), as_array(other)))

    def differing(self, ones: Sequence[int], others: Sequence[int]) -> Sequence[int]:
        """Which pairs of rows, of these and those places, may not be the same in every field; the others are."""
        found = pa.repeat(pa.scalar(False), len(ones))
        for name in self.held.names:
            numbers, _ = _numbered(self.column(name), DEFAULTS.get(name))
            found = pc.or_(found, pc.not_equal(numbers.take(as_array(ones)), numbers.take(as_array(others))))
        return _numbers_in(pc.indices_nonzero(found).cast(pa.int64()))

    def tables(self) -> Iterator[pa.Table]:
        """All rows, in tables of some ten thousand."""
        for start in range(0, len(self), _ROWS_IN_A_TABLE):
            some = self[start : start + _ROWS_IN_A_TABLE]
            yield pa.table({name: some.column(name) for name in self.held.names})

    def column(self, name: str) -> pa.Array:
        """One column as it is held."""
        return self._own(self.held.column(name))

    def _own(self, column: pa.Array) -> pa.Array:
        return column if self._places is None else column.take(as_array(self._places))


class _Part:
    """Rows as a source of columns."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.num_rows = len(rows)
        self.column_names = list(rows.held.names)

    def column(self, name: str, /) -> pa.ChunkedArray:
        return pa.chunked_array([self._rows.column(name)])


def joined(several: Sequence[Rows]) -> Rows:
    """The rows of all of them, one after another."""
    return Rows(Held([_Part(rows) for rows in several]))


def observations_of(table: pa.Table) -> list[Observation]:
    """The rows of a table as observations."""
    return list(Rows(Held([table])))


def _made(
    names: Iterable[str], absent: Mapping[str, object], rows: Iterable[tuple[object, ...]]
) -> Iterator[Observation]:
    for row in rows:
        observation = object.__new__(Observation)  # as in values.observation_of
        if absent:
            observation.__dict__.update(absent)
        observation.__dict__.update(zip(names, row, strict=True))
        yield observation


def _listed(column: pa.Array, default: object) -> list[object]:
    if column.null_count == len(column):
        return [default] * len(column)
    if pa.types.is_dictionary(column.type):  # by hand: Arrow's own way needs compute
        places, texts = column.indices.to_pylist(), column.dictionary
        if len(places) * _TIMES_AS_LONG < len(texts):
            values = [None if place is None else texts[place].as_py() for place in places]
        else:
            names = [*texts.to_pylist(), None]
            values = [names[-1 if place is None else place] for place in places]
    else:
        values = column.to_pylist()
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
    return numbers, values


def _renumbered(numbers: pa.Array) -> tuple[pa.Array, int]:
    """From 0, in the order in which they first occur; and how many there are."""
    encoded = numbers.dictionary_encode()
    return encoded.indices.cast(pa.int64()), len(encoded.dictionary)


def _first(numbers: pa.Array) -> Sequence[int]:
    """Where each number is first: where it is higher than all before it, since they are numbered in that order."""
    if not len(numbers):
        return ()
    highest = pc.cumulative_max(numbers)
    rises = pc.indices_nonzero(pc.greater(highest.slice(1), highest.slice(0, len(numbers) - 1))).cast(pa.int64())
    return _numbers_in(pa.concat_arrays([pa.array([0], pa.int64()), pc.add(rises, 1)]))


def _numbers_in(numbers: pa.Array) -> memoryview:
    """The whole numbers of an array without None, where they lie."""
    if not len(numbers):
        return memoryview(b"").cast("q")
    start = numbers.offset * 8
    return memoryview(numbers.buffers()[1])[start : start + len(numbers) * 8].cast("q")


def _counted(number: int) -> pa.Array:
    """0, 1, 2, … below a number."""
    return pc.indices_nonzero(pa.repeat(pa.scalar(True), number)).cast(pa.int64())


def as_array(numbers: Sequence[int]) -> pa.Array:
    """Whole numbers as an Arrow array, those in a buffer without a copy."""
    if not isinstance(numbers, (memoryview, array)):
        return pa.array(numbers, pa.int64())
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])

"""The rows of a results file as observations, each made when it is looked at.

``pyarrow.compute`` is loaded only by what needs it: it takes as long as reading a file does, to look a few cells up.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

import pyarrow as pa

from bisect_torch.analysis.columns import Codes, Columns
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
        import pyarrow.compute as pc

        together, most = as_array(array("q", bytes(8 * len(self)))), 1
        for name in names:
            if name not in self.table.column_names:
                continue
            numbers, values = _numbered(self._column(name), DEFAULTS.get(name))
            if len(values) < 2:
                continue
            if most * len(values) > _MOST:
                together, most = _renumbered(together)
            # pa.scalar, which a plain number would become, imports pandas where that is installed: 0.2 s.
            together = pc.add(pc.multiply(together, as_array(array("q", [len(values)]))[0]), numbers)
            most *= len(values)
        of = _numbers_in(_renumbered(together)[0])
        return Codes(of, _first(of))

    def ordered(self, codes: Codes, name: str) -> Sequence[int]:
        import pyarrow.compute as pc

        keys = {"code": as_array(codes.of)}
        if name in self.table.column_names:
            column = self._column(name)
            keys["value"] = pc.fill_null(column.cast(pa.string()), "")
        order = pc.sort_indices(pa.table(keys), sort_keys=[(key, "ascending") for key in keys])
        return _numbers_in(order.cast(pa.int64()))

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
        observation = object.__new__(Observation)
        # A frozen dataclass sets each of its 80 fields through object.__setattr__: this is ten times as fast.
        if absent:
            observation.__dict__.update(absent)
        observation.__dict__.update(zip(names, row, strict=True))
        yield observation


def _with_defaults(table: pa.Table, name: str) -> list[object]:
    column = table.column(name)
    default = DEFAULTS.get(name)
    if column.null_count == len(column):
        return [default] * len(column)
    values = _values(column)
    if default is not None and column.null_count:
        return [default if value is None else value for value in values]
    return values


def _values(column: pa.ChunkedArray) -> list[object]:
    """The values of a column; what stands once in its dictionary is one object."""
    if not pa.types.is_dictionary(column.type):
        found: list[object] = column.to_pylist()
        return found
    found = []
    for chunk in column.chunks:
        names = [*chunk.dictionary.to_pylist(), None]
        found += [names[-1 if place is None else place] for place in chunk.indices.to_pylist()]
    return found


def _numbered(column: pa.Array, default: object) -> tuple[pa.Array, pa.Array]:
    """For each value its number, and the values by number; None has one too, unless a default stands for it."""
    import pyarrow.compute as pc

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


def _first(codes: Sequence[int]) -> Sequence[int]:
    found: list[int] = []
    for place, code in enumerate(codes):
        if code == len(found):
            found.append(place)
    return found

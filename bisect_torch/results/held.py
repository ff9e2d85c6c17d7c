"""Columns of observations in memory, each made into one array when it is first looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from bisect_torch.results.schema import FIELDS, SELDOM_ALIKE, held_type

_FEW = 4096
"""Rows of which a column takes some kilobytes however wide its numbers are."""


class Source(Protocol):
    """Some columns of some observations: an Arrow table, or :class:`Stored`."""

    @property
    def num_rows(self) -> int:
        """How many observations."""

    @property
    def column_names(self) -> list[str]:
        """Of the columns that are held."""

    def column(self, name: str, /) -> pa.ChunkedArray:
        """One of them."""


class Held:
    """The columns of several sources, one after another.

    Args:
        sources: A column that is left out of one holds defaults there.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._columns: dict[str, pa.Array] = {}
        self.num_rows = sum(source.num_rows for source in sources)
        present = {name for source in sources for name in source.column_names}
        self.names = {name: place for place, name in enumerate(name for name in FIELDS if name in present)}
        """Of the columns that are there, in the order of the fields."""

    def column(self, name: str) -> pa.Array:
        """One column, its texts as numbers into one dictionary."""
        if name not in self._columns:
            self._columns[name] = _narrow(self._joined(name))
        return self._columns[name]

    def once(self, name: str) -> pa.Array:
        """As :meth:`column`, for what is not looked at again: one that would take much memory is not kept."""
        return self._joined(name) if name in SELDOM_ALIKE and name not in self._columns else self.column(name)

    def _joined(self, name: str) -> pa.Array:
        chunks = [
            chunk
            for source in self._sources
            for chunk in (
                source.column(name).chunks
                if name in source.column_names
                else [pa.nulls(source.num_rows, held_type(name))]
            )
        ]
        joined = pa.chunked_array(map(_as_held, chunks), held_type(name))
        if len(chunks) > 1:
            joined = joined.unify_dictionaries()
        return joined.combine_chunks()

    def table(self) -> pa.Table:
        """All columns together, in as little memory as they need."""
        return pa.table({name: _narrow(self._joined(name)) for name in self.names})


def _narrow(column: pa.Array) -> pa.Array:
    """With numbers as short as the dictionary allows, and one more for what is missing: the names of 50 builds fit one
    byte. Not of few rows: there it saves nothing, and a cast loads ``pyarrow.compute``."""
    if not pa.types.is_dictionary(column.type) or len(column) < _FEW:
        return column
    for kind, most in ((pa.int8(), 2**7), (pa.int16(), 2**15)):
        if len(column.dictionary) < most:
            return pa.DictionaryArray.from_arrays(column.indices.cast(kind), column.dictionary)
    return column


def _as_held(column: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(column.type) or column.type.index_type == pa.int32():
        return column
    return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), column.dictionary)


class Stored:
    """The columns of a results file, each decoded when it is asked for.

    Args:
        names: Of the columns that hold something.
        read: Gives a column of some row groups.
        groups: How many rows each group has.
    """

    def __init__(
        self, names: Sequence[str], groups: Sequence[int], read: Callable[[Sequence[int], Sequence[str]], pa.Table]
    ) -> None:
        self.column_names = list(names)
        self.num_rows = sum(groups)
        self._groups = range(len(groups))
        self._read = read

    def column(self, name: str) -> pa.ChunkedArray:
        """One column, which is not kept here."""
        return self._read(self._groups, [name]).column(name)

    def tables(self) -> Iterator[pa.Table]:
        """All columns of one group of rows after another."""
        return (self._read([group], self.column_names) for group in self._groups)

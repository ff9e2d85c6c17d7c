"""All records of a results file in the order in which they were made, held as columns."""

from __future__ import annotations

import itertools
import threading
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from bisect_torch.model import Observation
from bisect_torch.results import compute as pc
from bisect_torch.results.held import Held, Source, Stored
from bisect_torch.results.rows import Rows
from bisect_torch.results.schema import REQUIRED, held_type
from bisect_torch.results.values import KEY, WIDTH, Values, columns_of, observation_of, values_of

_NONE = pa.table({name: pa.array([], held_type(name)) for name in REQUIRED})

ROWS_IN_A_BLOCK = 2**17
"""Of a million rows, twice as many take 150 MiB more while they are written, and a tenth less in the file."""

Identity = tuple[str, int, str]
"""Key, repeat and run: two records with the same are the same observation."""

IDENTITY = ("key", "repeat", "run_id")
_PENDING = 4096
"""Observations that are held as they are before they become columns; each takes some 3 kB."""
_TABLES = 32
"""Small tables that are held before they become one, in which each text stands once."""
_BLOCK = 512
_BLOCKS_KEPT = 64


def join_small(sources: list[Source], begin: int) -> int:
    """Make one table of the small ones that a list ends with, once they are many.

    Args:
        begin: Where they begin.

    Returns:
        Where they begin now.
    """
    if len(sources) - begin < _TABLES:
        return begin
    sources[begin:] = [Held(sources[begin:]).table()]
    return len(sources)


def identity(observation: Observation) -> Identity:
    """What makes a record the same observation as another."""
    return observation.key, observation.repeat, observation.run_id


class _Places:
    """Where the records of each key stand. Most keys have one: a list for each would take as long as the keys to make.

    Args:
        keys: Of all records, in order.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._last = dict(zip(keys, range(len(keys)), strict=True))
        self._earlier: dict[str, list[int]] = {}
        if len(self._last) < len(keys):
            for place, key in enumerate(keys):
                if self._last[key] != place:
                    self._earlier.setdefault(key, []).append(place)

    def add(self, key: str, place: int) -> None:
        """One more record, behind all others."""
        if key in self._last:
            self._earlier.setdefault(key, []).append(self._last[key])
        self._last[key] = place

    def of(self, key: str) -> list[int]:
        """The places of a key's records, in order."""
        return [*self._earlier.get(key, ()), self._last[key]] if key in self._last else []


class Recorded:
    """Records, to which more are added. A later record of an observation takes the place of the earlier one.

    Args:
        stored: What a file holds; None where there is no file.
    """

    def __init__(self, stored: Source | None = None) -> None:
        self._stored = stored
        self._sources: list[Source] = [] if stored is None else [stored]
        self._joined = len(self._sources)
        self._pending: list[Any] = []
        self._number = 0 if stored is None else stored.num_rows
        self._guard = threading.Lock()
        self._rows: Rows | None = None
        self._places: _Places | None = None
        self._starts: list[int] = []
        self._held: list[Held] = []
        self._blocks: dict[tuple[int, int], list[Observation]] = {}

    def add(self, observation: Observation) -> None:
        """Safe from several threads."""
        self.add_values(values_of(observation))

    def add_values(self, *several: Values) -> None:
        """As :meth:`add`, of observations that are values already."""
        with self._guard:
            self._rows = None
            for values in several:
                self._pending += values
                if self._places is not None:
                    self._places.add(values[KEY], self._number)
                self._number += 1
            if len(self._pending) >= _PENDING * WIDTH:
                self._settle()

    @property
    def stored(self) -> Source | None:
        """What the file itself holds."""
        return self._stored

    @property
    def added(self) -> list[Source]:
        """What was added to that."""
        with self._guard:
            self._settle()
            return self._sources[0 if self._stored is None else 1 :]

    def extend(self, tables: Iterable[Source]) -> None:
        """Add records that are columns already."""
        with self._guard:
            self._settle()
            self._rows = self._places = None
            for table in tables:
                self._sources.append(table)
                self._number += table.num_rows
                self._join()

    def rows(self) -> Rows:
        """Every observation once."""
        with self._guard:
            if self._rows is None:
                self._settle()
                self._rows = self._once()
            return self._rows

    def _once(self) -> Rows:
        rows = Rows(Held(self._sources or [_NONE]))
        if len(self._sources) == 1 and isinstance(self._sources[0], Stored):
            return rows  # a file that this tool wrote holds each once
        codes = rows.codes(IDENTITY)
        if len(codes.first) == len(rows):
            return rows
        last = {code: place for place, code in enumerate(codes.of)}
        return rows.take(array("q", (last[code] for code in range(len(last)))))

    def blocks(self) -> Iterator[Rows]:
        """Every observation once, in blocks of at most :data:`ROWS_IN_A_BLOCK`, each held no longer than it is used."""
        with self._guard:
            self._settle()
        if not _each_once(self._sources):
            rows = self.rows()
            for start in range(0, len(rows), ROWS_IN_A_BLOCK):
                yield rows[start : start + ROWS_IN_A_BLOCK]
            return
        waiting: list[pa.Table] = []
        for table in self._parts():
            if waiting and sum(each.num_rows for each in waiting) + table.num_rows > ROWS_IN_A_BLOCK:
                yield Rows(Held(waiting))
                waiting = []
            waiting.append(table)
        yield Rows(Held(waiting or [_NONE]))

    def _parts(self) -> Iterator[pa.Table]:
        for source in self._sources:
            tables: Iterable[pa.Table] = source.tables() if isinstance(source, Stored) else [source]
            for table in tables:
                for start in range(0, table.num_rows, ROWS_IN_A_BLOCK):
                    yield table.slice(start, ROWS_IN_A_BLOCK)

    def lookup(self, key: str) -> list[Observation]:
        """The observations with this key, each once."""
        with self._guard:
            if self._places is None:
                self._settle()
                self._places = _Places([key for source in self._sources for key in source.column("key").to_pylist()])
            found = [self._at(place) for place in self._places.of(key)]
        return list({identity(each): each for each in found}.values())

    def _settle(self) -> None:
        if self._pending:
            self._sources.append(columns_of(self._pending))
            self._pending = []
        self._join()

    def _join(self) -> None:
        joined = join_small(self._sources, self._joined)
        if joined != self._joined:
            self._joined = joined
            self._starts, self._blocks = [], {}

    def _at(self, place: int) -> Observation:
        pending = (place - self._number) * WIDTH + len(self._pending)
        if pending >= 0:
            return observation_of(self._pending[pending : pending + WIDTH])
        if len(self._starts) < len(self._sources):
            self._starts = list(itertools.accumulate((source.num_rows for source in self._sources[:-1]), initial=0))
            self._held = [Held([source]) for source in self._sources]
        table = bisect_right(self._starts, place) - 1
        block, inside = divmod(place - self._starts[table], _BLOCK)
        found = self._blocks.get((table, block))
        if found is None:
            if len(self._blocks) >= _BLOCKS_KEPT:
                self._blocks.pop(next(iter(self._blocks)))
            found = list(Rows(self._held[table])[block * _BLOCK : (block + 1) * _BLOCK])
            self._blocks[table, block] = found
        return found[inside]


_TELLING = 15
"""Characters of a key that tell almost all keys apart, in a quarter of the memory."""


def _each_once(sources: Sequence[Source]) -> bool:
    """Whether no two records are the same observation. Only where keys begin alike they are looked at whole."""
    begins = [pc.utf8_slice_codeunits(source.column("key"), 0, _TELLING) for source in sources]
    chunks = [chunk for begin in begins for chunk in begin.chunks]
    counts = pa.chunked_array(chunks, pa.string()).value_counts()
    shared = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if not len(shared):
        return True
    alike = [
        pa.table({name: source.column(name) for name in IDENTITY}).filter(pc.is_in(begin, value_set=shared))
        for source, begin in zip(sources, begins, strict=True)
    ]
    rows = Rows(Held(alike))
    return len(rows.codes(IDENTITY).first) == len(rows)

"""All records of a results file in the order in which they were made, held as columns."""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa

from bisect_torch.model import Observation
from bisect_torch.results.rows import Rows, observations_of
from bisect_torch.results.schema import REQUIRED, held_type
from bisect_torch.results.values import KEY, Values, columns_of, observation_of, values_of

Identity = tuple[str, int, str]
"""Key, repeat and run: two records with the same are the same observation."""

IDENTITY = ("key", "repeat", "run_id")
_PENDING = 4096
"""Observations that are held as they are before they become columns; each takes some 3 kB."""
_TABLES = 64
"""Small tables that are held before they become one, in which each text stands once."""
_BLOCK = 512
_BLOCKS_KEPT = 64


def identity(observation: Observation) -> Identity:
    """What makes a record the same observation as another."""
    return observation.key, observation.repeat, observation.run_id


class Recorded:
    """Records, to which more are added. A later record of an observation takes the place of the earlier one.

    Args:
        table: What a file holds; None where there is none.
    """

    def __init__(self, table: pa.Table | None) -> None:
        self._tables = [] if table is None else [table]
        self._stored = self._joined = len(self._tables)
        self._pending: list[Values] = []
        self._number = 0 if table is None else table.num_rows
        self._guard = threading.Lock()
        self._rows: Rows | None = None
        self._places: dict[str, list[int]] | None = None
        self._starts: list[int] = []
        self._blocks: dict[tuple[int, int], list[Observation]] = {}

    def add(self, observation: Observation) -> None:
        """Safe from several threads."""
        self.add_values(values_of(observation))

    def add_values(self, values: Values) -> None:
        """As :meth:`add`, of an observation that is its values already."""
        with self._guard:
            self._rows = None
            self._pending.append(values)
            if self._places is not None:
                self._places[values[KEY]].append(self._number)
            self._number += 1
            if len(self._pending) >= _PENDING:
                self._settle()

    @property
    def stored(self) -> pa.Table | None:
        """The file's own table."""
        return self._tables[0] if self._stored else None

    @property
    def added(self) -> list[pa.Table]:
        """What was added to the file's own table."""
        with self._guard:
            self._settle()
            return self._tables[self._stored :]

    def extend(self, tables: Iterable[pa.Table]) -> None:
        """Add records that are columns already."""
        with self._guard:
            self._settle()
            self._rows = self._places = None
            for table in tables:
                self._tables.append(table)
                self._number += table.num_rows
                self._join()

    def rows(self) -> Rows:
        """Every observation once."""
        with self._guard:
            if self._rows is None:
                self._settle()
                self._rows = _once(Rows(_together(self._tables)))
            return self._rows

    def lookup(self, key: str) -> list[Observation]:
        """The observations with this key, each once."""
        with self._guard:
            if self._places is None:
                self._settle()
                self._places = defaultdict(list)
                keys = itertools.chain.from_iterable(table.column("key").to_pylist() for table in self._tables)
                for place, each in enumerate(keys):
                    self._places[each].append(place)
            found = [self._at(place) for place in self._places.get(key, ())]
        return list({identity(each): each for each in found}.values())

    def _settle(self) -> None:
        if self._pending:
            self._tables.append(columns_of(self._pending))
            self._pending = []
        self._join()

    def _join(self) -> None:
        if len(self._tables) - self._joined >= _TABLES:
            self._tables[self._joined :] = [_together(self._tables[self._joined :])]
            self._joined = len(self._tables)
            self._starts, self._blocks = [], {}

    def _at(self, place: int) -> Observation:
        if place >= self._number - len(self._pending):
            return observation_of(self._pending[place - self._number])
        if len(self._starts) < len(self._tables):
            self._starts = list(itertools.accumulate((table.num_rows for table in self._tables[:-1]), initial=0))
        table = bisect_right(self._starts, place) - 1
        block, inside = divmod(place - self._starts[table], _BLOCK)
        found = self._blocks.get((table, block))
        if found is None:
            if len(self._blocks) >= _BLOCKS_KEPT:
                self._blocks.pop(next(iter(self._blocks)))
            found = observations_of(self._tables[table].slice(block * _BLOCK, _BLOCK))
            self._blocks[table, block] = found
        return found[inside]


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    if not tables:
        return pa.table({name: pa.array([], held_type(name)) for name in REQUIRED})
    together = pa.concat_tables(tables, promote_options="default")
    return together.unify_dictionaries().combine_chunks()


def _once(rows: Rows) -> Rows:
    codes = rows.codes(IDENTITY)
    if len(codes.first) == len(rows):
        return rows
    last = {code: place for place, code in enumerate(codes.of)}
    return Rows(rows.table.take(pa.array([last[code] for code in range(len(last))], pa.int64())))

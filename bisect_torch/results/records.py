"""What stands in the lines of a journal: JSON objects with the version, ``v``, and one more key that says what it is.

| key | value |
|---|---|
| `observation` | list: the values of an observation, in the order of :data:`~bisect_torch.results.schema.FIELDS` |
| `observation` | object: field to value, without those that have their default; earlier tools wrote this |
| `run` | manifest of a run |
| `lock` | list: hash of a lock, its text |
| `source` | list: SHA-256 of a case file or a neighbour that it imports, its text |
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from bisect_torch.errors import UsageError
from bisect_torch.model import Observation, Outcome
from bisect_torch.redaction import JSON_FIELDS, TEXT_FIELDS, Private
from bisect_torch.results import checks
from bisect_torch.results.held import Source
from bisect_torch.results.journal import Part, encode, line, record_in
from bisect_torch.results.metadata import Metadata
from bisect_torch.results.recorded import join_small
from bisect_torch.results.schema import DEFAULTS, FIELDS, REQUIRED, SCHEMA_VERSION, arrow_type
from bisect_torch.results.values import WIDTH, Values, columns_of, values_of

_ROWS_IN_A_TABLE = 4096
_BEGIN_LIST = b'{"v":%d,"observation":[' % SCHEMA_VERSION
_fractions = operator.itemgetter(
    *(place for place, name in enumerate(FIELDS) if pa.types.is_floating(arrow_type(name)))
)


def observation_line(values: Values) -> bytes:
    """The line of an observation."""
    record = {"v": SCHEMA_VERSION, "observation": values}
    try:
        # orjson writes null for what is not finite, which would be lost. A sum beyond all numbers is no loss: it only
        # takes the longer way.
        if isfinite(sum(filter(None, _fractions(values)))):
            return line(orjson.dumps(record))
    except TypeError:  # a lone surrogate, a whole number beyond 64 bits
        pass
    return encode(record)


@dataclass
class Recovered:
    """What a journal holds.

    Args:
        tables: Columns of the observations, in order.
        metadata: Runs, locks and sources.
        strange: Records that are whole, but of a kind that nobody knows.
        damaged: Lines that do not fit their digest, as they stand there.
        torn: The last line has no end.
    """

    tables: list[Source] = field(default_factory=list)
    metadata: Metadata = field(default_factory=Metadata)
    strange: list[Mapping[str, object]] = field(default_factory=list)
    damaged: list[bytes] = field(default_factory=list)
    torn: bool = False
    _small: int = 0

    def add(self, values: list[Any], private: Private) -> None:
        """More observations, the values of one after another."""
        table = _columns(values, self.strange)
        if table.num_rows:
            self.tables.append(redacted(table, private))
            self._small = join_small(self.tables, self._small)

    def given_away(self) -> Iterator[Source]:
        """The tables, each of which is then held no longer here."""
        self.tables.reverse()
        while self.tables:
            yield self.tables.pop()


def recovered(path: Path, parts: Iterable[Part], private: Private) -> Recovered:
    """What the parts of a journal say, without anything private.

    Args:
        path: Of the results file, for messages.

    Raises:
        UsageError: It was written by a newer version of the tool.
    """
    found = Recovered()
    rows: list[Any] = []
    runs: list[Mapping[str, object]] = []
    texts: dict[str, dict[str, str]] = {"lock": {}, "source": {}}
    for part in parts:
        found.damaged += part.damaged
        found.torn = found.torn or part.torn
        if len(rows) >= _ROWS_IN_A_TABLE * WIDTH:
            found.add(rows, private)
            rows = []
        for text in part.texts:
            values = _quickly(text)
            if values is not None:
                rows += values
                continue
            record = record_in(text)
            if record is None:
                found.damaged.append(line(text).rstrip(b"\n"))
                continue
            _check_version(path, record.get("v"))
            try:
                _take(record, rows, runs, texts)
            except (KeyError, ValueError, TypeError, AttributeError):
                found.strange.append(record)
    found.add(rows, private)
    metadata = Metadata(tuple(runs), texts["lock"], texts["source"]).redacted(private)
    found.metadata = Metadata().with_more(metadata)
    return found


def _quickly(text: bytes) -> list[Any] | None:
    """The values of an observation of this version; None where it takes a closer look."""
    if not text.startswith(_BEGIN_LIST):
        return None
    try:
        record = orjson.loads(text)
    except ValueError:  # a number that is not finite
        return None
    values: list[Any] = record["observation"]
    return values if len(values) == WIDTH and len(record) == 2 else None


def _take(
    record: Mapping[str, Any],
    rows: list[Any],
    runs: list[Mapping[str, object]],
    texts: Mapping[str, dict[str, str]],
) -> None:
    """
    Raises:
        KeyError, ValueError, TypeError, AttributeError: It is of a kind that nobody knows.
    """
    (kind,) = record.keys() - {"v"}
    value = record[kind]
    if kind == "observation":
        rows += values_of(known_fields(dict(zip(FIELDS, value, strict=True)) if isinstance(value, list) else value))
    elif kind == "run":
        runs.append(checks.run(value))
    else:
        digest, text = checks.text(value)
        texts[kind][digest] = text


def _columns(rows: list[Any], strange: list[Mapping[str, object]]) -> pa.Table:
    """Values of one observation after another as columns. Those that hold what they cannot are put beside."""
    try:
        table = columns_of(rows, checks.check_all)
        if checks.all_there(table):
            return table
    except (ValueError, TypeError, pa.ArrowException, OverflowError):
        pass  # one of them is none that its column can hold: which one, is found out now
    sound: list[Any] = []
    for start in range(0, len(rows), WIDTH):
        values = rows[start : start + WIDTH]
        try:
            known_fields(dict(zip(FIELDS, values, strict=True)))
            sound += values
        except ValueError:
            strange.append({"v": SCHEMA_VERSION, "observation": values})
    return columns_of(sound)


def redacted(table: pa.Table, private: Private) -> pa.Table:
    """Columns of observations without anything private: each text is looked at once."""
    for place, name in enumerate(table.column_names):
        if name in TEXT_FIELDS or name in JSON_FIELDS:
            (column,) = table.column(place).chunks
            texts = column.dictionary.to_pylist()
            after = private.texts(name, texts)
            if after != texts:  # two that were different may have become one
                column = pa.DictionaryArray.from_arrays(column.indices, pa.array(after, pa.string()))
                table = table.set_column(place, name, column.dictionary_decode().dictionary_encode())
    return table


def known_fields(values: Mapping[str, object]) -> Observation:
    """An observation from a journal's record; fields that this version does not know are left out.

    Raises:
        ValueError: A field holds what it cannot.
        TypeError, KeyError: A field is missing.
    """
    known: dict[str, Any] = {name: value for name, value in values.items() if name in REQUIRED or name in DEFAULTS}
    for name, value in known.items():
        if not checks.holds(name, value):
            raise ValueError(f"{name} is {value!r:.40}")
    Outcome(known["outcome"])
    return Observation(**known)


def _check_version(path: Path, version: object) -> None:
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UsageError(
            f"the journal of {path} has schema version {version}; this bisect-torch reads up to {SCHEMA_VERSION}",
            hint="upgrade bisect-torch, or name another results file",
        )

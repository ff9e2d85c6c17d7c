"""Observations to and from a Parquet file."""

from __future__ import annotations

import glob
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from bisect_torch import own_digest
from bisect_torch.analysis.columns import judged
from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.results import checks
from bisect_torch.results import compute as pc
from bisect_torch.results.foreign import what_it_is
from bisect_torch.results.held import Source, Stored
from bisect_torch.results.metadata import Metadata
from bisect_torch.results.rows import Rows, as_array
from bisect_torch.results.schema import (
    COLUMNS,
    DEFAULTS,
    REQUIRED,
    SCHEMA_VERSION,
    SELDOM_ALIKE,
    STORED,
    arrow_type,
    held_type,
)
from bisect_torch.results.values import column_of, repeated

_PREFIX = "bisect_torch."
_VERSION = _PREFIX + "schema_version"
_TOOL = _PREFIX + "tool_version"
_RUNS = _PREFIX + "runs"
_LOCKS = _PREFIX + "locks"
_SOURCES = _PREFIX + "sources"
_REDACTED = _PREFIX + "redacted"
_DIGEST = _PREFIX + "digest"

_FEW_ROWS = 1_000
"""Up to which starting threads takes longer than what they would decode: all columns of 340 rows take 2.4 ms without
them and 4.1 with."""


def read_table(path: Path) -> tuple[Source, Metadata, bool]:
    """The stored columns and the metadata of a results file, and whether it was written without anything private.

    Columns of a file that fits its own digest are as this tool wrote them: each is decoded when it is looked at.

    Raises:
        UsageError: It is not a results file, or one of a newer version of the tool.
        InfrastructureError: It cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InfrastructureError(
            f"cannot read {path}: {error.strerror or error}",
            hint="give yourself the right to read it, or name another results file",
        ) from error
    try:
        known = pq.read_metadata(pa.BufferReader(content))
        own = own_digest.fits(content, _carried_digest(known.metadata or {}))
        if own is False:
            _metadata(path, known.metadata or {})  # of a newer version it may have another form
            raise UsageError(
                f"{path} is damaged, or another program wrote it again: it does not fit its digest",
                hint="use a copy from before, if there is one; else run the cases again, into another file with -o "
                f"(who writes one on purpose leaves out the metadata {_DIGEST!r})",
            )
        shared = _shared(known.schema)
        with pq.ParquetFile(
            pa.BufferReader(content), metadata=known, page_checksum_verification=True, read_dictionary=shared
        ) as file:
            raw = file.schema_arrow.metadata or {}
            metadata = _metadata(path, raw)
            present = set(file.schema_arrow.names)
            missing = sorted(REQUIRED - present)
            if missing:
                raise UsageError(
                    f"{path} is not a results file of bisect-torch: no column {missing[0]!r}",
                    hint="name another results file",
                )
            # Damaged statistics end the process in pyarrow's C++: only what this tool wrote is asked for them.
            holding = present - _empty(file) if own else present
            names = [name for name in STORED if name in holding]
            table = _stored(path, content, names, shared) if own else checks.typed(path, file.read(columns=names))
    except (pa.ArrowException, OSError, ValueError) as error:  # OSError: a page does not fit its checksum
        first_line = str(error).partition("\n")[0]
        what, hint = what_it_is(path, content)
        said = f", {what}" if what else f", or a damaged one: {first_line}"
        raise UsageError(f"{path} is not a Parquet file{said}", hint=hint) from error
    return table, metadata, _REDACTED.encode() in raw


def _stored(path: Path, content: bytes, names: Sequence[str], shared: Sequence[str]) -> Stored:
    file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=shared)
    groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    threads = sum(groups) > _FEW_ROWS

    def read(some: Sequence[int], columns: Sequence[str]) -> pa.Table:
        return checks.typed(path, file.read_row_groups(list(some), columns=list(columns), use_threads=threads))

    return Stored(names, groups, read)


def _carried_digest(beside: Mapping[bytes, bytes]) -> bytes | None:
    """The value of the file's own metadata, also where its name was damaged; no kept text is just a mark."""
    if _DIGEST.encode() in beside:
        return beside[_DIGEST.encode()]
    return next((value for value in beside.values() if own_digest.last_mark(value) == value), None)


def _shared(schema: pq.ParquetSchema) -> list[str]:
    """Columns of texts that many rows share."""
    columns = (schema.column(place) for place in range(len(schema)))
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    return [name for name in texts if name in STORED and pa.types.is_dictionary(held_type(name))]


def _empty(file: pq.ParquetFile) -> set[str]:
    """Columns that hold nothing but their defaults, as the file's statistics tell."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    columns, fields = file.schema, file.schema_arrow  # made anew each time that they are asked for
    by_name = {field.name: field for field in fields}
    found = set()
    for place in range(len(columns)):
        path = columns.column(place).path
        field = by_name.get(path) if path in DEFAULTS else None
        if field is None or not checks.as_held(field.type, path):
            continue
        chunks = [(group.num_rows, group.column(place).statistics) for group in groups]
        if all(known is not None and known.has_null_count and known.null_count == rows for rows, known in chunks):
            found.add(path)
    return found


def _made_by(raw: Mapping[bytes, bytes]) -> str:
    """Data frames leave their mark in the metadata, and drop what they do not know."""
    maker = next((name for name in ("pandas", "geo", "huggingface") if name.encode() in raw), "")
    return f": {maker} has written it" if maker else ""


def _metadata(path: Path, raw: Mapping[bytes, bytes]) -> Metadata:
    version = raw.get(_VERSION.encode())
    if version is None:
        raise UsageError(
            f"{path} is a Parquet file, but no results file of bisect-torch{_made_by(raw)}",
            hint="name another results file: one that `bisect-torch run` has written, with its metadata",
        )
    if not version.isdigit():
        raise UsageError(
            f"{path} has a schema version that is no number: {version[:20]!r}",
            hint="the file is damaged: name another results file",
        )
    if int(version) > SCHEMA_VERSION:
        tool = raw.get(_TOOL.encode(), b"?").decode(errors="replace")
        raise UsageError(
            f"{path} has schema version {int(version)}; this bisect-torch reads up to {SCHEMA_VERSION}",
            hint=f"it was written by bisect-torch {tool}: upgrade to that, or name another results file",
        )
    try:
        runs = json.loads(raw.get(_RUNS.encode(), b"[]"))
        locks, sources = (json.loads(raw.get(name.encode(), b"{}")) for name in (_LOCKS, _SOURCES))
        for run in runs:
            checks.run(run)
        for texts in (locks, sources):
            for item in texts.items():
                checks.text(item)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise UsageError(
            f"{path} has metadata that cannot be read", hint="it is damaged: name another results file"
        ) from None
    return Metadata(runs=tuple(runs), locks=locks, sources=sources)


def complete(rows: Rows) -> pa.Table:
    """All columns of a file, the derived ones under the criteria that were in force."""
    derived = _derived(rows)
    columns = [derived[c.name] if c.name in derived else _filled(rows, c.name) for c in COLUMNS]
    return pa.table(columns, schema=_HELD)


_HELD = pa.schema([pa.field(column.name, held_type(column.name)) for column in COLUMNS])


_FRACTION = ("elements", "wrong_elements")


def _derived(rows: Rows) -> Mapping[str, pa.Array]:
    of, judgements = judged(rows, None)
    fractions = rows.codes(_FRACTION)
    values: Mapping[str, list[Any]] = {
        "verdict": [judgement.verdict.value for judgement in judgements],
        "signature": [judgement.signature for judgement in judgements],
        "detail": [judgement.detail for judgement in judgements],
        "api_absent": [judgement.api_absent for judgement in judgements],
        "wrong_fraction": [each.wrong_fraction for each in rows.only(fractions.first, _FRACTION)],
    }
    return {
        name: column_of(name, each).take(as_array(fractions.of if name == "wrong_fraction" else of))
        for name, each in values.items()
    }


def _filled(rows: Rows, name: str) -> pa.Array:
    default = DEFAULTS.get(name)
    if name not in rows.held.names:
        return repeated(name, default, len(rows))
    column = rows.column(name)
    if default is None or not column.null_count:
        return column
    return pc.fill_null(column.cast(arrow_type(name)), default).cast(held_type(name))


def write_whole(path: Path, blocks: Iterable[Rows], metadata: Metadata, tool_version: str) -> None:
    """Write a results file so that at every moment either the old or the new one is there, whole.

    Args:
        blocks: The observations; each block becomes a group of rows.

    One writer at a time: the caller holds the journal.

    Raises:
        InfrastructureError: It cannot be written. The old file is untouched.
    """
    beside = {
        _VERSION: str(SCHEMA_VERSION),
        _TOOL: tool_version,
        _RUNS: json.dumps(list(metadata.runs), sort_keys=True),
        _LOCKS: json.dumps(dict(metadata.locks), sort_keys=True),
        _SOURCES: json.dumps(dict(metadata.sources), sort_keys=True),
        _REDACTED: "1",
        _DIGEST: own_digest.BLANK,
    }
    temporary: str | None = None
    _remove_leftovers(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        with os.fdopen(handle, "w+b") as file:
            write_table(map(complete, blocks), file, beside)
            file.flush()
            own_digest.fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
        temporary = None
        _sync_folder(path.parent)
    except OSError as error:
        raise InfrastructureError(
            f"cannot write {path}: {error.strerror or error}", hint="what was observed is kept in the journal beside it"
        ) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


_IN_NO_ORDER = frozenset({"instance", "parameters", "error_bins", "digest", "reference_digest", "input_digest"})
"""Columns whose least and largest text tell no reader which rows to leave out, and take long to find."""

ENCODING: Mapping[str, Any] = {
    "compression": "zstd",
    "write_page_checksum": True,
    "use_dictionary": [column.name for column in COLUMNS if column.name not in SELDOM_ALIKE],
    "write_statistics": [column.name for column in COLUMNS if column.name not in _IN_NO_ORDER],
    "store_schema": False,  # a text is a text for every reader, also where many rows share it
}


def write_table(tables: Iterable[pa.Table], file: BinaryIO, beside: Mapping[str, str]) -> None:
    """Write groups of rows and metadata as Parquet."""
    with pq.ParquetWriter(file, _HELD, **ENCODING) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=max(1, table.num_rows))
        writer.add_key_value_metadata(beside)


def _remove_leftovers(path: Path) -> None:
    """What killed writers left half written. Nobody else writes: see :meth:`ResultsFile.finish`."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        left.unlink(missing_ok=True)


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Whether what was read can be what was written: types of columns, of fields, of manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from bisect_torch.errors import UsageError
from bisect_torch.model import Outcome
from bisect_torch.results.schema import DEFAULTS, REQUIRED, STORED, arrow_type, held_type

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)


def typed(path: Path, table: pa.Table) -> pa.Table:
    """The table with the types that this version writes; other programs write text and whole numbers in other widths.

    Raises:
        UsageError: A column holds something else, or nothing where there must be something.
    """
    for place, field in enumerate(table.schema):
        wanted = arrow_type(field.name)
        if not as_held(field.type, field.name):
            kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            kinds = (_is_text, pa.types.is_integer, pa.types.is_floating)
            if not pa.types.is_null(kind) and not any(of(kind) and of(wanted) for of in kinds):
                raise _other(path, f"the column {field.name!r} holds {field.type}, not {wanted}")
            table = table.set_column(place, field.name, table.column(place).cast(wanted))
        if field.name in REQUIRED and table.column(place).null_count:
            raise _other(path, f"{field.name!r} is missing in a row")
    if "outcome" not in table.column_names:
        return table
    outcomes = table.column("outcome")
    # Looking at the values themselves needs pyarrow.compute, which takes longer to load than a small file.
    if not (pa.types.is_dictionary(outcomes.type) and _OUTCOMES.issuperset(_names(outcomes))):
        for outcome in outcomes.unique().to_pylist():
            if outcome not in _OUTCOMES:
                raise _other(path, f"the outcome {outcome!r} is unknown")
    return table


def _names(column: pa.ChunkedArray) -> set[object]:
    """What can stand in a column of names."""
    return {name for chunk in column.chunks for name in chunk.dictionary.to_pylist()}


def as_held(kind: pa.DataType, name: str) -> bool:
    """Whether a column of this type needs no conversion."""
    return kind in (arrow_type(name), held_type(name))


def _other(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} is not a results file of bisect-torch: {why}", hint="name another results file")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def holds(name: str, value: object) -> bool:
    """Whether a value from JSON is one that a column can hold."""
    if value is None:
        return name in _OPTIONAL
    kind, bits = _KINDS[name]
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < bits
    return isinstance(value, kind)


def check_all(name: str, values: Sequence[object]) -> None:
    """
    Raises:
        ValueError: One of these is none that :func:`holds`. What Arrow refuses itself is left to it: anything but text
            where text should be, a number that is too large. :func:`all_there` sees the rest.
    """
    if _KINDS[name][0] is not str and not _ALLOWED[name].issuperset(map(type, values)):
        raise ValueError(f"{name} holds something else")


def all_there(table: pa.Table) -> bool:
    """Whether nothing is missing that every observation has, and each outcome is one of those that there are."""
    return not any(table.column(name).null_count for name in REQUIRED) and _OUTCOMES.issuperset(
        _names(table.column("outcome"))
    )


def _allowed(name: str) -> frozenset[type]:
    kind, _ = _KINDS[name]
    return frozenset({kind, *([int] if kind is float else []), *([type(None)] if name in _OPTIONAL else [])})


def _kind(of: pa.DataType) -> tuple[type, int]:
    if pa.types.is_floating(of):
        return float, 0
    if pa.types.is_integer(of):
        return int, of.bit_width
    return (bool if pa.types.is_boolean(of) else str), 0


_OPTIONAL = frozenset(name for name, default in DEFAULTS.items() if default is None)
_KINDS = {name: _kind(arrow_type(name)) for name in STORED}
_ALLOWED = {name: _allowed(name) for name in STORED}


def run(manifest: object) -> Mapping[str, object]:
    """The manifest of a run.

    Raises:
        ValueError: It is no manifest of a run.
    """
    if not isinstance(manifest, dict) or not isinstance(manifest.get("run_id"), str):
        raise ValueError("no manifest of a run")
    return manifest


def text(pair: object) -> tuple[str, str]:
    """A hash with its text.

    Raises:
        ValueError: It is no hash with its text.
    """
    if not isinstance(pair, list | tuple) or [type(part) for part in pair] != [str, str]:
        raise ValueError("no hash with its text")
    return pair[0], pair[1]

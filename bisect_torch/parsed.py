"""Plain records out of JSON: every value is checked once, where it comes in."""

from __future__ import annotations

import functools
import types
import typing
from dataclasses import fields
from typing import Any, TypeVar

Record = TypeVar("Record")


def record(kind: type[Record], values: object) -> Record:
    """A dataclass of plain fields from a JSON object with just these names. Of a tuple, the items are not looked at.

    Raises:
        ValueError: It is no object, a field is missing or unknown, or holds a value of another type.
    """
    if not isinstance(values, dict):
        raise ValueError(f"no object where there must be a {kind.__name__}")
    allowed = _types(kind)  # type: ignore[arg-type]
    for name, value in values.items():
        if type(value) not in allowed.get(name, ()):
            raise ValueError(f"{name} is {value!r:.40}")
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


@functools.cache
def _types(kind: type) -> dict[str, tuple[type, ...]]:
    hints: dict[str, Any] = typing.get_type_hints(kind)
    return {each.name: tuple(_plain(part) for part in _parts(hints[each.name])) for each in fields(kind)}


def _parts(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _plain(hint: Any) -> type:
    found: type = typing.get_origin(hint) or hint
    return found

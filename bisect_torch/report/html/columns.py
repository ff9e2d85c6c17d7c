"""Columns that stay small in a page: each distinct value once, and a code of one, two or four bytes for each entry."""

from __future__ import annotations

import base64
import math
import sys
from array import array
from collections.abc import Callable, Iterable
from typing import Any

Value = str | int | float | bool | None

_TYPES = ((1, "B"), (2, "H"), (4, "I"))


def column(values: Iterable[Value], say: Callable[[Any], Any] = lambda value: value) -> dict[str, object]:
    """The entries as ``values`` (distinct, in the order of their first use) and ``codes`` (base64, little-endian
    unsigned numbers of ``bytes`` bytes). A column with one distinct value has no codes.

    Args:
        say: What stands in the page for a distinct value; called once for each.
    """
    entries = list(values)
    places = {value: place for place, value in enumerate(dict.fromkeys(entries))}
    distinct = [json_value(say(value)) for value in places]
    if len(distinct) <= 1:
        return {"values": distinct}
    width, kind = next((width, kind) for width, kind in _TYPES if len(distinct) <= 256**width)
    packed = array(kind, map(places.__getitem__, entries))
    if sys.byteorder == "big":
        packed.byteswap()
    return {"values": distinct, "bytes": width, "codes": base64.b64encode(packed.tobytes()).decode()}


def json_value(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become ``"inf"``, ``"-inf"`` and ``"nan"``."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def rounded(digits: int) -> Callable[[float | None], float | None]:
    """To a number of significant digits, which makes values equal that a reader cannot tell apart."""

    def of(value: float | None) -> float | None:
        return value if value is None else float(f"{value:.{digits}g}")

    return of

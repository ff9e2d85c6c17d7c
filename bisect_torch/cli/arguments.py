"""Types of command-line values. Light: only the standard library."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


def positive(kind: Callable[[str], Number]) -> Callable[[str], Number]:
    """An argparse type: a number above zero."""

    def convert(text: str) -> Number:
        try:
            value = kind(text)
        except ValueError:
            value = kind("0")
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
        return value

    return convert


def size(text: str) -> int:
    """An argparse type: bytes, as in ``12GiB`` (powers of 1024), ``12GB`` (powers of 1000) or ``1000000``."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 12GiB")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " "))


def comma_list(text: str) -> tuple[str, ...]:
    """An argparse type: words between commas."""
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)

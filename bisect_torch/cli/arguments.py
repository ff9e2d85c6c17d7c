"""Types of command-line values. Light: only the standard library."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)

DEVICE_KINDS = ("cpu", "cuda", "mps", "xpu")
"""Kinds of device that an environment's control program can check."""

LOCKS = ("release", "today")
"""Which dependencies an environment gets."""

_DEVICE = re.compile(rf"(?:{'|'.join(DEVICE_KINDS)})(?::\d+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BACKEND = re.compile(r"pypi|auto|cpu|xpu|cu\d{2,3}|rocm(?:\d+(?:\.\d+)*)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


def positive(kind: Callable[[str], Number]) -> Callable[[str], Number]:
    """An argparse type: a number above zero."""

    def convert(text: str) -> Number:
        try:
            value = kind(text)
        except ValueError:
            value = kind("0")
        if not 0 < value < float("inf"):
            unit = " (seconds are plain: 300, not 5m)" if re.fullmatch(r"[\d.]+ ?(?:s|m|h|min|sec)", text) else ""
            raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero{unit}")
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
    """An argparse type: words between commas, at least one, each kept once."""
    words = tuple(dict.fromkeys(word for word in (part.strip() for part in text.split(",")) if word))
    if not words:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing")
    return words


def devices(text: str) -> tuple[str, ...]:
    """An argparse type: device names as torch writes them, between commas."""
    names = comma_list(text)
    for name in names:
        if not _DEVICE.fullmatch(name):
            raise argparse.ArgumentTypeError(
                f"{name!r} is not a device; known are {', '.join(DEVICE_KINDS)}, and one of several as in cuda:1"
            )
    return names


def device_pair(text: str) -> tuple[str, str]:
    """An argparse type: a device of one results file and the one of another that it is compared with."""
    one, sign, other = (part.strip() for part in text.partition("="))
    if not (one and sign and other):
        raise argparse.ArgumentTypeError(f"{text!r} is not two devices such as cpu=cuda:0")
    return one, other


def locks(text: str) -> tuple[str, ...]:
    """An argparse type: ``release``, ``today`` or both, in this order."""
    words = comma_list(text)
    if not set(words) <= set(LOCKS):
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(LOCKS)} and {','.join(LOCKS)}")
    return tuple(word for word in LOCKS if word in words)


def backend(text: str) -> str:
    """An argparse type: the name of a torch backend as uv knows it."""
    if not _BACKEND.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a backend; known are pypi, auto, cpu, xpu, and with its version cu128 or rocm6.4"
        )
    return text


def variable_name(text: str) -> str:
    """An argparse type: the name of an environment variable."""
    if not _VARIABLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a variable; its value stays in the environment")
    return text


def probability(text: str) -> float:
    """An argparse type: a number above 0 and below 1."""
    value = positive(float)(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value

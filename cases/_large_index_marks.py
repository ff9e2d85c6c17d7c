"""Reductions of a huge tensor to one number: all elements are alike but a few marks on both sides of each border.

What comes out then tells which marks were seen and how often: the sum of different powers of two, the place of the
largest. The right answer and that of each fault follow from the list of marks alone.
"""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional

import torch
from _large_index_sourced import elements

from bisect_torch import check, record
from bisect_torch.numerics.check import CheckResult
from bisect_torch.numerics.digest import record_input
from bisect_torch.numerics.large_index import borders
from bisect_torch.numerics.large_index.models import ZERO
from bisect_torch.numerics.large_index.predictor import wraps

__all__ = ["MARKED", "check_marked"]


class Seen(NamedTuple):
    """A mark as a reduction sees it.

    Args:
        place: Where it is seen first.
        times: How often it is seen.
    """

    place: int
    value: int
    times: int


class Marked(NamedTuple):
    """An operation on a tensor with marks.

    Args:
        ground: Value of all other elements.
        values: The marks' values, in the order of their places.
        answer: Of the number of elements and the marks that are seen, to the result.
        is_place: The result is a place or a count of elements, and may itself be cut to the width of an index.
    """

    dtype: str
    ground: int
    values: List[int]
    answer: Callable[[int, List[Seen]], int]
    is_place: bool = False


def _largest(sign: int) -> Callable[[int, List[Seen]], Seen]:
    return lambda total, seen: max(seen, key=lambda mark: (sign * mark.value, -mark.place), default=Seen(0, 0, 0))


RISING, FALLING = list(range(1, 8)), list(range(-1, -8, -1))
POWERS = [1 << power for power in range(7)]  # 127 together: exact in bfloat16, also when a few are seen twice
LAST = [0] * 6 + [1]
UNEVEN = [1, 0, 1, 0, 0, 0, 0]  # so that no fault sees as many zeros as there are

MARKED: Dict[str, Marked] = {
    "argmax": Marked("int8", 0, RISING, lambda total, seen: _largest(1)(total, seen).place, True),
    "argmin": Marked("int8", 0, FALLING, lambda total, seen: _largest(-1)(total, seen).place, True),
    "max": Marked("int8", 0, RISING, lambda total, seen: _largest(1)(total, seen).value),
    "min": Marked("int8", 0, FALLING, lambda total, seen: _largest(-1)(total, seen).value),
    "sum": Marked("bfloat16", 0, POWERS, lambda total, seen: sum(mark.value * mark.times for mark in seen)),
    "any": Marked("bool", 0, LAST, lambda total, seen: int(any(mark.value for mark in seen))),
    "all": Marked("bool", 1, [1] * 6 + [0], lambda total, seen: int(all(mark.value for mark in seen))),
    "count_nonzero": Marked(
        "bool", 1, UNEVEN, lambda total, seen: total - sum(mark.times for mark in seen if not mark.value), True
    ),
}
"""Name of the operation to how its input is made; ``any`` and ``all`` hang on the last element alone."""


def places(total: int, bits: int = 32) -> List[int]:
    """The places of the marks: near the start, before the middle, both sides of each border that there is, the end."""
    half, whole = borders(bits)
    wanted = [5, total // 2 - total // 8, half - 2, half + 3, whole - 2, whole + 3]
    inside = sorted({place for place in wanted if place < total - 1})
    return [*inside, total - 1]


def marks(operation: str, total: int, bits: int = 32) -> Dict[int, int]:
    """Place to value. Where there are fewer places than values, the last values are taken."""
    chosen = places(total, bits)
    values = MARKED[operation].values
    return dict(zip(chosen, values[len(values) - len(chosen) :]))  # noqa: B905 - Python 3.8


def seen_marks(
    known: Dict[int, int], total: int, border: Optional[int] = None, end: Optional[int] = None
) -> List[Seen]:
    """The marks that are seen when the flat index wraps at a border, or when reading stops at an end."""
    limit = min(total, end or total)
    found = []
    for place, value in known.items():
        turn = limit if border is None else border
        times = (limit - 1 - place) // turn + 1 if place < turn else 0
        if times:
            found.append(Seen(place, value, times))
    return found


def answers(operation: str, total: int, bits: int = 32) -> Dict[str, int]:
    """Name of each fault to what comes out with it; faults that cannot be told apart are one entry, joined by "or"."""
    how = MARKED[operation]
    known = marks(operation, total, bits)
    right = how.answer(total, seen_marks(known, total))
    half, whole = borders(bits)
    single: Dict[str, int] = {}
    for border, tail in ((whole, "tail not read"), (half, f"tail not read beyond 2**{bits - 1}")):
        if total <= border:
            continue
        single[wraps("a", border)] = how.answer(total, seen_marks(known, total, border=border))
        single[tail] = how.answer(border, seen_marks(known, total, end=border))
        if how.is_place:
            single[wraps("result", border)] = right % border
    single[ZERO] = 0
    joined: Dict[int, List[str]] = {}
    for name, value in single.items():
        if value != right:
            joined.setdefault(value, []).append(name)
    return {" or ".join(names): value for value, names in joined.items()}


def marked_tensor(device: str, operation: str, total: int, bits: int = 32) -> torch.Tensor:
    """The input; that the marks are found again where they were written is recorded as ``inputs_as_made``."""
    how = MARKED[operation]
    kind = getattr(torch, how.dtype)
    flat = torch.full((total,), how.ground, dtype=kind, device=device)
    right = True
    for place, value in marks(operation, total, bits).items():
        flat[place : place + 1] = value
    for place, value in marks(operation, total, bits).items():
        around = flat[max(0, place - 1) : place + 2].cpu()
        record_input(around)
        right = right and int(around[min(1, place)]) == value and int(around[0]) == (how.ground if place else value)
    record(inputs_as_made=right, operand_elements=[total])
    return flat


def check_marked(device: str, operation: str, size: str, bits: int = 32) -> CheckResult:
    """Judge a reduction of all elements."""
    total = elements(size, bits)
    how = MARKED[operation]
    result = getattr(torch, operation)(marked_tensor(device, operation, total, bits))
    expected = how.answer(total, seen_marks(marks(operation, total, bits), total))
    kind = (
        result.dtype
        if how.dtype == "bool" and not how.is_place
        else torch.float64
        if result.dtype.is_floating_point
        else torch.int64
    )

    def value(number: int) -> torch.Tensor:
        return torch.tensor(number, dtype=torch.int64, device="cpu").to(kind)

    models = {name: value(number) for name, number in answers(operation, total, bits).items()}
    record(output_elements=result.numel(), coverage=1.0, digest_coverage=1.0)
    return check(result, reference=value(expected), rtol=0.0 if kind == torch.float64 else None, explain=models)

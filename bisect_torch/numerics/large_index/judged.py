"""The comparison of a huge result in the chosen units, with what was compared and where the wrongness starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Optional

from bisect_torch.numerics.check import CheckResult
from bisect_torch.numerics.check import compare as compare_values
from bisect_torch.numerics.large_index.borders import Choice

if TYPE_CHECKING:
    import torch

HELD = 1 << 20
"""Elements of the result that are compared at a time, at most (a single unit may have more)."""

Part = Callable[[slice], "torch.Tensor"]


class Criterion(NamedTuple):
    """As the arguments of :func:`bisect_torch.check`."""

    k: Optional[int] = None
    rtol: Optional[float] = None
    atol: Optional[float] = None


DEFAULT = Criterion()


def check_chosen(
    actual: "torch.Tensor",
    reference: Part,
    choice: Choice,
    *,
    explain: Optional[Mapping[str, Part]] = None,
    criterion: Criterion = DEFAULT,
    units_per_batch: int = 1,
) -> CheckResult:
    """Compare the chosen units of a result with float64 values, record the facts of the cell, and give the result.

    It is a check of the running case like any other (``bisect_torch.check``), and in bounded memory: at most
    :data:`HELD` elements, or one unit, at a time. Recorded besides: ``compared`` (first and last batch of each run;
    at most 64 runs), ``compared_rows`` where a unit is a row, ``coverage`` and ``digest_coverage`` (the digest is that
    of the compared units), ``output_elements``.

    A wrong result also gets ``first_wrong_batch`` and ``first_wrong_flat_index`` (row-major in the result). Between
    the last right and the first wrong unit that were compared the place is narrowed down by bisection, which takes for
    granted that right units are not found again after the first wrong one there: one wrong unit alone among right
    ones that nobody looked at is not found. With all units compared (``--thorough``) the place is exact.

    Args:
        actual: The result; dimension 0 counts the units.
        reference: A slice of units to their values, shape as ``actual[slice]``, float64 on the CPU.
        choice: From :func:`bisect_torch.numerics.large_index.choose`.
        criterion: By default the normwise bound, which integers that are exact in the type meet with room.
        explain: Name to fault model, called like ``reference``. All that give exactly the wrong values in the compared
            units are named, joined by "or".
        units_per_batch: 1 where a unit is a batch; the rows of one where a unit is a row.
    """
    from bisect_torch import check, record

    width = actual[:1].numel()
    runs = [[first // units_per_batch, last // units_per_batch] for first, last in choice.ranges]
    record(
        compared=runs[:64],
        coverage=choice.coverage,
        digest_coverage=choice.coverage,
        output_elements=actual.numel(),
    )
    if units_per_batch > 1:
        record(compared_rows=[list(run) for run in choice.ranges[:64]])
    rules: Any = criterion._asdict()
    rows = max(1, HELD // max(1, width))
    result = check(actual, reference, rows=rows, blocks=choice.ranges, explain=explain, **rules)
    if result.wrong and not result.facts.get("mismatch"):
        unit, inside = first_wrong(actual, reference, choice, result, criterion)
        record(first_wrong_batch=unit // units_per_batch, first_wrong_flat_index=unit * width + inside)
    return result


def first_wrong(
    actual: "torch.Tensor", reference: Part, choice: Choice, result: CheckResult, criterion: Criterion
) -> "tuple[int, int]":
    """The first wrong unit and the place of the first wrong element in it (see :func:`check_chosen`)."""
    index = json.loads(result.facts["first_wrong_index"])
    wrong = index[0]
    flat = 0
    for size, place in zip(actual.shape[1:], index[1:]):  # noqa: B905 - Python 3.8
        flat = flat * size + place
    earlier = [unit for first, last in choice.ranges for unit in (first, last) if unit < wrong]
    right = max(earlier, default=-1)
    right = wrong - 1 if any(first < wrong <= last for first, last in choice.ranges) else right
    while wrong - right > 1:
        middle = (right + wrong) // 2
        place = _wrong_place(actual, reference, middle, criterion)
        if place is None:
            right = middle
        else:
            wrong, flat = middle, place
    return wrong, flat


def _wrong_place(actual: "torch.Tensor", reference: Part, unit: int, criterion: Criterion) -> Optional[int]:
    """Where in a unit the first wrong element is; None where there is none."""
    found = compare_values(
        actual[unit].reshape(-1), reference(slice(unit, unit + 1)).reshape(-1), **criterion._asdict()
    )
    if not found.wrong:
        return None
    place: int = json.loads(found.facts["first_wrong_index"])[0]
    return place

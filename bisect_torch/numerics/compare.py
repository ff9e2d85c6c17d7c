"""Compare one tensor with its reference in bounded memory and give the facts, not an opinion."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from bisect_torch.numerics import tolerance
from bisect_torch.numerics.bins import ErrorBins
from bisect_torch.numerics.blocks import Index, block_indices, block_on_cpu

if TYPE_CHECKING:
    import torch


class Criterion(NamedTuple):
    """How elements are judged.

    Args:
        name: ``exact``, ``normwise`` or ``elementwise``.
        k: Length of the reduction, for normwise.
        rtol: Relative part of the elementwise bound ``atol + rtol * |reference|``.
        atol: Absolute part.
    """

    name: str
    k: int = tolerance.DEFAULT_K
    rtol: float = 0.0
    atol: float = 0.0


class Unit(NamedTuple):
    """A part of the actual tensor (all of it, or some rows) and how to get its reference."""

    start: int
    actual: "torch.Tensor"
    reference: Callable[[], "torch.Tensor"]


class _Block(NamedTuple):
    error: "torch.Tensor"  # |actual - reference| where both are finite, else 0
    magnitude: "torch.Tensor"  # |reference| where it is finite, else 0
    finite: "torch.Tensor"
    differs: "torch.Tensor"
    nan_mismatch: "torch.Tensor"
    inf_mismatch: "torch.Tensor"


class _Survey(NamedTuple):
    error: "torch.Tensor"
    magnitude: "torch.Tensor"
    finite: Optional["torch.Tensor"]  # None: all are
    largest: float
    size: float
    nan: int
    inf: int
    differs: bool


class _Suspect(NamedTuple):
    unit: int
    start: int
    where: Index
    largest: float
    broken: bool  # NaN or infinity on one side only


def dtype_name(tensor: "torch.Tensor") -> str:
    """``float32``, without the module's name."""
    return str(tensor.dtype).rpartition(".")[2]


def compare_units(units: Sequence[Unit], shape: Sequence[int], name: str, criterion: Criterion) -> Dict[str, Any]:
    """Facts of one comparison (keys of ``Observation``).

    Args:
        units: Parts that follow each other in logical order; a reference is asked for once, and once more only where
            its part holds wrong elements.
        shape: Of the whole tensor.
        name: Data type whose unit roundoff counts.
    """
    bins = ErrorBins()
    suspects: List[_Suspect] = []
    counts = {"elements": 0, "nan": 0, "inf": 0}
    error_max = reference_max = 0.0
    for number, unit in enumerate(units):
        reference = unit.reference()
        for start, index in block_indices(unit.actual.shape):
            seen = _survey(unit.actual, reference, index, name)
            bins.add(seen.magnitude, seen.error, seen.finite)
            counts["elements"] += seen.error.numel()
            counts["nan"] += seen.nan
            counts["inf"] += seen.inf
            error_max, reference_max = max(error_max, seen.largest), max(reference_max, seen.size)
            if seen.differs:
                suspects.append(_Suspect(number, unit.start + start, index, seen.largest, bool(seen.nan or seen.inf)))
    facts: Dict[str, Any] = {
        "criterion": criterion.name,
        "dtype": name,
        "elements": counts["elements"],
        "nan_mismatches": counts["nan"],
        "inf_mismatches": counts["inf"],
        "max_abs_error": error_max,
        "reference_max_abs": reference_max,
        "rel_error": _ratio(error_max, reference_max),
        "error_bins": json.dumps(bins.rows()),
    }
    if criterion.name == "normwise":
        facts["reduction_length"] = criterion.k
        facts["tolerance"] = tolerance.normwise_bound(name, criterion.k, reference_max, _smallest(name))
    elif criterion.name == "elementwise":
        facts.update(rtol=criterion.rtol, atol=criterion.atol)
    facts.update(_wrong_elements(units, shape, name, criterion, facts, suspects))
    return facts


def _ratio(error: float, norm: float) -> float:
    if norm:
        return min(error / norm, sys.float_info.max)
    return math.inf if error else 0.0


def _largest(name: str) -> float:
    import torch

    return float(torch.finfo(getattr(torch, tolerance.real_name(name))).max)


def _smallest(name: str) -> float:
    import torch

    info = torch.finfo(getattr(torch, tolerance.real_name(name)))
    return float(info.smallest_normal) * float(info.eps)


def _wrong_elements(
    units: Sequence[Unit],
    shape: Sequence[int],
    name: str,
    criterion: Criterion,
    facts: Dict[str, Any],
    suspects: List[_Suspect],
) -> Dict[str, Any]:
    if criterion.name == "normwise":
        bound, norm = facts["tolerance"], facts["reference_max_abs"]
        suspects = [one for one in suspects if one.broken or _ratio(one.largest, norm) > bound]
    wrong_count = 0
    found: Dict[str, Any] = {}
    reference: Optional["torch.Tensor"] = None
    current = -1
    for suspect in suspects:
        unit = units[suspect.unit]
        if suspect.unit != current or reference is None:
            current, reference = suspect.unit, unit.reference()
        block = _block(unit.actual, reference, suspect.where, name)
        wrong = _wrong(block, criterion, facts)
        count = int(wrong.sum())
        if count and not wrong_count:
            position = int(wrong.to(dtype=_uint8()).argmax())
            found = {
                "first_wrong_index": json.dumps(_unravel(suspect.start + position, shape)),
                "actual_value": _text(block_on_cpu(unit.actual, suspect.where)[position]),
                "expected_value": _text(block_on_cpu(reference, suspect.where)[position]),
            }
        wrong_count += count
    return {"wrong_elements": wrong_count, **found}


def _uint8() -> Any:
    import torch

    return torch.uint8


def _text(element: "torch.Tensor") -> str:
    return repr(element.item())


def _wrong(block: _Block, criterion: Criterion, facts: Dict[str, Any]) -> "torch.Tensor":
    broken = block.nan_mismatch | block.inf_mismatch
    if criterion.name == "exact":
        return block.differs
    if criterion.name == "elementwise":
        return broken | ((block.error > criterion.atol + criterion.rtol * block.magnitude) & block.finite)
    norm = facts["reference_max_abs"]
    too_far = block.error / norm > facts["tolerance"] if norm else block.error > 0
    return broken | (too_far & block.finite)


def _unravel(position: int, shape: Sequence[int]) -> List[int]:
    index: List[int] = []
    for size in reversed(shape):
        position, rest = divmod(position, size)
        index.append(rest)
    return index[::-1]


def _survey(actual: "torch.Tensor", reference: "torch.Tensor", index: Index, name: str) -> _Survey:
    """What the first look at a block needs; nearly always all is finite, and then little is to be computed."""
    mine, theirs = block_on_cpu(actual, index), block_on_cpu(reference, index)
    r = high_precision(theirs)
    error, magnitude = (high_precision(mine) - r).abs(), r.abs()
    largest, size = float(error.max()), float(magnitude.max())
    whole_numbers = tolerance.kind(name) in ("integer", "bool")
    if math.isfinite(largest) and size < (math.inf if whole_numbers else _largest(name)):
        differs = bool((integers(mine) != integers(theirs)).any()) if whole_numbers else largest > 0
        return _Survey(error, magnitude, None, largest, size, 0, 0, differs)
    block = _block(actual, reference, index, name)
    nan, inf = int(block.nan_mismatch.sum()), int(block.inf_mismatch.sum())
    largest, size = float(block.error.max()), float(block.magnitude.max())
    return _Survey(block.error, block.magnitude, block.finite, largest, size, nan, inf, bool(block.differs.any()))


def _block(actual: "torch.Tensor", reference: "torch.Tensor", index: Index, name: str) -> _Block:
    import torch

    mine, theirs = block_on_cpu(actual, index), block_on_cpu(reference, index)
    a, r = high_precision(mine), high_precision(theirs)
    if tolerance.kind(name) in ("float", "complex"):
        r = _as_stored(r, name)
    a_nan, r_nan = torch.isnan(a), torch.isnan(r)
    finite = torch.isfinite(a) & torch.isfinite(r)
    if tolerance.kind(name) in ("integer", "bool"):
        differs = integers(mine) != integers(theirs)
    else:
        differs = (a != r) & ~(a_nan & r_nan)
    nan_mismatch = a_nan ^ r_nan
    zero = torch.zeros((), dtype=torch.float64, device="cpu")
    largest = torch.finfo(torch.float64).max
    error = torch.where(finite, (a - r).abs(), zero).clamp(max=largest)
    magnitude = torch.where(torch.isfinite(r), r.abs(), zero).clamp(max=largest)
    return _Block(error, magnitude, finite, differs, nan_mismatch, differs & ~finite & ~nan_mismatch)


def high_precision(block: "torch.Tensor") -> "torch.Tensor":
    """The same values in float64 or complex128."""
    import torch

    if not block.is_complex():
        return block.to(torch.float64)
    if block.dtype not in (torch.complex64, torch.complex128):  # few operators know the half ones
        return torch.view_as_complex(torch.view_as_real(block).to(torch.float64))
    return block.to(torch.complex128)


def integers(block: "torch.Tensor") -> "torch.Tensor":
    """Integers or booleans as int64; uint64 by its bits, since few operators know it."""
    import torch

    if dtype_name(block) == "uint64":
        return block.view(torch.int64)
    return block.to(torch.int64)


def _as_stored(reference: "torch.Tensor", name: str) -> "torch.Tensor":
    """The reference with infinity where the result's type has no larger finite number: there infinity is right."""
    import torch

    dtype = getattr(torch, tolerance.real_name(name))
    if dtype == torch.float64:
        return reference
    parts = torch.view_as_real(reference) if reference.is_complex() else reference
    if not bool((parts.abs() >= torch.finfo(dtype).max).any()):
        return reference
    stored = parts.to(dtype).to(torch.float64)
    parts = torch.where(torch.isinf(stored), stored, parts)
    return torch.view_as_complex(parts.contiguous()) if reference.is_complex() else parts


def same_values(actual: "torch.Tensor", model: "torch.Tensor") -> bool:
    """Whether a fault model, rounded to the actual type, gives the same bits everywhere; any NaN equals any NaN."""
    import torch

    if tuple(actual.shape) != tuple(model.shape):
        return False
    for _, index in block_indices(actual.shape):
        mine = block_on_cpu(actual, index)
        theirs = block_on_cpu(model, index).to(mine.dtype)
        if tolerance.kind(dtype_name(mine)) in ("integer", "bool"):
            equal = integers(mine) == integers(theirs)
        else:
            a, m = _parts(mine), _parts(theirs)
            equal = ((a == m) & (torch.signbit(a) == torch.signbit(m))) | (torch.isnan(a) & torch.isnan(m))
        if not bool(equal.all()):
            return False
    return True


def _parts(block: "torch.Tensor") -> "torch.Tensor":
    import torch

    wide = high_precision(block)
    return torch.view_as_real(wide) if wide.is_complex() else wide


def whole(actual: "torch.Tensor", reference: "torch.Tensor") -> List[Unit]:
    """The comparison of a tensor with a reference that exists already, as one unit."""
    return [Unit(0, actual, lambda: reference)]


def by_rows(
    actual: "torch.Tensor",
    reference: Callable[[slice], "torch.Tensor"],
    rows: int,
    blocks: Optional[Sequence[Tuple[int, int]]] = None,
) -> Iterator[Tuple[slice, Unit]]:
    """The comparison some rows (dimension 0) at a time, each with a reference computed for it alone.

    Args:
        blocks: Only these runs of rows, each its first and last.
    """
    width = actual[:1].numel()
    for start, last in blocks if blocks is not None else ((0, actual.shape[0] - 1),):
        for first in range(start, last + 1, rows):
            part = slice(first, min(first + rows, last + 1))
            yield part, Unit(first * width, actual[part], lambda part=part: reference(part))  # type: ignore[misc]

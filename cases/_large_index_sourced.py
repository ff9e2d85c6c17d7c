"""Results of which every element is known from the recipes of the inputs, right and with each fault of an index.

For operators that move elements or combine a few of them (``cat``, indexing, ``unfold``, ``fold``, reductions along a
dimension): a function tells, for flat positions in the result, the value that belongs there, and the value that
comes when the flat index of an input is taken modulo a border. Everything is computed in bounded memory on the CPU from
the recipe of the inputs, with none of the operators under test.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch

from bisect_torch import record
from bisect_torch.numerics.check import CheckResult
from bisect_torch.numerics.large_index import Source, as_made, borders, buffer, check_chosen, choose, place, source
from bisect_torch.numerics.large_index.models import TAIL, ZERO
from bisect_torch.numerics.large_index.predictor import wraps

__all__ = [
    "BYTES",
    "SIZES",
    "Sourced",
    "Wraps",
    "border_of",
    "bytes_of",
    "check_sourced",
    "divided",
    "elements",
    "made",
    "made_source",
    "read",
    "rows_beyond",
    "sizes_of",
    "width",
]

SIZES = ("below 2**31", "above 2**31", "above 2**32")
"""How many elements the tensor has that is large: a row less than at the border, or three rows more."""

ROWS_BEYOND = 3

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "bool": 1}
"""Of an element."""

Wraps = Mapping[str, int]
"""Name of an input to the border modulo which its flat index is taken; an input that is missing is read rightly."""


def border_of(size: str, bits: int = 32) -> int:
    """The border that a size of :data:`SIZES` names, in an index of ``bits`` bits."""
    return 1 << (int(size.rpartition("**")[2]) - 32 + bits)


def width(bits: int = 32) -> int:
    """Elements of a row: the square root of the upper border, or half of it."""
    return 1 << (bits // 2)


def rows_beyond(size: str, across: int, bits: int = 32) -> int:
    """Rows of ``across`` elements on the side of the border that the size names."""
    return border_of(size, bits) // across + (-1 if size.startswith("below") else ROWS_BEYOND)


def elements(size: str, bits: int = 32) -> int:
    """Elements of a matrix of the size: its rows have :func:`width` elements."""
    return rows_beyond(size, width(bits), bits) * width(bits)


def bytes_of(device: str, count: float) -> Dict[str, int]:
    """What a cell needs for ``count`` bytes of tensors, by device type, with room for what is compared.

    An accelerator's tensors take the machine's own memory only on MPS, where it is the same.
    """
    kind, room = device.partition(":")[0], 1 << 28
    needed = {"cpu": room + (int(count) if kind in ("cpu", "mps") else 0)}
    return {**needed, kind: int(count) + room}


class Sourced(NamedTuple):
    """A result by its recipe.

    Args:
        total: Elements of the result.
        inputs: Name of each input to its number of elements.
        at: Flat positions in the result (int64, CPU) and the inputs whose index wraps, to the values there: float64,
            flat.
    """

    total: int
    inputs: Dict[str, int]
    at: Callable[[torch.Tensor, Wraps], torch.Tensor]


Model = Callable[[torch.Tensor], torch.Tensor]


def fault_models(known: Sourced, bits: int = 32) -> Dict[str, Model]:
    """Each fault that can be meant, by name, to a function from flat positions to values.

    The meaning of each is that of :mod:`bisect_torch.numerics.large_index.models`; old contents of memory are taken for
    zero.
    """
    half, whole = borders(bits)
    models: Dict[str, Model] = {}
    for border in (half, whole):
        beyond = [name for name, count in known.inputs.items() if count > border]
        for name in beyond:
            models[wraps(name, border)] = _misread(known, {name: border})
        if len(beyond) > 1:
            models[" and ".join(wraps(name, border) for name in beyond)] = _misread(
                known, dict.fromkeys(beyond, border)
            )
        if known.total > border:
            models[wraps("output", border)] = _overwritten(known, border)
            models[TAIL if border == whole else f"{TAIL} beyond 2**{bits - 1}"] = _unwritten(known, border)
    models[ZERO] = lambda where: torch.zeros(where.shape, dtype=torch.float64, device="cpu")
    return models


def _misread(known: Sourced, wrapping: Wraps) -> Model:
    return lambda where: known.at(where, wrapping)


def _overwritten(known: Sourced, border: int) -> Model:
    """What belongs to a flat index is written at that index modulo the border, in ascending order."""

    def model(where: torch.Tensor) -> torch.Tensor:
        last = where + (known.total - 1 - where) // border * border
        return torch.where(where < border, known.at(torch.where(where < border, last, where), {}), 0.0)

    return model


def _unwritten(known: Sourced, border: int) -> Model:
    return lambda where: torch.where(where < border, known.at(where, {}), 0.0)


def check_sourced(
    result: torch.Tensor,
    known: Sourced,
    bits: int = 32,
    *,
    widths: Sequence[int] = (),
    also: Sequence[int] = (),
    more: Optional[Mapping[str, Wraps]] = None,
) -> CheckResult:
    """Judge the chosen units (positions in dimension 0) of a result, with every fault model.

    Args:
        widths: How far the flat index of each input moves from one unit to the next.
        also: More units that are wanted.
        more: Name of another fault to what ``known.at`` is to be told for it.
    """
    own = result[:1].numel()
    kind = torch.float64 if result.dtype.is_floating_point else torch.int64
    kind = torch.bool if result.dtype == torch.bool else kind

    def in_units(model: Model) -> Callable[[slice], torch.Tensor]:
        def values(part: slice) -> torch.Tensor:
            where = torch.arange(part.start * own, part.stop * own, dtype=torch.int64, device="cpu")
            return model(where).to(kind).view(part.stop - part.start, *result.shape[1:])

        return values

    models = fault_models(known, bits)
    models.update({name: _misread(known, wrapping) for name, wrapping in (more or {}).items()})
    record(operand_elements=list(known.inputs.values()))
    return check_chosen(
        result,
        in_units(_misread(known, {})),
        choose(result.shape[0], (own, *widths), bits=bits, also=also),
        explain={name: in_units(model) for name, model in models.items()},
    )


def made_source(name: str, rows: int, columns: int, *, seed: int, amplitude: int = 2) -> Source:
    """The recipe of a contiguous matrix of small integers without zeros."""
    return source(place(name, (1, rows, columns), "contiguous"), seed=seed, amplitude=amplitude)


def made(device: str, dtype: str, *known: Source, bits: int = 32) -> List[torch.Tensor]:
    """Each source as a matrix on the device; that they hold there what was written is recorded."""
    matrices = []
    right = True
    for each in known:
        flat = buffer(each, getattr(torch, dtype), device)
        right = as_made(flat, each, bits) and right
        matrices.append(flat.view(each.operand.shape[1:]))
    record(inputs_as_made=right)
    return matrices


def read(known: Source, index: torch.Tensor, wrapping: Wraps) -> torch.Tensor:
    """The values of an input at flat indices, with the fault if its index wraps."""
    border = wrapping.get(known.operand.name)
    return known.read(index % border if border else index)


def sizes_of(*known: Source) -> Dict[str, int]:
    """Name of each input to its number of elements."""
    return {each.operand.name: each.operand.elements for each in known}


def divided(where: torch.Tensor, *sizes: int) -> Tuple[torch.Tensor, ...]:
    """Flat positions as coordinates in a row-major shape; the first one's size is not needed and not given."""
    found = []
    for size in reversed(sizes):
        found.append(where % size)
        where = where // size
    return (where, *reversed(found))

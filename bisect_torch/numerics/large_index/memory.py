"""How much memory a large-index case takes, computed from its parameters before anything is allocated."""

from __future__ import annotations

from typing import Dict

from bisect_torch.numerics.large_index.geometry import operands, parse_shape
from bisect_torch.numerics.large_index.judged import HELD

ITEM_BYTES: Dict[str, int] = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}

_UNIT = 24 * HELD + (96 << 20)
"""Comparing: a unit in float64 and as indices, the recipe's sequence, and what a first product loads."""


def forward_memory(device: str, dtype: str, layout: str, shape: str, batch: int) -> Dict[str, int]:
    """Bytes that :func:`~bisect_torch.numerics.large_index.bmm_forward` takes at most, by device type.

    Both buffers and the product; measured on releases 2.4.1 and 2.14.0, whose CPU kernels copy no operand.
    """
    return _placed(device, _elements(layout, shape, batch, "") * ITEM_BYTES[dtype])


def backward_memory(device: str, dtype: str, layout: str, shape: str, batch: int, grad: str) -> Dict[str, int]:
    """Bytes that :func:`~bisect_torch.numerics.large_index.bmm_backward` takes at most, by device type.

    Both buffers, the product, whose memory is used again for the upstream gradient, and one gradient.
    """
    return _placed(device, _elements(layout, shape, batch, grad) * ITEM_BYTES[dtype])


def _elements(layout: str, shape: str, batch: int, grad: str) -> int:
    sizes = parse_shape(shape, batch)
    used = operands(sizes, layout)
    gradient = sum(operand.elements for operand in used if operand.name == grad)
    return sum(operand.buffer for operand in used) + sizes.output + gradient


def _placed(device: str, size: int) -> Dict[str, int]:
    """On an accelerator the comparison alone takes the machine's own memory; that of MPS is the same memory."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return {"cpu": size + _UNIT}
    return {kind: size + _UNIT, "cpu": (size if kind == "mps" else 0) + _UNIT}

"""How much memory a large-index case takes, computed from its parameters before anything is allocated."""

from __future__ import annotations

from typing import Dict

from bisect_torch.numerics.large_index.geometry import Operand, operands, parse_shape
from bisect_torch.numerics.large_index.judged import HELD
from bisect_torch.numerics.large_index.predictor import gradient_operands

ITEM_BYTES: Dict[str, int] = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}

_UNIT = 24 * HELD + (96 << 20)
"""Comparing: a unit in float64 and as indices, the recipe's sequence, and what a first product loads."""


def forward_memory(device: str, dtype: str, layout: str, shape: str, batch: int) -> Dict[str, int]:
    """Bytes that :func:`~bisect_torch.numerics.large_index.bmm_forward` takes at most, by device type.

    Both buffers, the product, and what the CPU's kernel copies (see :func:`_copied`).
    """
    sizes = parse_shape(shape, batch)
    used = operands(sizes, layout)
    copied = sum(_copied(device, dtype, operand) for operand in used)
    return _placed(device, (sum(operand.buffer for operand in used) + sizes.output + copied) * ITEM_BYTES[dtype])


def backward_memory(device: str, dtype: str, layout: str, shape: str, batch: int, grad: str) -> Dict[str, int]:
    """Bytes that :func:`~bisect_torch.numerics.large_index.bmm_backward` takes at most, by device type.

    Both buffers, the product, whose memory is used again for the upstream gradient, and the larger of two: what is
    copied forward, or one gradient and what is copied for it.
    """
    sizes = parse_shape(shape, batch)
    used = operands(sizes, layout)
    forward = sum(_copied(device, dtype, operand) for operand in used)
    backward = sum(operand.elements for operand in used if operand.name == grad)
    backward += sum(_copied(device, dtype, operand) for operand in gradient_operands(sizes, layout, grad))
    elements = sum(operand.buffer for operand in used) + sizes.output + max(forward, backward)
    return _placed(device, elements * ITEM_BYTES[dtype])


def _copied(device: str, dtype: str, operand: Operand) -> int:
    """Elements that a kernel packs anew: on the CPU in bfloat16, of what is neither packed nor a packed one transposed.

    Measured on releases 2.4.1 and 2.14.0 (AVX-512); float16 and float32 are read in place there.
    """
    plain = operand.contiguous or operand.flipped().contiguous
    return 0 if device != "cpu" or dtype != "bfloat16" or plain else operand.elements


def _placed(device: str, size: int) -> Dict[str, int]:
    """On an accelerator the comparison alone takes the machine's own memory; that of MPS is the same memory."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return {"cpu": size + _UNIT}
    return {kind: size + _UNIT, "cpu": (size if kind == "mps" else 0) + _UNIT}

"""What ends in ``bmm`` under other names: ``matmul``, ``einsum``, ``baddbmm``, attention, at the borders of an index.

The borders 2**31 and 2**32 are crossed by the output or by one of the operands. Each body takes the width of the
index: tests run it scaled down.
"""

from __future__ import annotations

from typing import Callable, Dict, Tuple

import torch
import torch.nn.functional as F  # noqa: N812
from _large_index_attention import Attention, check_attention, eager_attention
from _large_index_sourced import BYTES, SIZES, border_of, bytes_of
from _large_index_sums import Sum, added_operand, check_sum

from bisect_torch import case, record, skip, thorough
from bisect_torch.numerics.check import CheckResult
from bisect_torch.numerics.large_index import (
    Operand,
    Product,
    Source,
    as_made,
    bmm_forward,
    buffer,
    place,
    source,
    view,
)

ABOVE = SIZES[1:]
HEADS = 4
"""Batches come in groups of so many, for operators of four dimensions; a size has one group more or less."""
FEATURES = 16
"""Of a token in attention."""

Call = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def side(bits: int = 32) -> int:
    """Rows and columns of a batch of which there are as many elements as batches at the upper border."""
    return 1 << (bits // 4)


def batches(size: str, bits: int = 32) -> int:
    """Batches of ``side * side`` elements: one group fewer than at the border that the size names, or one more."""
    return border_of(size, bits) // side(bits) ** 2 + (-HEADS if size.startswith("below") else HEADS)


def sizes(large: str, bits: int = 32) -> Tuple[int, int, int]:
    """Rows, inner length and columns of a batch: the large tensor's has ``side * side`` elements.

    The inner length is at most 128, so that sums are exact in bfloat16.
    """
    long, short = side(bits) * 2, side(bits) // 2
    return {
        "output": (side(bits), min(16, side(bits)), side(bits)),
        "a": (long, short, 8),
        "b": (8, short, long),
    }[large]


def heads_apart(x: torch.Tensor) -> torch.Tensor:
    """Groups of heads as a dimension of their own, as a view."""
    return x.unflatten(0, (-1, HEADS))


OPERATORS: Dict[str, Tuple[str, Call]] = {
    "matmul": ("contiguous", torch.matmul),
    "matmul in 4 dimensions": (
        "contiguous",
        lambda a, b: torch.matmul(heads_apart(a), heads_apart(b)).flatten(0, 1),
    ),
    "matmul by one matrix": ("expanded", lambda a, b: torch.matmul(a, b[0])),
    "linear": ("expanded", lambda a, b: F.linear(a, b[0].t())),
    "einsum": ("contiguous", lambda a, b: torch.einsum("bik,bkj->bij", a, b)),
    "einsum of a transposed": ("b transposed", lambda a, b: torch.einsum("bik,bjk->bij", a, b.transpose(1, 2))),
}
"""Name to the layout of the operands, and how ``a @ b`` is written."""


def product(device: str, dtype: str, operator: str, large: str, size: str, bits: int = 32) -> CheckResult:
    """A batched product by one of :data:`OPERATORS`, judged like ``bmm``."""
    layout, call = OPERATORS[operator]
    rows, inner, columns = sizes(large, bits)
    return bmm_forward(device, dtype, layout, f"{rows}x{inner}x{columns}", batches(size, bits), bits, call=call)


def product_memory(device: str, dtype: str, operator: str, large: str, size: str) -> Dict[str, int]:
    rows, inner, columns = sizes(large)
    b = 0 if OPERATORS[operator][0] == "expanded" else inner * columns
    return bytes_of(device, BYTES[dtype] * batches(size) * (rows * inner + b + rows * columns))


TO_LARGE = ["matmul", "linear", "einsum of a transposed"]
OF_LARGE_A = ["matmul", "matmul by one matrix", "einsum"]
OF_LARGE_B = ["matmul", "einsum of a transposed"]


@case(
    dtype=["bfloat16", "float32"],
    operator=TO_LARGE,
    size=ABOVE,
    memory=lambda device, dtype, operator, size: product_memory(device, dtype, operator, "output", size),
    timeout=600,
)
def product_to_large(device, dtype, operator, size):
    return product(device, dtype, operator, "output", size)


@case(
    dtype=["bfloat16", "float32"],
    operator=OF_LARGE_A,
    size=ABOVE,
    memory=lambda device, dtype, operator, size: product_memory(device, dtype, operator, "a", size),
    timeout=600,
)
def product_of_large_a(device, dtype, operator, size):
    return product(device, dtype, operator, "a", size)


@case(
    dtype=["bfloat16", "float32"],
    operator=OF_LARGE_B,
    size=ABOVE,
    memory=lambda device, dtype, operator, size: product_memory(device, dtype, operator, "b", size),
    timeout=600,
)
def product_of_large_b(device, dtype, operator, size):
    return product(device, dtype, operator, "b", size)


# --- baddbmm ----------------------------------------------------------------------------------------------------------


def sources(*known: Operand, amplitude: int = 1) -> Tuple[Source, ...]:
    """The recipes of operands, each with values of its own."""
    return tuple(source(operand, seed=61 + number, amplitude=amplitude) for number, operand in enumerate(known))


def tensors(device: str, dtype: str, bits: int, *known: Tuple[Source, str]) -> Tuple[torch.Tensor, ...]:
    """Sources with their placements as tensors on the device; that they hold what was written is recorded."""
    found, right = [], True
    for each, placement in known:
        flat = buffer(each, getattr(torch, dtype), device)
        right = as_made(flat, each, bits) and right
        found.append(view(flat, each.operand, placement))
    record(inputs_as_made=right, operand_elements=[each.operand.elements for each, _ in known])
    return tuple(found)


def baddbmm(device: str, dtype: str, added: str, large: str, size: str, bits: int = 32) -> CheckResult:
    """``c + a @ b`` with ``c`` one row for all, or as large as the product."""
    (rows, inner, columns), batch = sizes(large, bits), batches(size, bits)
    operand = added_operand(added, batch, rows, columns)
    a, b, c = sources(
        place("a", (batch, rows, inner), "contiguous"), place("b", (batch, inner, columns), "contiguous"), operand
    )
    left, right = tensors(device, dtype, bits, (a, "contiguous"), (b, "contiguous"))
    flat = buffer(c, getattr(torch, dtype), device)
    third = flat.view(batch, rows, columns) if added == "full" else flat.view(1, 1, columns)
    record(added_as_made=as_made(flat, c, bits), added_elements=flat.numel())
    result = torch.baddbmm(third, left, right)
    del left, right, flat, third
    return check_sum(result, Sum(a, b, c), bits)


def baddbmm_memory(device: str, dtype: str, added: str, large: str, size: str) -> Dict[str, int]:
    rows, inner, columns = sizes(large)
    full = rows * columns if added == "full" else 0
    return bytes_of(device, BYTES[dtype] * batches(size) * (rows * inner + inner * columns + rows * columns + full))


@case(
    dtype=["bfloat16", "float32"],
    added=["row", "full"],
    size=ABOVE,
    memory=lambda device, dtype, added, size: baddbmm_memory(device, dtype, added, "output", size),
    timeout=600,
)
def sum_with_large_product(device, dtype, added, size):
    return baddbmm(device, dtype, added, "output", size)


@case(
    dtype=["bfloat16", "float32"],
    large=["a", "b"],
    size=ABOVE[1:],
    memory=lambda device, dtype, large, size: baddbmm_memory(device, dtype, "row", large, size),
    timeout=600,
)
def sum_with_product_of_large(device, dtype, large, size):
    return baddbmm(device, dtype, "row", large, size)


# --- attention --------------------------------------------------------------------------------------------------------


def attention_scores(device: str, dtype: str, size: str, bits: int = 32) -> CheckResult:
    """``query @ key^T`` of four dimensions: the key is a transposed view, the output is large."""
    _, call = OPERATORS["matmul in 4 dimensions"]
    shape = f"{side(bits)}x{FEATURES}x{side(bits)}"
    return bmm_forward(device, dtype, "b transposed", shape, batches(size, bits), bits, call=call)


def attention(device: str, dtype: str, size: str, bits: int = 32) -> CheckResult:
    """Scores, softmax and the weighted values; scores and weights are large."""
    batch, length = batches(size, bits), side(bits)
    query, key, value = sources(
        place("query", (batch, length, FEATURES), "contiguous"),
        place("key", (batch, FEATURES, length), "transposed"),
        place("value", (batch, length, FEATURES), "contiguous"),
        amplitude=2,
    )
    q, k, v = tensors(device, dtype, bits, (query, "contiguous"), (key, "transposed"), (value, "contiguous"))
    result = eager_attention(heads_apart(q), heads_apart(k.transpose(1, 2)), heads_apart(v)).flatten(0, 1)
    record(scores_elements=batch * length * length)
    del q, k, v
    return check_attention(result, Attention(Product(query, key), value, getattr(torch, dtype)), bits)


def attention_memory(device: str, dtype: str, size: str, large: int) -> Dict[str, int]:
    return bytes_of(device, BYTES[dtype] * batches(size) * side() * (large * side() + 4 * FEATURES))


@case(
    dtype=["bfloat16", "float32"],
    size=ABOVE,
    memory=lambda device, dtype, size: attention_memory(device, dtype, size, 1),
    timeout=600,
)
def scores_of_attention(device, dtype, size):
    return attention_scores(device, dtype, size)


@case(
    dtype=["bfloat16", "float16"],
    size=ABOVE,
    memory=lambda device, dtype, size: attention_memory(device, dtype, size, 2),
    timeout=600,
)
def whole_attention(device, dtype, size):
    """In 16 bits: in float32 the thirds that equal scores lead to are not exact, and sums depend on their order."""
    if device.startswith("cpu") and dtype == "float16" and not thorough():
        skip("float16 sums of this number take minutes on a CPU; --thorough runs them")
    return attention(device, dtype, size)

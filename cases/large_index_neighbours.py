"""Other operators at the borders of a 32-bit index: 2-D products, ``cat``, reductions, ``fold``, indexing.

Public reports about MPS name these beside ``bmm``. Elements of one byte where the operator has such a kernel, so that
2**32 of them fit into common machines. Each body takes the width of the border: tests run it scaled down.
"""

from __future__ import annotations

from typing import Callable, Dict, NamedTuple, Tuple

import torch
from _large_index_marks import MARKED, check_marked
from _large_index_rows import PICKS, WRITES, pick_from_large, pick_memory, pick_to_large, write_into_large
from _large_index_sourced import (
    BYTES,
    SIZES,
    Sourced,
    Wraps,
    bytes_of,
    check_sourced,
    divided,
    elements,
    made,
    made_source,
    read,
    rows_beyond,
    sizes_of,
    width,
)
from _large_index_windows import fold, unfold, window_memory

from bisect_torch import case, record
from bisect_torch.numerics.check import CheckResult
from bisect_torch.numerics.large_index import bmm_forward
from bisect_torch.numerics.large_index.judged import HELD
from bisect_torch.numerics.large_index.predictor import strides_ignored

ISSUE = "https://github.com/pytorch/pytorch/issues/"
ABOVE = SIZES[1:]

# --- products of matrices ---------------------------------------------------------------------------------------------


def mm_sizes(large: str, size: str, bits: int) -> Tuple[int, int, int]:
    """Rows, inner length and columns of a product in which one tensor has the size.

    Inner length at most 128, so that sums are exact in bfloat16; scaled down, the other sizes shrink with the border.
    """
    inner = min(128, width(bits) // 4)
    if large == "output":
        return rows_beyond(size, width(bits), bits), 16, width(bits)
    long = rows_beyond(size, inner, bits)
    return (long, inner, 8) if large == "a" else (4, inner, long)


def mm(device: str, dtype: str, large: str, layout: str, size: str, bits: int = 32) -> CheckResult:
    """``torch.mm`` as a batch of one."""
    if large == "b":
        return mm_of_large_b(device, dtype, layout == "b transposed", size, bits)
    rows, inner, columns = mm_sizes(large, size, bits)

    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.mm(a[0], b[0]).unsqueeze(0)

    shape = f"{rows}x{inner}x{columns}"
    return bmm_forward(device, dtype, layout, shape, 1, bits, call=call, predict=False)  # the rules are of bmm


def mm_of_large_b(device: str, dtype: str, transposed: bool, size: str, bits: int) -> CheckResult:
    """A few long rows. Columns are compared, since for one whole row all of ``b`` would have to be computed anew."""
    rows, inner, columns = mm_sizes("b", size, bits)
    a = made_source("a", rows, inner, seed=11, amplitude=1)
    b = made_source("b", *((columns, inner) if transposed else (inner, columns)), seed=12, amplitude=1)
    left, right = made(device, dtype, a, b, bits=bits)
    result = torch.mm(left, right.t() if transposed else right)
    del left, right
    k = torch.arange(inner, dtype=torch.int64, device="cpu")

    def some(where: torch.Tensor, wrapping: Wraps) -> torch.Tensor:
        column, row = divided(where, rows)
        packed = not transposed or "packed" in wrapping
        in_b = k * columns + column.unsqueeze(1) if packed else column.unsqueeze(1) * inner + k
        return (read(a, row.unsqueeze(1) * inner + k, wrapping) * read(b, in_b, wrapping)).sum(1)

    def at(where: torch.Tensor, wrapping: Wraps) -> torch.Tensor:
        return torch.cat([some(part, wrapping) for part in where.split(max(1, HELD // inner))])

    record(flat_index_counts="columns first")
    return check_sourced(
        result.t(),
        Sourced(result.numel(), sizes_of(a, b), at),
        bits,
        also=range(max(0, columns - 64), columns),
        more={strides_ignored("b"): {"packed": 1}} if transposed else {},
    )


def mm_memory(device: str, dtype: str, large: str, size: str) -> Dict[str, int]:
    rows, inner, columns = mm_sizes(large, size, 32)
    return bytes_of(device, BYTES[dtype] * (rows * inner + inner * columns + rows * columns))


@case(dtype=["bfloat16", "float32"], large=["a", "b", "output"], size=ABOVE, memory=mm_memory, timeout=600)
def mm_contiguous(device, dtype, large, size):
    return mm(device, dtype, large, "contiguous", size)


VIEWS = {
    "large a, transposed": ("a", "a transposed"),
    "large b, transposed": ("b", "b transposed"),
    "large output, b transposed": ("output", "b transposed"),
}
"""What is large, and which operand is a transposed view."""


@case(
    dtype=["bfloat16", "float32"],
    view=list(VIEWS),
    size=ABOVE[1:],
    memory=lambda device, dtype, view, size: mm_memory(device, dtype, VIEWS[view][0], size),
    timeout=600,
)
def mm_of_views(device, dtype, view, size):
    return mm(device, dtype, *VIEWS[view], size)


@case(
    dtype=["float32"],
    inner=[32766, 32767, 32768, 65536, 65537],
    layout=["contiguous", "a transposed", "b transposed"],
    issue=ISSUE + "195163",
)
def bmm_of_long_sums(device, dtype, inner, layout):
    """Small tensors: here the length of the sum goes past the largest 16-bit integers."""
    return bmm_forward(device, dtype, layout, f"4x{inner}x4", 3)


# --- cat --------------------------------------------------------------------------------------------------------------


def cat(device: str, parts: str, dim: int, size: str, bits: int = 32) -> CheckResult:
    """Two matrices beside (``dim=1``) or below each other: equal ones, or one that is large itself and a small one."""
    across = width(bits)
    rows = rows_beyond(size, across, bits)
    if dim == 0:
        first = rows // 2 if parts == "equal" else rows - 2
        shapes = [(first, across), (rows - first, across)]
    else:
        first = across // 2 if parts == "equal" else across - 2
        shapes = [(rows, first), (rows, across - first)]
    a, b = made_source("a", *shapes[0], seed=21), made_source("b", *shapes[1], seed=22)
    matrices = made(device, "int8", a, b, bits=bits)
    result = torch.cat(matrices, dim)
    del matrices

    def at(where: torch.Tensor, wrapping: Wraps) -> torch.Tensor:
        row, column = divided(where, across)
        if dim == 0:
            inside, in_a, in_b = row < first, where, where - a.operand.elements
        else:
            inside, in_a, in_b = column < first, row * first + column, row * (across - first) + column - first
        from_a = read(a, torch.where(inside, in_a, 0), wrapping)
        return torch.where(inside, from_a, read(b, torch.where(inside, 0, in_b), wrapping))

    known = Sourced(rows * across, sizes_of(a, b), at)
    return check_sourced(result, known, bits, widths=(shapes[0][1], shapes[1][1]))


PARTS = {
    "equal, side by side": ("equal", 1),
    "equal, one below the other": ("equal", 0),
    "large and small, one below the other": ("large and small", 0),
}


@case(
    parts=list(PARTS),
    size=ABOVE,
    memory=lambda device, size: bytes_of(device, 2 * elements(size)),
    timeout=600,
    issue=ISSUE + "189960",
)
def cat_of_two(device, parts, size):
    return cat(device, *PARTS[parts], size)


# --- reductions -------------------------------------------------------------------------------------------------------


def marked_memory(device: str, operation: str, size: str) -> Dict[str, int]:
    return bytes_of(device, elements(size) * BYTES[MARKED[operation].dtype])


@case(operation=list(MARKED), size=ABOVE, memory=marked_memory, timeout=600, issue=ISSUE + "194082")
def reduction_to_one(device, operation, size):
    """The answer hangs on elements on both sides of each border, and on the last."""
    return check_marked(device, operation, size)


class Along(NamedTuple):
    """A reduction of rows (dimension 1) or columns (dimension 0).

    Args:
        length: Elements that are joined.
        by_hand: The same for the rows of a small float64 matrix.
    """

    dtype: str
    dim: int
    length: int
    call: Callable[..., torch.Tensor]
    by_hand: Callable[[torch.Tensor], torch.Tensor]


def first_largest(values: torch.Tensor) -> torch.Tensor:
    """Place of the first of the largest values in each row."""
    places = torch.arange(values.shape[1], dtype=torch.float64, device="cpu").expand(values.shape)
    return places.masked_fill(values < values.amax(1, keepdim=True), float("inf")).amin(1)


ALONG: Dict[str, Along] = {
    "sum of rows": Along("bfloat16", 1, 64, torch.sum, lambda values: values.sum(1)),
    "argmax of rows": Along("int8", 1, 256, torch.argmax, first_largest),
    "sum of columns": Along("bfloat16", 0, 16, torch.sum, lambda values: values.sum(1)),
    "amax of columns": Along("int8", 0, 4, torch.amax, lambda values: values.amax(1)),
    "any of columns": Along("bool", 0, 4, torch.any, lambda values: (values != 0).any(1).double()),
}
"""Operation to how it is done. Sums are exact in bfloat16; few enough numbers are joined that each one matters."""


def reduction(device: str, operation: str, size: str, bits: int = 32) -> CheckResult:
    """A matrix reduced along a dimension."""
    along = ALONG[operation]
    count = elements(size, bits)
    rows, columns = (count // along.length, along.length) if along.dim == 1 else (along.length, count // along.length)
    known = made_source("a", rows, columns, seed=31)
    if along.dtype == "bool":  # one in four
        known = known._replace(sequence=(known.sequence > 1).to(torch.int8))
    (matrix,) = made(device, along.dtype, known, bits=bits)
    result = along.call(matrix, dim=along.dim)
    del matrix

    across, down = (1, columns) if along.dim == 1 else (columns, 1)
    inner = torch.arange(along.length, dtype=torch.int64, device="cpu") * across

    def at(where: torch.Tensor, wrapping: Wraps) -> torch.Tensor:
        parts = where.split(max(1, HELD // along.length))
        return torch.cat([along.by_hand(read(known, part.unsqueeze(1) * down + inner, wrapping)) for part in parts])

    last = range(max(0, result.numel() - 4096), result.numel())
    return check_sourced(
        result,
        Sourced(result.numel(), sizes_of(known), at),
        bits,
        widths=(along.length,) if along.dim == 1 else (),
        also=last,
    )


def along_memory(device: str, operation: str, size: str) -> Dict[str, int]:
    along = ALONG[operation]
    result = 8 if along.call is torch.argmax else BYTES[along.dtype]
    return bytes_of(device, elements(size) * (BYTES[along.dtype] + result / along.length))


@case(operation=list(ALONG), size=ABOVE[1:], memory=along_memory, timeout=600, issue=ISSUE + "194082")
def reduction_along_a_dimension(device, operation, size):
    return reduction(device, operation, size)


# --- sliding windows --------------------------------------------------------------------------------------------------


@case(dtype=["bfloat16", "float32"], size=ABOVE, memory=window_memory, timeout=600, issue=ISSUE + "185663")
def unfold_to_large(device, dtype, size):
    return unfold(device, dtype, size)


@case(dtype=["bfloat16", "float32"], size=ABOVE, memory=window_memory, timeout=600, issue=ISSUE + "185663")
def fold_of_large(device, dtype, size):
    return fold(device, dtype, size)


# --- indexing ---------------------------------------------------------------------------------------------------------


@case(operator=list(PICKS), size=ABOVE, memory=pick_memory, timeout=600)
def pick_rows_of_large(device, operator, size):
    return pick_from_large(device, operator, size)


@case(operator=["index_select", "embedding", "index"], size=ABOVE[1:], memory=pick_memory, timeout=600)
def pick_rows_to_large(device, operator, size):
    return pick_to_large(device, operator, size)


@case(operator=list(WRITES), size=ABOVE[1:], memory=pick_memory, timeout=600)
def write_rows_of_large(device, operator, size):
    return write_into_large(device, operator, size)


# --- just below -------------------------------------------------------------------------------------------------------

BELOW: Dict[str, Callable[[str, str], CheckResult]] = {
    "mm": lambda device, size: mm(device, "bfloat16", "output", "contiguous", size),
    "cat": lambda device, size: cat(device, "equal", 1, size),
    "argmax": lambda device, size: check_marked(device, "argmax", size),
    "any": lambda device, size: check_marked(device, "any", size),
    "fold": lambda device, size: fold(device, "bfloat16", size),
    "index_select": lambda device, size: pick_from_large(device, "index_select", size),
}
"""One of each kind on the near side of the first border, where nothing should ever be wrong."""


@case(what=list(BELOW), size=SIZES[:1], memory=lambda device: bytes_of(device, 2 * (2**31 + 2**28)), timeout=600)
def below_the_borders(device, what, size):
    return BELOW[what](device, size)

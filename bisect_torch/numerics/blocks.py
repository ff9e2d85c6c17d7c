"""A tensor in bounded memory: blocks in logical order, brought to the CPU one at a time."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Iterator, List, Sequence, Tuple, Union

if TYPE_CHECKING:
    import torch

Index = Tuple[Union[int, slice], ...]

BLOCK_ELEMENTS = 1 << 15
"""Elements held at a time. What a block needs stays in the cache, and torch does not share so few elements among
threads: measured on two busy cores, blocks of 2**20 took ten times as long, waiting for each other."""


def block_indices(shape: Sequence[int], limit: int = BLOCK_ELEMENTS) -> Iterator[Tuple[int, Index]]:
    """Cut a shape into blocks that follow each other in logical (row-major) order.

    Yields:
        The number of elements before the block, and the index that selects it: leading integers, then one slice.
    """
    count = 1
    for size in shape:
        count *= size
    if count:
        yield from _cut(list(shape), 0, (), count, limit)


def _cut(shape: List[int], start: int, prefix: Index, count: int, limit: int) -> Iterator[Tuple[int, Index]]:
    if count <= limit or not shape:
        yield start, prefix
        return
    row = count // shape[0]
    if row > limit:
        for position in range(shape[0]):
            yield from _cut(shape[1:], start + position * row, (*prefix, position), row, limit)
        return
    rows = limit // row
    for first in range(0, shape[0], rows):
        yield start + first * row, (*prefix, slice(first, min(first + rows, shape[0])))


def block_on_cpu(tensor: "torch.Tensor", index: Index) -> "torch.Tensor":
    """The block as a flat, contiguous CPU tensor without gradient."""
    tensor = tensor.detach()
    if any(getattr(tensor, "names", ())):
        tensor = tensor.rename(None)
    block = tensor[index] if index else tensor
    return block.resolve_conj().resolve_neg().to("cpu").contiguous().reshape(-1)


def raw_bytes(tensor: "torch.Tensor") -> "ctypes.Array[ctypes.c_char]":
    """The memory of a contiguous CPU tensor, without a copy and without numpy. Valid as long as the tensor lives."""
    size = tensor.numel() * tensor.element_size()
    return (ctypes.c_char * size).from_address(tensor.data_ptr()) if size else (ctypes.c_char * 0)()

"""How much of memory a tensor's description spans."""

from __future__ import annotations

from typing import Any, Iterator, List

import torch
from torch import Tensor


def reach(tensor: Tensor) -> int:
    """Elements of storage between a strided tensor's first and last element, both counted; 0 when it has none.

    The offset into storage does not count: a kernel is given the address of the first element, and cutting a large
    tensor into slices is the cure, not the fault.
    """
    strides = tensor.stride()
    total = 1
    for axis, size in enumerate(tensor.shape):
        if size == 0:
            return 0
        total += (size - 1) * strides[axis]
    return total


def extent(tensor: Tensor) -> int:
    """The larger of a tensor's number of elements and its reach, in elements.

    Of a sparse tensor only what is stored counts. Layouts that show no strides count by their elements.
    """
    if tensor.layout is torch.strided:
        if tensor.is_nested:
            return int(tensor.numel())
        return max(int(tensor.numel()), reach(tensor))
    return max((extent(part) for part in stored_parts(tensor)), default=int(tensor.numel()))


def stored_parts(tensor: Tensor) -> List[Tensor]:
    """The dense tensors that a sparse one is made of; none for other layouts."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in an argument or result, through lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)

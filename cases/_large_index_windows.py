"""``unfold`` (im2col) and ``fold`` (col2im) where the tensor of windows is large."""

from __future__ import annotations

from typing import Dict, Tuple

import torch
import torch.nn.functional as F  # noqa: N812
from _large_index_sourced import (
    BYTES,
    Sourced,
    Wraps,
    border_of,
    bytes_of,
    check_sourced,
    divided,
    made,
    made_source,
    read,
    sizes_of,
)

from bisect_torch.numerics.check import CheckResult

__all__ = ["fold", "unfold", "window_memory"]

KERNEL = 4  # rows and columns of a window, so each pixel of ``fold`` is a sum of at most 16


def window_sizes(size: str, bits: int = 32) -> Tuple[int, int, int]:
    """Channels, and rows and columns of windows: channels * 16 * rows * columns is on the wanted side of the border."""
    power = border_of(size, bits).bit_length() - 1
    positions = power // 2
    rows = 1 << (positions // 2)
    columns = (1 << (positions - positions // 2)) + (-1 if size.startswith("below") else 1)
    return 1 << (power - positions - 4), rows, columns


def window_elements(size: str) -> int:
    channels, rows, columns = window_sizes(size)
    return channels * KERNEL**2 * rows * columns


def unfold(device: str, dtype: str, size: str, bits: int = 32) -> CheckResult:
    """im2col: a picture of many channels into the columns of its windows, of which there are many elements."""
    channels, rows, columns = window_sizes(size, bits)
    height, across = rows + KERNEL - 1, columns + KERNEL - 1
    known = made_source("a", channels, height * across, seed=41)
    (matrix,) = made(device, dtype, known, bits=bits)
    result = F.unfold(matrix.view(1, channels, height, across), KERNEL)[0]
    del matrix

    def at(where: torch.Tensor, wrapping: Wraps) -> torch.Tensor:
        channel, i, j, y, x = divided(where, KERNEL, KERNEL, rows, columns)
        return read(known, (channel * height + y + i) * across + x + j, wrapping)

    return check_sourced(result, Sourced(result.numel(), sizes_of(known), at), bits)


def fold(device: str, dtype: str, size: str, bits: int = 32) -> CheckResult:
    """col2im: the columns of windows, of which there are many elements, summed into a picture."""
    channels, rows, columns = window_sizes(size, bits)
    height, across = rows + KERNEL - 1, columns + KERNEL - 1
    known = made_source("a", channels * KERNEL**2, rows * columns, seed=42)
    (matrix,) = made(device, dtype, known, bits=bits)
    result = F.fold(matrix.unsqueeze(0), (height, across), KERNEL)[0].view(channels, height * across)
    del matrix

    def at(where: torch.Tensor, wrapping: Wraps) -> torch.Tensor:
        channel, down, right = divided(where, height, across)
        total = torch.zeros(where.shape, dtype=torch.float64, device="cpu")
        for i in range(KERNEL):
            for j in range(KERNEL):
                y, x = down - i, right - j
                covered = (y >= 0) & (y < rows) & (x >= 0) & (x < columns)
                place = ((channel * KERNEL + i) * KERNEL + j) * rows * columns + y * columns + x
                total += torch.where(covered, read(known, torch.where(covered, place, 0), wrapping), 0.0)
        return total

    per_channel = KERNEL**2 * rows * columns
    return check_sourced(result, Sourced(result.numel(), sizes_of(known), at), bits, widths=(per_channel,))


def window_memory(device: str, dtype: str, size: str) -> Dict[str, int]:
    return bytes_of(device, BYTES[dtype] * window_elements(size) * 1.08)

"""Operators written out with additions, multiplications and indexing, to compare the real ones against.

Everything here takes float64 (or complex128, or int64) tensors on the CPU and uses none of the kernels under test.
"""

from __future__ import annotations

import math
from typing import Optional, Tuple

import torch

__all__ = [
    "attention",
    "bilinear",
    "conv2d",
    "conv_transpose2d",
    "cross_entropy",
    "discrete_fourier",
    "exact",
    "log_softmax",
    "lstm",
    "matmul",
    "softmax",
    "standardised",
]


def exact(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers on the CPU, contiguous and in the widest type of their kind."""
    plain = tensor.detach().cpu()
    if plain.is_complex():
        return plain.to(torch.complex128).contiguous()
    return (plain.double() if plain.is_floating_point() else plain.long()).contiguous()


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Product of (…, n, k) and (…, k, m), one column of ``a`` at a time."""
    total = a[..., :, :1] * b[..., :1, :]
    for k in range(1, a.shape[-1]):
        total = total + a[..., :, k : k + 1] * b[..., k : k + 1, :]
    return total


def softmax(scores: torch.Tensor, dim: int) -> torch.Tensor:
    powers = (scores - scores.amax(dim, keepdim=True)).exp()
    return powers / powers.sum(dim, keepdim=True)


def log_softmax(scores: torch.Tensor, dim: int) -> torch.Tensor:
    shifted = scores - scores.amax(dim, keepdim=True)
    return shifted - shifted.exp().sum(dim, keepdim=True).log()


def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """softmax(query keyᵀ / √d + bias) value."""
    scores = matmul(query, key.transpose(-2, -1)) / math.sqrt(query.shape[-1])
    return matmul(softmax(scores if bias is None else scores + bias, -1), value)


def standardised(x: torch.Tensor, dims: Tuple[int, ...], eps: float) -> torch.Tensor:
    """Mean 0 and variance 1 over the given dimensions."""
    centred = x - x.mean(dims, keepdim=True)
    return centred / (centred.square().mean(dims, keepdim=True) + eps).sqrt()


def conv2d(
    x: torch.Tensor, weight: torch.Tensor, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> torch.Tensor:
    """Cross-correlation of (N, C, H, W) with (O, C / groups, kh, kw), a sum over shifted pictures."""
    batch, channels, height, width = x.shape
    padded = x.new_zeros(batch, channels, height + 2 * padding, width + 2 * padding)
    padded[:, :, padding : padding + height, padding : padding + width] = x
    outputs, inputs, kh, kw = weight.shape
    rows = (padded.shape[2] - dilation * (kh - 1) - 1) // stride + 1
    columns = (padded.shape[3] - dilation * (kw - 1) - 1) // stride + 1
    total = x.new_zeros(batch, outputs, rows, columns)
    for o in range(outputs):
        first = o // (outputs // groups) * inputs
        for i in range(kh):
            for j in range(kw):
                top, left = i * dilation, j * dilation
                seen = padded[:, first : first + inputs, top::stride, left::stride][:, :, :rows, :columns]
                total[:, o] += (seen * weight[o, :, i, j].view(1, -1, 1, 1)).sum(1)
    return total


def conv_transpose2d(x: torch.Tensor, weight: torch.Tensor, stride: int) -> torch.Tensor:
    """Every pixel of (N, C, H, W) stamps its multiple of (C, O, kh, kw) on the result."""
    batch, _, height, width = x.shape
    _, outputs, kh, kw = weight.shape
    total = x.new_zeros(batch, outputs, (height - 1) * stride + kh, (width - 1) * stride + kw)
    for i in range(height):
        for j in range(width):
            stamp = (x[:, :, i, j].view(batch, -1, 1, 1, 1) * weight).sum(1)
            total[:, :, i * stride : i * stride + kh, j * stride : j * stride + kw] += stamp
    return total


def cross_entropy(scores: torch.Tensor, classes: torch.Tensor, smoothing: float, ignored: int) -> torch.Tensor:
    """Mean over the rows whose class is not ``ignored``."""
    log_p = log_softmax(scores, 1)
    losses = [
        -(1 - smoothing) * log_p[row, wanted] - smoothing * log_p[row].mean()
        for row, wanted in enumerate(classes.tolist())
        if wanted != ignored
    ]
    return torch.stack(losses).mean()


def discrete_fourier(x: torch.Tensor) -> torch.Tensor:
    """The transform of the last dimension by its definition."""
    n = x.shape[-1]
    turns = torch.arange(n).view(-1, 1) * torch.arange(n).view(1, -1) % n
    angles = turns.double() * (-2 * math.pi / n)
    waves = torch.complex(angles.cos(), angles.sin())
    return (x.to(torch.complex128).unsqueeze(-2) * waves).sum(-1)


def bilinear(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """(N, C, H, W) to another size with half-pixel centres (``align_corners=False``)."""

    def places(size: int, wanted: int) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        at = ((torch.arange(wanted).double() + 0.5) * (size / wanted) - 0.5).clamp(min=0)
        low = at.floor().long()
        return low, (low + 1).clamp(max=size - 1), at - low

    top, bottom, down = places(x.shape[2], rows)
    left, right, along = places(x.shape[3], columns)
    mixed = x[:, :, top] * (1 - down).view(-1, 1) + x[:, :, bottom] * down.view(-1, 1)
    return mixed[:, :, :, left] * (1 - along) + mixed[:, :, :, right] * along


def lstm(x: torch.Tensor, w_input: torch.Tensor, w_hidden: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Outputs of one layer for (steps, batch, features), starting at zero."""
    size = w_hidden.shape[1]
    hidden = x.new_zeros(x.shape[1], size)
    cell = x.new_zeros(x.shape[1], size)
    outputs = []
    for step in x:
        gates = matmul(step, w_input.t()) + matmul(hidden, w_hidden.t()) + bias
        enter, forget, candidate, leave = (gates[:, i * size : (i + 1) * size] for i in range(4))
        cell = _logistic(forget) * cell + _logistic(enter) * candidate.tanh()
        hidden = _logistic(leave) * cell.tanh()
        outputs.append(hidden)
    return torch.stack(outputs)


def _logistic(x: torch.Tensor) -> torch.Tensor:
    return 1 / (1 + (-x).exp())

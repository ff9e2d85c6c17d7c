"""Eager attention, ``softmax(query @ key^T * scale) @ value``, right and with each fault of an index on its way.

Scores are integers and the scale is so large that the softmax is a choice of the largest: each of ``t`` equal ones gets
1/t exactly, the others exactly zero. So nothing depends on the order of summation here either, and a fault model
reproduces a wrong result bit by bit.
"""

from __future__ import annotations

from typing import Callable, Dict, NamedTuple, Optional

import torch

from bisect_torch.numerics.check import CheckResult
from bisect_torch.numerics.large_index import Product, Source, borders, check_chosen, choose, fault_models
from bisect_torch.numerics.large_index.models import TAIL, ZERO, Rows
from bisect_torch.numerics.large_index.predictor import wraps

__all__ = ["SCALE", "Attention", "check_attention", "eager_attention"]

SCALE = 128.0
"""exp(-128) is less than half of the smallest positive float32."""


def eager_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """As models without a fused kernel do it; all of shape (batch, heads, length, features)."""
    scores = torch.matmul(query, key.transpose(-2, -1))
    scores.mul_(SCALE)
    weights = torch.softmax(scores, dim=-1)
    del scores
    return torch.matmul(weights, value)


class Attention(NamedTuple):
    """The recipe of an attention.

    Args:
        scores: Product of the query and the transposed key, before the scale.
        value: Contiguous, (batch, length, features).
        dtype: In which weights are stored.
    """

    scores: Product
    value: Source
    dtype: torch.dtype

    def batch(self, number: int, rows: Rows, border: Optional[int] = None, rounded: bool = True) -> torch.Tensor:
        """One matrix of the result from scores as they were computed.

        Args:
            border: The flat index of the weights wraps there (a multiple of the matrix's size) when they are read.
            rounded: The weights are rounded to the type, as a program's are.
        """
        length = self.scores.columns
        of = number % (border // length**2) if border else number
        scores = rows(slice(of * length, (of + 1) * length)) * SCALE
        powers = (scores - scores.amax(1, keepdim=True)).exp()
        powers[powers < 2.0**-150] = 0.0  # as in float32
        weights = powers / powers.sum(1, keepdim=True)
        weights = weights.to(self.dtype).double() if rounded else weights
        _, height, features = self.value.operand.shape
        index = torch.arange(height * features, dtype=torch.int64, device="cpu") + number * height * features
        return weights.mm(self.value.read(index).view(height, features))


def check_attention(result: torch.Tensor, known: Attention, bits: int = 32) -> CheckResult:
    """Judge the chosen batches (heads count as batches) of a result of three dimensions."""
    batch, length, _ = known.scores.x.operand.shape
    one = known.scores.columns * length
    widths = {one, result[:1].numel(), *(known_as[1] * known_as[2] for known_as in _shapes(known))}

    def in_batches(single: Callable[[int], torch.Tensor]) -> Rows:
        return lambda part: torch.stack([single(number) for number in range(part.start, part.stop)])

    models: Dict[str, Rows] = {}
    for name, rows in fault_models(known.scores, bits).items():
        name = name.replace("output", "scores").replace(TAIL, "tail of scores not written")
        name = "scores are zero" if name == ZERO else name
        models[name] = in_batches(lambda number, rows=rows: known.batch(number, rows))
    for border in borders(bits):
        if batch * one > border:
            models[wraps("weights", border)] = in_batches(
                lambda number, border=border: known.batch(number, known.scores.values, border)
            )
    models[ZERO] = in_batches(lambda number: torch.zeros(result.shape[1:], dtype=torch.float64, device="cpu"))
    reference = in_batches(lambda number: known.batch(number, known.scores.values, rounded=False))
    return check_chosen(result, reference, choose(batch, widths, bits=bits), explain=models)


def _shapes(known: Attention) -> "list[tuple[int, int, int]]":
    return [known.scores.x.operand.shape, known.scores.y.operand.shape, known.value.operand.shape]

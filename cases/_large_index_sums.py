"""A batched product with something added to it, as ``baddbmm`` gives: right, and with each fault of an index."""

from __future__ import annotations

from typing import Dict, Optional

import torch

from bisect_torch.numerics.check import CheckResult
from bisect_torch.numerics.large_index import (
    Operand,
    Product,
    Source,
    borders,
    check_chosen,
    choice_for,
    fault_models,
    place,
)
from bisect_torch.numerics.large_index.models import Fault, Rows
from bisect_torch.numerics.large_index.predictor import wraps

__all__ = ["Sum", "added_operand", "check_sum"]

RIGHT = Fault()


def added_operand(kind: str, batch: int, rows: int, columns: int) -> Operand:
    """What is added: ``full``, a tensor as large as the product, or ``row``, one row for all."""
    if kind == "full":
        return place("c", (batch, rows, columns), "contiguous")
    return Operand("c", (batch, rows, columns), (0, 0, 1), columns)


class Sum(Product):
    """``x @ y + added``; whatever is known of a product (rows, columns, fault models) holds for it too."""

    added: Source

    def __new__(cls, x: Source, y: Source, added: Source) -> Sum:
        made = super().__new__(cls, x, y)
        made.added = added
        return made

    def values(self, part: slice, x: Fault = RIGHT, y: Fault = RIGHT, border: Optional[int] = None) -> torch.Tensor:
        """The rows, exact; with ``border`` when the flat index of what is added wraps there."""
        height, (outer, down, across) = self.added.operand.shape[1], self.added.operand.strides
        row = torch.arange(part.start, part.stop, dtype=torch.int64, device="cpu").unsqueeze(1)
        column = torch.arange(self.columns, dtype=torch.int64, device="cpu")
        index = row // height * outer + row % height * down + column * across
        return super().values(part, x, y) + self.added.read(index % border if border else index)


def check_sum(result: torch.Tensor, known: Sum, bits: int = 32) -> CheckResult:
    """Judge the chosen batches of a result; batches are small enough to be compared whole."""
    unit, choice = choice_for(known, bits)
    models: Dict[str, Rows] = dict(fault_models(known, bits))
    for border in borders(bits):
        if known.added.operand.buffer > border:
            models[wraps("c", border)] = lambda part, border=border: known.values(part, border=border)

    def in_units(model: Rows) -> Rows:
        return lambda part: model(slice(part.start * unit, part.stop * unit)).view(-1, unit, known.columns)

    explain = {name: in_units(model) for name, model in models.items()}
    return check_chosen(result, in_units(known.values), choice, explain=explain)

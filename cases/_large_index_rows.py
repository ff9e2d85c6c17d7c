"""Indexing: rows picked from a large table or into a large result, and rows of a large table replaced."""

from __future__ import annotations

from typing import Callable, Dict

import torch
import torch.nn.functional as F  # noqa: N812
from _large_index_sourced import (
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

from bisect_torch.numerics.check import CheckResult
from bisect_torch.numerics.large_index import choose

__all__ = ["PICKS", "WRITES", "pick_from_large", "pick_memory", "pick_to_large", "write_into_large"]

TABLE_ROWS = 1021
"""Rows of the small table of which a large result is made; a prime."""


def gathered(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.gather(table, 0, rows.unsqueeze(1).expand(-1, table.shape[1]))


def taken(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    across = table.shape[1]
    return torch.take(table, rows.unsqueeze(1) * across + torch.arange(across, device=rows.device))


PICKS: Dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index_select": lambda table, rows: torch.index_select(table, 0, rows),
    "embedding": lambda table, rows: F.embedding(rows, table),
    "index": lambda table, rows: table[rows],
    "gather": gathered,
    "take": taken,
}
"""Operator to how it picks whole rows of a matrix."""

WRITES: Dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]] = {
    "index_copy": lambda table, rows, new: table.index_copy_(0, rows, new),
    "index_put": lambda table, rows, new: table.index_put_((rows,), new),
    "scatter": lambda table, rows, new: table.scatter_(0, rows.unsqueeze(1).expand(-1, table.shape[1]), new),
}
"""Operator to how it replaces whole rows of a matrix."""


def chosen_rows(size: str, bits: int) -> torch.Tensor:
    """First, last, both sides of each border, and a sample, in descending order."""
    across = width(bits)
    units = choose(rows_beyond(size, across, bits), (across,), bits=bits, everything=False).units()
    return torch.tensor(units[::-1], dtype=torch.int64, device="cpu")


def pick_from_large(device: str, operator: str, size: str, bits: int = 32) -> CheckResult:
    """A few rows of a large table."""
    across, rows = width(bits), chosen_rows(size, bits)
    known = made_source("a", rows_beyond(size, across, bits), across, seed=51)
    (table,) = made(device, "int8", known, bits=bits)
    result = PICKS[operator](table, rows.to(device))
    del table

    def at(where: torch.Tensor, wrapping: Wraps) -> torch.Tensor:
        row, column = divided(where, across)
        return read(known, rows[row] * across + column, wrapping)

    found = Sourced(result.numel(), sizes_of(known), at)
    return check_sourced(result, found, bits, also=range(len(rows)))


def pick_to_large(device: str, operator: str, size: str, bits: int = 32) -> CheckResult:
    """Many rows of a small table."""
    across = width(bits)
    known = made_source("a", TABLE_ROWS, across, seed=52)
    (table,) = made(device, "int8", known, bits=bits)
    rows = torch.arange(rows_beyond(size, across, bits), dtype=torch.int64, device="cpu") * 7919 % TABLE_ROWS
    result = PICKS[operator](table, rows.to(device))
    del table

    def at(where: torch.Tensor, wrapping: Wraps) -> torch.Tensor:
        row, column = divided(where, across)
        return read(known, rows[row] * across + column, wrapping)

    return check_sourced(result, Sourced(result.numel(), sizes_of(known), at), bits)


def write_into_large(device: str, operator: str, size: str, bits: int = 32) -> CheckResult:
    """A few rows of a large table are replaced; ``a`` is what it held before, ``b`` what is written."""
    across, rows = width(bits), chosen_rows(size, bits)
    a = made_source("a", rows_beyond(size, across, bits), across, seed=53)
    b = made_source("b", len(rows), across, seed=54)
    table, new = made(device, "int8", a, b, bits=bits)
    WRITES[operator](table, rows.to(device), new)

    def at(where: torch.Tensor, wrapping: Wraps) -> torch.Tensor:
        """Rows are whole parts of each border, so rows wrap as flat indices do."""
        reached = rows % (wrapping["target"] // across) if "target" in wrapping else rows
        row, column = divided(where, across)
        source_row = torch.full((a.operand.shape[1],), -1, dtype=torch.int64, device="cpu")
        for number, target in enumerate(reached.tolist()):
            source_row[target] = number
        written = source_row[row]
        fresh = read(b, written.clamp(min=0) * across + column, wrapping)
        return torch.where(written >= 0, fresh, read(a, where, wrapping))

    found = Sourced(0, {"target": a.operand.elements, "b": b.operand.elements}, at)
    return check_sourced(table, found, bits)


def pick_memory(device: str, size: str) -> Dict[str, int]:
    return bytes_of(device, elements(size) + 64 * width() * 10)

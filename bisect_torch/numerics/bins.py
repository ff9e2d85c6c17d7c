"""The largest error per size of the reference: with it other tolerances can be tried without running again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Tuple, Union

if TYPE_CHECKING:
    import torch

MAX_ROWS = 64
_LOWEST = -1074  # exponent that stands for a reference of zero: nothing else lies below 2**-1074
_SIZE = 1024 - _LOWEST + 1

Row = List[Union[int, float]]


class ErrorBins:
    """Per binary exponent e of |reference| (``2**(e-1) <= |reference| < 2**e``): how many elements, and the largest error.

    Elements that are not finite on both sides are left out. A reference of zero has the exponent -1074.
    """

    def __init__(self) -> None:
        self._rows: Dict[int, Tuple[int, float]] = {}

    def add(self, magnitude: "torch.Tensor", error: "torch.Tensor", finite: "torch.Tensor") -> None:
        """Add a flat block of float64 values."""
        import torch

        magnitude, error = magnitude[finite], error[finite]
        if not magnitude.numel():
            return
        exponent = torch.frexp(magnitude).exponent.to(torch.int64)
        place = torch.where(magnitude > 0, exponent - _LOWEST, torch.zeros((), dtype=torch.int64))
        count = torch.bincount(place, minlength=_SIZE)
        largest = torch.zeros(_SIZE, dtype=torch.float64).scatter_reduce_(0, place, error, "amax")
        for row in count.nonzero().reshape(-1).tolist():
            known, worst = self._rows.get(row + _LOWEST, (0, 0.0))
            self._rows[row + _LOWEST] = (known + int(count[row]), max(worst, float(largest[row])))

    def rows(self) -> List[Row]:
        """At most 64 rows ``[exponent, count, largest error]``, by exponent.

        When there are more, the lowest are merged into the first row. So the first row means ``|reference| < 2**e`` with
        no lower end.
        """
        rows: List[Row] = [[exponent, *self._rows[exponent]] for exponent in sorted(self._rows)]
        surplus = rows[: max(0, len(rows) - MAX_ROWS + 1)] if len(rows) > MAX_ROWS else []
        if not surplus:
            return rows
        merged: Row = [surplus[-1][0], sum(row[1] for row in surplus), max(row[2] for row in surplus)]
        return [merged, *rows[len(surplus) :]]

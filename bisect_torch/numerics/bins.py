"""The largest error per size of the reference: with it other tolerances can be tried without running again."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Dict, Iterable, List, Optional, Tuple

if TYPE_CHECKING:
    import torch

MAX_ROWS = 64
_ZERO = -1075  # row of a reference of zero; the smallest positive float64 is 2**-1074
_BIAS = 1023  # of the exponent's eleven bits in a float64

Row = Tuple[Optional[int], int, float]


class ErrorBins:
    """Per binary exponent e of |reference|, ``2**e <= |reference| < 2**(e+1)``: how many elements, the largest error.

    Elements that are not finite on both sides are left out. The exponent of a reference of zero is None.
    """

    def __init__(self) -> None:
        self._rows: Dict[int, Tuple[int, float]] = {}

    def add(self, magnitude: "torch.Tensor", error: "torch.Tensor", finite: "Optional[torch.Tensor]") -> None:
        """Add a flat block of float64 values; ``finite`` None means that all count."""
        import torch

        if finite is not None:
            magnitude, error = magnitude[finite], error[finite]
        if not magnitude.numel():
            return
        place = magnitude.view(torch.int64) >> 52
        below = place == 0
        if bool((below & (magnitude > 0)).any()):  # subnormal numbers have no exponent of their own
            self._add_subnormal(magnitude[below], error[below])
            magnitude, error, place = magnitude[~below], error[~below], place[~below]
        count = torch.bincount(place)
        largest = torch.zeros(count.numel(), dtype=torch.float64, device="cpu")
        largest.scatter_reduce_(0, place, error, "amax")
        for row in count.nonzero().reshape(-1).tolist():
            self._add(row - _BIAS if row else _ZERO, int(count[row]), float(largest[row]))

    def _add_subnormal(self, magnitude: "torch.Tensor", error: "torch.Tensor") -> None:
        for size, largest in zip(magnitude.tolist(), error.tolist()):  # noqa: B905 - Python 3.8
            self._add(math.frexp(size)[1] - 1 if size else _ZERO, 1, largest)

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Add what :meth:`rows` gave for other values."""
        for exponent, count, error in rows:
            self._add(_ZERO if exponent is None else exponent, count, error)

    def _add(self, exponent: int, count: int, error: float) -> None:
        known, largest = self._rows.get(exponent, (0, 0.0))
        self._rows[exponent] = (known + count, max(largest, error))

    def rows(self) -> List[Row]:
        """At most 64 rows ``(exponent, count, largest error)``, by exponent, the zeros first.

        When there are more, the lowest exponents are merged: with 64 rows, the lowest exponent has no lower end.
        """
        exponents = sorted(exponent for exponent in self._rows if exponent != _ZERO)
        zeros: List[Row] = [(None, *self._rows[_ZERO])] if _ZERO in self._rows else []
        surplus = len(exponents) + len(zeros) - MAX_ROWS
        lowest = exponents[: surplus + 1] if surplus > 0 else []
        merged: List[Row] = []
        if lowest:
            known = [self._rows[exponent] for exponent in lowest]
            merged = [(lowest[-1], sum(count for count, _ in known), max(error for _, error in known))]
        return zeros + merged + [(exponent, *self._rows[exponent]) for exponent in exponents[len(lowest) :]]


def merge(texts: Iterable[Optional[str]]) -> Optional[str]:
    """The bins of several comparisons (JSON) as one, as if all their elements had been compared together."""
    bins = ErrorBins()
    present = [text for text in texts if text is not None]
    for text in present:
        bins.add_rows(json.loads(text))
    return json.dumps(bins.rows()) if present else None

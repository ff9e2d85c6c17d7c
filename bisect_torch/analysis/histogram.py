"""The stored histogram of errors, judged under new tolerances."""

from __future__ import annotations

import json
import math

MOST_BINS = 64


def under_tolerances(error_bins: str, rtol: float, atol: float) -> bool | None:
    """Whether every element is right: True, False, or None when the histogram leaves it open.

    Args:
        error_bins: JSON list of ``[e, count, largest |error|]`` for ``2**e <= |reference| < 2**(e+1)``; ``e`` is None
            where the reference is zero. When all 64 bins are in use, the lowest one may hold smaller values too.

    The element with a bin's largest error is wrong for certain when the error is above the bound at the bin's upper
    end; all of the bin is right for certain when it is within the bound at its lower end.
    """
    bins = [(e, float(error)) for e, count, error in json.loads(error_bins) if count]
    exponents = [e for e, _ in bins if e is not None]
    merged = min(exponents) if len(bins) >= MOST_BINS else None
    verdict: bool | None = True
    for e, error in bins:
        lower = 0.0 if e is None or e == merged else math.ldexp(1.0, int(e))
        upper = 0.0 if e is None else _power_of_two(int(e) + 1)
        if math.isnan(error) or error > atol + rtol * upper:
            return False
        if error > atol + rtol * lower:
            verdict = None
    return verdict


def _power_of_two(e: int) -> float:
    try:
        return math.ldexp(1.0, e)
    except OverflowError:
        return math.inf

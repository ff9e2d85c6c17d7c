"""How far a result may lie from its float64 reference before it is wrong, and which data types stand for which.

The default criterion is normwise: ``max |actual - reference| / max |reference| <= c(dtype) * sqrt(K)`` with K the
length of the longest reduction behind one element. Source: Higham and Mary, "A new approach to probabilistic rounding
error analysis", SIAM J. Sci. Comput. 41 (2019), theorem 2.4: the error of a reduction of length K is at most
``exp(lambda * sqrt(K) * u) - 1``, about ``lambda * sqrt(K) * u``, with probability at least
``1 - 2 exp(-lambda**2 (1 - u)**2 / 2)`` per rounding sequence. With lambda = 8 it fails once in 4e13 elements.

Formats narrower than float32 are accumulated in float32 by torch and rounded at the end of each operator, by at most u
each time. So their bound is ``r * u(dtype) + 8 * sqrt(K) * u(float32)``, with r = 4 roundings for the 16-bit formats,
in which whole models compute, and r = 2 for the 8-bit formats, in which results are only stored (a format of powers of
two has no such bound: it is compared exactly). A complex product costs up to ``sqrt(5) * u`` (Brent, Percival and
Zimmermann, Math. Comp. 76, 2007), so complex bounds are that much larger. To each comes the rounding of results that
underflow: 8 times the smallest subnormal number of the type, over ``max |reference|``.
"""

from __future__ import annotations

import math
import sys
from typing import Dict, Optional, Tuple

LAMBDA = 8.0
_ROUNDINGS_16 = 4
_ROUNDINGS_8 = 2
DEFAULT_K = 1024
"""Length of the reduction where a check does not state it."""

# Name to bits of the exponent, and of the significand with its hidden bit.
_FLOATS: Dict[str, Tuple[int, int]] = {
    "float64": (11, 53),
    "float32": (8, 24),
    "bfloat16": (8, 8),
    "float16": (5, 11),
    "float8_e5m2": (5, 3),
    "float8_e5m2fnuz": (5, 3),
    "float8_e4m3fn": (4, 4),
    "float8_e4m3fnuz": (4, 4),
    "float8_e8m0fnu": (8, 1),
}
_SIXTEEN_BITS = (_FLOATS["bfloat16"], _FLOATS["float16"])
_COMPLEX = {"complex128": "float64", "complex64": "float32", "complex32": "float16", "bcomplex32": "bfloat16"}
_INTEGERS = {f"int{bits}": (True, bits) for bits in (8, 16, 32, 64)}
_INTEGERS.update({f"uint{bits}": (False, bits) for bits in (8, 16, 32, 64)})


def kind(name: str) -> Optional[str]:
    """``float``, ``complex``, ``integer`` or ``bool`` for a data type's name; None for what has no numbers in it."""
    if name in _FLOATS:
        return "float"
    if name in _COMPLEX:
        return "complex"
    if name in _INTEGERS:
        return "integer"
    return "bool" if name == "bool" else None


def real_name(name: str) -> str:
    """The type of the parts of a complex number; any other type's own name."""
    return _COMPLEX.get(name, name)


def holds(wide: str, narrow: str) -> bool:
    """Whether every value of the type ``narrow`` is one of the type ``wide``: a reference in it loses nothing."""
    if wide == narrow:
        return True
    if kind(wide) != kind(narrow) or kind(wide) is None:
        return False
    if kind(wide) == "integer":
        (wide_signed, wide_bits), (signed, bits) = _INTEGERS[wide], _INTEGERS[narrow]
        return wide_bits - wide_signed >= bits - signed and (wide_signed or not signed)
    outer, inner = _FLOATS[real_name(wide)], _FLOATS[real_name(narrow)]
    return outer[0] >= inner[0] and outer[1] >= inner[1]


def unit_roundoff(name: str) -> float:
    """Half the distance from 1 to the next number of a floating-point or complex type."""
    return float(2.0 ** -_FLOATS[real_name(name)][1])


def normwise_bound(name: str, k: int, reference_max: float, smallest: float) -> float:
    """Bound on the relative error (see the module's text).

    Args:
        name: Data type of the result.
        k: Length of the reduction.
        reference_max: Largest ``|reference|``.
        smallest: Smallest positive number of the type.
    """
    own, accumulator = unit_roundoff(name), unit_roundoff("float32")
    bound = LAMBDA * math.sqrt(k) * min(own, accumulator)
    if own > accumulator:
        bound += own * (_ROUNDINGS_16 if _FLOATS[real_name(name)] in _SIXTEEN_BITS else _ROUNDINGS_8)
    if kind(name) == "complex":
        bound *= math.sqrt(5.0)
    underflow = smallest / reference_max if reference_max else 0.0
    return min(bound + LAMBDA * underflow, sys.float_info.max)

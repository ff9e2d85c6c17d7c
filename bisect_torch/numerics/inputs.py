"""Inputs with the same bytes on every release and device.

The random streams of torch differ between releases and devices. Here element i of a tensor is a hash of i and a seed:
the finaliser of MurmurHash3 (Austin Appleby, public domain: fmix32, in which every input bit changes every output bit
with probability near 1/2), applied twice with two 32-bit keys that splitmix64 (Steele, Lea and Flood, OOPSLA 2014)
makes from the seed. It runs in int64 operators on the target device, and no product leaves 64 bits. What follows are
conversions of integers below 2**24 or 2**53, which are exact, and single multiplications and additions, which IEEE 754
rounds in one way only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence, Tuple, Union

from bisect_torch.numerics.digest import record_input

if TYPE_CHECKING:
    import torch

Shape = Union[int, Sequence[int]]

_WORD = 0xFFFFFFFF
_CPU_BLOCK = 1 << 15  # elements: what a block needs stays in the cache
_BLOCK = 1 << 22


def uniform(
    shape: Shape,
    *,
    seed: int,
    dtype: "Optional[torch.dtype]" = None,
    device: "Union[str, torch.device]" = "cpu",
    low: float = -1.0,
    high: float = 1.0,
) -> "torch.Tensor":
    """Numbers spread evenly over ``[low, high)``, rounded to a floating-point or complex type (default float32).

    The grid has ``2**24`` steps, for float64 and complex128 ``2**53``. Rounding to a narrower type may give ``high``.
    For complex types real and imaginary part are drawn. The digest of the result is recorded as an input of the case.
    """
    import torch

    def draw(start: int, count: int, wide: "torch.dtype") -> "torch.Tensor":
        if wide == torch.float64:
            top, rest = _words(start, count, seed, 0, device) >> 5, _words(start, count, seed, 1, device) >> 6
            unit = ((top << 26) + rest).to(wide) * 2.0**-53
        else:
            unit = (_words(start, count, seed, 0, device) >> 8).to(wide) * 2.0**-24
        return unit * (high - low) + low

    return _filled(shape, dtype or torch.float32, device, draw)


def normal(
    shape: Shape,
    *,
    seed: int,
    dtype: "Optional[torch.dtype]" = None,
    device: "Union[str, torch.device]" = "cpu",
) -> "torch.Tensor":
    """Bell-shaped numbers of mean 0 and variance 1, rounded to a floating-point or complex type (default float32).

    Not exactly normal: logarithms and cosines differ between libraries. Each is the sum of four 16-bit integers,
    centred and scaled (Irwin-Hall), so none lies beyond 3.47.
    """
    import torch

    def draw(start: int, count: int, wide: "torch.dtype") -> "torch.Tensor":
        total = torch.zeros(count, dtype=torch.int64, device=device)
        for stream in (0, 1):
            words = _words(start, count, seed, stream, device)
            total += (words & 0xFFFF) + (words >> 16)
        # Twice the sum is centred by an integer; 4 pieces of variance (2**32 - 1) / 12 each.
        return (2 * total - 4 * 0xFFFF).to(wide) * (0.5 / ((2.0**32 - 1.0) / 3.0) ** 0.5)

    return _filled(shape, dtype or torch.float32, device, draw)


def integers(
    shape: Shape,
    *,
    seed: int,
    low: int = 0,
    high: int = 2,
    dtype: "Optional[torch.dtype]" = None,
    device: "Union[str, torch.device]" = "cpu",
) -> "torch.Tensor":
    """Integers from ``low`` to ``high - 1`` (default type int64; bool gives ``value != 0``).

    Raises:
        ValueError: The range is empty or longer than ``2**32``.
    """
    import torch

    if not 0 < high - low <= 2**32:
        raise ValueError(f"the range from {low} to {high} holds no number, or more than 2**32")

    def draw(start: int, count: int, _: "torch.dtype") -> "torch.Tensor":
        return _words(start, count, seed, 0, device) % (high - low) + low

    return _filled(shape, dtype or torch.int64, device, draw)


def _filled(
    shape: Shape,
    dtype: "torch.dtype",
    device: "Union[str, torch.device]",
    draw: "Callable[[int, int, torch.dtype], torch.Tensor]",
) -> "torch.Tensor":
    import torch

    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    result = torch.empty(sizes, dtype=dtype, device=device)
    parts: Any = torch.view_as_real(result) if dtype.is_complex else result
    flat = parts.reshape(-1)
    wide = torch.float64 if parts.dtype == torch.float64 else torch.float32
    for start, count in _spans(flat.numel(), _CPU_BLOCK if flat.device.type == "cpu" else _BLOCK):
        flat[start : start + count] = draw(start, count, wide).to(parts.dtype)
    record_input(result)
    return result


def _spans(total: int, block: int) -> Iterator[Tuple[int, int]]:
    for start in range(0, total, block):
        yield start, min(block, total - start)


def _words(start: int, count: int, seed: int, stream: int, device: "Union[str, torch.device]") -> "torch.Tensor":
    """The 32-bit hashes of the counters from ``start`` on, as int64."""
    import torch

    key = _splitmix64(_splitmix64(seed) + stream)
    counter = torch.arange(start, start + count, dtype=torch.int64, device=device)
    first = _fmix32((counter & _WORD).bitwise_xor_(key & _WORD))
    return _fmix32(first.bitwise_xor_(counter >> 32).bitwise_xor_(key >> 32))


def _fmix32(word: "torch.Tensor") -> "torch.Tensor":
    """In place."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        # The factor as a negative number below 2**31 keeps the product within int64; modulo 2**32 it is the same.
        word.bitwise_xor_(word >> shift).mul_(factor - (1 << 32)).bitwise_and_(_WORD)
    return word.bitwise_xor_(word >> 16)


def _splitmix64(state: int) -> int:
    mask = 0xFFFFFFFFFFFFFFFF
    state = (state + 0x9E3779B97F4A7C15) & mask
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
    return state ^ (state >> 31)

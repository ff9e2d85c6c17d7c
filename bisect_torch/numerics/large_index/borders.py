"""Which part of a huge result is compared: the ends, the middle, both sides of each border, and a seeded sample."""

from __future__ import annotations

import hashlib
from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple

SAMPLE = 8
"""Units of the seeded sample in the default choice."""


def borders(bits: int = 32) -> Tuple[int, int]:
    """The two element counts at which index arithmetic of a width fails: ``2**(bits - 1)`` and ``2**bits``.

    ``bits=32`` is the real case (signed and unsigned 32-bit indices); a smaller width gives the same geometry scaled
    down.

    Raises:
        ValueError: ``bits`` below 2.
    """
    if bits < 2:
        raise ValueError(f"the width of an index is at least 2 bits, but {bits} was given")
    return 1 << (bits - 1), 1 << bits


class Choice(NamedTuple):
    """The units (positions in dimension 0: batches, or rows) that are compared.

    Args:
        ranges: First and last unit (both included) of each run, in ascending order, with gaps between them.
        total: Units of the whole.
    """

    ranges: Tuple[Tuple[int, int], ...]
    total: int

    @property
    def chosen(self) -> int:
        """Units that are compared."""
        return sum(last - first + 1 for first, last in self.ranges)

    @property
    def coverage(self) -> float:
        """Share of the units that is compared; 1.0 for an empty whole."""
        return self.chosen / self.total if self.total else 1.0

    def units(self) -> List[int]:
        """Every chosen unit, ascending."""
        return [unit for first, last in self.ranges for unit in range(first, last + 1)]


def choose(
    total: int,
    widths: Iterable[int],
    *,
    bits: int = 32,
    seed: int = 0,
    sample: int = SAMPLE,
    also: Sequence[int] = (),
    everything: Optional[bool] = None,
) -> Choice:
    """Choose units: first, last, middle, both sides of each border in each tensor, and a sample.

    Args:
        total: Units (batches, or rows) of the result.
        widths: For each tensor that takes part (result, operands, upstream gradient) how far its flat index moves from
            one unit to the next, in elements: of the tensor as it is counted, and where strides make that another
            number, of its storage too. 0 (an expanded tensor) has no border.
        bits: Width of the index, see :func:`borders`.
        seed: Of the sample; the same units for the same seed and total, on every release.
        sample: Size of the sample.
        also: More units that are wanted; what lies outside is left out.
        everything: Compare all units; None asks ``bisect_torch.thorough()``.
    """
    if everything is None:
        from bisect_torch import thorough

        everything = thorough()
    if everything or total <= 0:
        return Choice(((0, total - 1),) if total > 0 else (), max(total, 0))
    wanted = {0, total // 2, total - 1, *also}
    for width in set(widths):
        for border in borders(bits) if width > 0 else ():
            at = border // width  # the unit that holds the first element beyond, or is the first beyond
            wanted.update((at - 1, at, at + 1))
    wanted.update(_drawn(seed, number, total) for number in range(sample))
    return Choice(_runs(sorted(unit for unit in wanted if 0 <= unit < total)), total)


def _drawn(seed: int, number: int, total: int) -> int:
    found = hashlib.blake2b(f"large index sample {seed} {number}".encode(), digest_size=16).digest()
    return int.from_bytes(found, "little") % total


def _runs(units: List[int]) -> Tuple[Tuple[int, int], ...]:
    runs: List[Tuple[int, int]] = []
    for unit in units:
        if runs and unit == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], unit)
        else:
            runs.append((unit, unit))
    return tuple(runs)

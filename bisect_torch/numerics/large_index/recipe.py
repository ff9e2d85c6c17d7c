"""Inputs of any size with the same bytes on every release and device: small integers, never zero, by a known recipe.

Element ``i`` of a buffer is element ``i % PERIOD`` of a sequence of hashes. The period is a prime, so it shares no
factor with a batch or with a power of two: whatever a wrapped or packed index reads is something else. Filling costs
little more than writing the memory, and the value at any index is known without looking at the device: references and
fault models are computed from the recipe, never from a tensor that a faulty device has stored or copied.

The values are integers other than zero, between -2 and 2. All sums up to :func:`amplitudes`' bound are exact in the
type, so the order of summation cannot matter; and since no product is zero, no sum is a negative zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Iterable, List, NamedTuple, Tuple, Union

from bisect_torch.numerics.blocks import BLOCK_ELEMENTS
from bisect_torch.numerics.digest import record_input
from bisect_torch.numerics.inputs import integers
from bisect_torch.numerics.large_index.borders import borders
from bisect_torch.numerics.large_index.geometry import Operand, padding

if TYPE_CHECKING:
    import torch

PERIOD = 1048573
"""The largest prime below 2**20."""

EXACT: Dict[str, int] = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}
"""Up to this magnitude every integer is a number of the type."""

_PROBE = 4096  # elements that are read back around each place


def amplitudes(inner: int, dtype: str) -> int:
    """Largest magnitude (2 or 1) of both factors with which a sum of ``inner`` products is always exact in the type.

    Raises:
        ValueError: The sum is too long even for factors of magnitude 1.
    """
    for amplitude in (2, 1):
        if inner * amplitude**2 <= EXACT[dtype]:
            return amplitude
    raise ValueError(f"sums of {inner} products are not exact in {dtype}: at most {EXACT[dtype]}")


class Source(NamedTuple):
    """An operand and the sequence behind its buffer.

    Args:
        operand: Where the elements lie.
        sequence: Flat int8 tensor on the CPU, as long as the period or, where that is shorter, as the buffer.
    """

    operand: Operand
    sequence: "torch.Tensor"

    def read(self, index: "torch.Tensor") -> "torch.Tensor":
        """The buffer's values at flat indices (int64, CPU, any shape), as float64."""
        import torch

        return self.sequence[index % PERIOD].to(torch.float64)

    def flipped(self) -> Source:
        """With rows and columns exchanged."""
        return self._replace(operand=self.operand.flipped())


def source(operand: Operand, *, seed: int, amplitude: int) -> Source:
    """The recipe of an operand; its sequence is recorded as an input of the case.

    Args:
        amplitude: 2 for values among -2, -1, 1, 2; 1 for -1 and 1.
    """
    import torch

    drawn = integers(min(PERIOD, operand.buffer), seed=seed, low=-amplitude, high=amplitude, dtype=torch.int8)
    return Source(operand, drawn + (drawn >= 0))  # 0 and more move up by one: no zero


def fill(flat: "torch.Tensor", known: Source) -> None:
    """Write a source's values into a flat tensor of the buffer's length, block by block."""
    tile = known.sequence.to(flat.dtype).to(flat.device)
    block = BLOCK_ELEMENTS if flat.device.type == "cpu" else PERIOD
    for turn in range(0, flat.numel(), PERIOD):
        for first in range(0, PERIOD, block):
            part = flat[turn + first : min(turn + min(first + block, PERIOD), flat.numel())]
            part.copy_(tile[first : first + part.numel()])


def buffer(known: Source, dtype: "torch.dtype", device: "Union[str, torch.device]") -> "torch.Tensor":
    """The source's buffer, filled."""
    import torch

    flat = torch.empty(known.operand.buffer, dtype=dtype, device=device)
    fill(flat, known)
    return flat


def view(flat: "torch.Tensor", operand: Operand, placement: str) -> "torch.Tensor":
    """The operand as a view of its buffer, made by the operators that a user's program would use."""
    batch, rows, columns = operand.shape
    if placement == "transposed":
        return flat.view(batch, columns, rows).transpose(1, 2)
    if placement == "strided":
        return flat.view(batch, rows, columns + padding(columns))[:, :, :columns]
    if placement == "expanded":
        return flat.view(1, rows, columns).expand(batch, rows, columns)
    return flat.view(batch, rows, columns)


def as_made(flat: "torch.Tensor", known: Source, bits: int = 32) -> bool:
    """Whether a buffer, read back around its ends, its middle and each border, holds what was written.

    What was read is recorded as an input of the case, so that the input's digest tells a device that stores or
    copies it wrongly.
    """
    import torch

    same = True
    for start, count in _places(flat.numel(), (0, flat.numel() // 2, flat.numel(), *borders(bits))):
        found = flat[start : start + count].to("cpu")
        record_input(found)
        expected = known.read(torch.arange(start, start + count, dtype=torch.int64, device="cpu"))
        same = same and bool((found.to(torch.float64) == expected).all())
    return same


def _places(total: int, around: Iterable[int]) -> List[Tuple[int, int]]:
    spans = ((max(0, place - _PROBE), min(total, place + _PROBE)) for place in around if place <= total)
    return [(start, end - start) for start, end in sorted(set(spans)) if end > start]

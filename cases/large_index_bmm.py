"""``bmm`` on both sides of 2**31 and 2**32 elements: of the output, and of each operand.

After arXiv 2609.22991 (pytorch issue 197636). On a right torch every cell is ok, whatever the device. Shapes read ROWSx
INNERxCOLUMNS. The grid is not the full product: the output is swept over every layout, an operand over those in which
it is that operand that counts, and what remains (thin products, few batches) over what differs there.
"""

from __future__ import annotations

from bisect_torch import case
from bisect_torch.numerics.large_index import LAYOUTS, bmm_forward, forward_memory, skip_slow

DTYPES = ["bfloat16", "float16", "float32"]
SIDES = [32768, 32769, 65536, 65537]
"""With 65536 elements a batch: exactly 2**31, one batch more, exactly 2**32, one batch more."""


@case(dtype=DTYPES, layout=list(LAYOUTS), shape=["256x64x256"], batch=SIDES, memory=forward_memory, timeout=1800)
def bmm_output(device, dtype, layout, shape, batch):
    """The scores of attention: the output is what crosses."""
    skip_slow(device, dtype, shape, batch)
    return bmm_forward(device, dtype, layout, shape, batch)


@case(
    dtype=DTYPES,
    layout=["contiguous", "a transposed"],
    shape=["256x256x64"],
    batch=SIDES,
    memory=forward_memory,
    timeout=1800,
)
def bmm_first_operand(device, dtype, layout, shape, batch):
    """The weights of attention times the values: ``a`` is what crosses, the output is a quarter of it."""
    skip_slow(device, dtype, shape, batch)
    return bmm_forward(device, dtype, layout, shape, batch)


@case(
    dtype=DTYPES,
    layout=["contiguous", "b transposed", "expanded"],
    shape=["64x256x256"],
    batch=SIDES,
    memory=forward_memory,
    timeout=1800,
)
def bmm_second_operand(device, dtype, layout, shape, batch):
    """``b`` is what crosses; expanded, it does so by its size alone, over one matrix."""
    skip_slow(device, dtype, shape, batch)
    return bmm_forward(device, dtype, layout, shape, batch)


@case(
    dtype=["float16", "float32"],
    layout=["contiguous", "strided"],
    shape=["256x4x256", "256x256x4", "4x256x256"],
    batch=[32769, 65537],
    memory=forward_memory,
    timeout=1800,
)
def bmm_thin(device, dtype, layout, shape, batch):
    """One long side only: what crosses (output, ``a``, ``b``) is nearly all the memory there is."""
    return bmm_forward(device, dtype, layout, shape, batch)


@case(
    dtype=["bfloat16", "float32"],
    layout=["contiguous", "both transposed"],
    shape=["32769x4x65536", "65537x4x65536"],
    batch=[1],
    memory=forward_memory,
    timeout=1800,
)
def bmm_one_batch(device, dtype, layout, shape, batch):
    """The border lies inside a batch."""
    return bmm_forward(device, dtype, layout, shape, batch)

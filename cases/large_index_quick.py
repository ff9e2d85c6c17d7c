"""What the default run looks at beyond 2**31 elements: a few thin products of half a second to some seconds each.

The whole is ``--suite large-index``; see ``large_index_bmm.py`` for what the words mean.
"""

from __future__ import annotations

from bisect_torch import case
from bisect_torch.numerics.large_index import backward_memory, bmm_backward, bmm_forward, forward_memory


@case(
    dtype=["bfloat16"],
    layout=["contiguous"],
    shape=["256x4x256"],
    batch=[32768, 32769],
    memory=forward_memory,
    timeout=600,
)
def bmm_output_at_the_border(device, dtype, layout, shape, batch):
    """Exactly 2**31 elements of output, and one batch more."""
    return bmm_forward(device, dtype, layout, shape, batch)


@case(
    dtype=["bfloat16"],
    layout=["a transposed"],
    shape=["256x256x4"],
    batch=[32769],
    memory=forward_memory,
    timeout=600,
)
def bmm_of_a_large_view(device, dtype, layout, shape, batch):
    """A transposed view of more than 2**31 elements."""
    return bmm_forward(device, dtype, layout, shape, batch)


@case(
    dtype=["bfloat16"],
    layout=["contiguous"],
    shape=["256x4x256"],
    batch=[32769],
    grad=["a"],
    memory=backward_memory,
    timeout=600,
)
def bmm_gradient_of_a_large_output(device, dtype, layout, shape, batch, grad):
    """An upstream gradient of more than 2**31 elements."""
    return bmm_backward(device, dtype, layout, shape, batch, grad)

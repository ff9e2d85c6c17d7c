"""The backward pass of ``bmm`` where its upstream gradient, or an operand, passes 2**31 and 2**32 elements.

After arXiv 2609.22991: there the forward pass is right at 65537 batches and both gradients are wrong in exactly the
batches from 65536 on. The forward pass's own verdict is kept as ``forward_right``.
"""

from __future__ import annotations

from bisect_torch import case
from bisect_torch.numerics.large_index import backward_memory, bmm_backward, skip_slow

DTYPES = ["bfloat16", "float16", "float32"]


@case(
    dtype=DTYPES,
    layout=["contiguous"],
    shape=["256x64x256"],
    batch=[32768, 32769, 65536, 65537, 65538],
    grad=["a", "b"],
    memory=backward_memory,
    timeout=1800,
)
def bmm_gradient(device, dtype, layout, shape, batch, grad):
    """The paper's shape and sizes."""
    skip_slow(device, dtype, shape, batch)
    return bmm_backward(device, dtype, layout, shape, batch, grad)


@case(
    dtype=["float16", "float32"],
    layout=["contiguous", "strided"],
    shape=["256x4x256"],
    batch=[32769, 65537],
    grad=["a", "b"],
    memory=backward_memory,
    timeout=1800,
)
def bmm_gradient_thin(device, dtype, layout, shape, batch, grad):
    """The upstream gradient crosses, the operands are views of little."""
    return bmm_backward(device, dtype, layout, shape, batch, grad)


@case(
    dtype=["bfloat16", "float32"],
    layout=["contiguous", "a transposed"],
    shape=["256x256x4"],
    batch=[65536, 65537],
    grad=["a", "b"],
    memory=backward_memory,
    timeout=1800,
)
def bmm_gradient_of_large_operand(device, dtype, layout, shape, batch, grad):
    """``a`` crosses: its gradient is a large output, and it is a large operand of the gradient of ``b``."""
    return bmm_backward(device, dtype, layout, shape, batch, grad)

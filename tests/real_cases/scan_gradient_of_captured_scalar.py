"""The gradient of scan() for a scalar that its body closes over must be that of the same loop in Python.

The operator is absent at first, then refuses, then gives a wrong gradient, then the right one. Its tracing needs
setuptools in some releases: without it an exception stands in the middle of the wrong ones.
https://github.com/pytorch/pytorch/issues/184528
"""

import torch
from torch._higher_order_ops.scan import scan

steps = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
start = torch.zeros((), dtype=torch.float64)
decay = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)


def body(carry, step):
    carry = decay * carry + step
    return carry, carry.clone()


_, outputs = scan(body, start, steps, dim=0)
(got,) = torch.autograd.grad(outputs.sum(), decay)

carry, total = start, start
for step in steps:
    carry = decay * carry + step
    total = total + carry
(expected,) = torch.autograd.grad(total, decay)

print("scan", got.item(), "loop", expected.item())
assert abs(got.item() - expected.item()) < 1e-9, (got.item(), expected.item())

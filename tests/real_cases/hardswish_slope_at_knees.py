"""hardswish is 0 up to -3 and the identity from 3 on, so its slopes there are 0 and 1; the backward gave -0.5 and 1.5.

https://github.com/pytorch/pytorch/issues/147801
"""

import torch

knees = torch.tensor([-3.0, 3.0], requires_grad=True)
(slopes,) = torch.autograd.grad(torch.nn.functional.hardswish(knees).sum(), knees)
print("slopes at -3 and 3:", slopes.tolist())
assert torch.equal(slopes, torch.tensor([0.0, 1.0])), slopes.tolist()

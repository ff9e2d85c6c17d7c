"""The smallest int64 divided by -1 does not fit; any answer or exception will do, but the processor's trap kills us.

https://github.com/pytorch/pytorch/issues/138425
"""

import torch

smallest = torch.full((1,), torch.iinfo(torch.int64).min, dtype=torch.int64)
minus_one = torch.full((1,), -1, dtype=torch.int64)
print("quotient:", torch.floor_divide(smallest, minus_one).item())

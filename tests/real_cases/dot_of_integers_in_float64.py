"""A control: a sum of small whole numbers is exact in float64, whatever the order. Right in every release."""

import torch

numbers = torch.arange(1, 1001, dtype=torch.float64)
total = (numbers @ torch.ones(1000, dtype=torch.float64)).item()
print("total:", total)
assert total == 1000 * 1001 / 2, total

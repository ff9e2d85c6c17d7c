"""table[rows] += table[rows] doubles a row; compiled with dynamic shapes the row came out four times as large.

https://github.com/pytorch/pytorch/issues/138908
"""

import torch


def double(rows, table):
    rows = rows + 10
    table[rows] += table[rows]
    return table


torch.manual_seed(1)
rows = torch.full((1, 2), -10)
table = torch.randn(2, 32)
eager = double(rows.clone(), table.clone())
compiled = torch.compile(double, dynamic=True)(rows.clone(), table.clone())
print("factor, eager and compiled:", (eager / table)[0, 0].item(), (compiled / table)[0, 0].item())
torch.testing.assert_close(compiled, eager)

"""A Chebyshev polynomial of NaN is NaN; for three releases it was whatever lay in an uninitialised variable.

Right, wrong, right again: a search that halves the range and finds both ends right sees nothing.
https://github.com/pytorch/pytorch/issues/187761
"""

import torch

degrees = torch.full((96,), 3.0)
values = torch.special.chebyshev_polynomial_t(torch.full((96,), float("nan")), degrees)
print("first value:", values[0].item())
assert values.isnan().all(), f"{int((~values.isnan()).sum())} values are numbers"

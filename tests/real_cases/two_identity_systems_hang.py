"""Two identity systems of 151 unknowns on two threads: never comes back on some processors, and holds the GIL meanwhile.

https://github.com/pytorch/pytorch/issues/142815
"""

import torch

torch.set_num_threads(2)
unknowns = 151
systems = torch.stack([torch.eye(unknowns), torch.eye(unknowns)])
right_sides = torch.ones(2, unknowns)
solutions = torch.linalg.solve(systems, right_sides)
print("largest error:", (solutions - right_sides).abs().max().item())
assert torch.allclose(solutions, right_sides)

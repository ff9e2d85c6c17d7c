"""uint8 arithmetic wraps around; in the compiled kernel std::abs turns it into int and the sum becomes negative.

https://github.com/pytorch/pytorch/issues/187018
"""

import torch


def twice_negated(numbers):
    negated = numbers.abs().neg()
    return torch.cat((negated, negated)).sum()


numbers = torch.full((2,), 200, dtype=torch.uint8)
eager = int(twice_negated(numbers))
compiled = int(torch.compile(twice_negated)(numbers))
print("eager", eager, "compiled", compiled)
assert compiled == eager, (compiled, eager)

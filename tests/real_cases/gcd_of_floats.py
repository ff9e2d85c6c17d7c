"""Floats have no greatest common divisor: RuntimeError at first, its subclass NotImplementedError later. No bug."""

import torch

six, four = torch.tensor([6.0]), torch.tensor([4.0])
print(torch.gcd(six, four))

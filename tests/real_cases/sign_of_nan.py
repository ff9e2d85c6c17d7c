"""The sign of NaN is NaN in numpy and 0 in torch, in every release.

https://github.com/pytorch/pytorch/issues/53963
"""

import numpy
import torch

numbers = torch.full((24,), float("nan"))
got = torch.sign(numbers).numpy()
expected = numpy.sign(numbers.numpy())
print("torch", got[0], "numpy", expected[0])
numpy.testing.assert_array_equal(got, expected)

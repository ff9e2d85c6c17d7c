"""Channels cannot be shuffled in zero groups: an exception is right, a division by zero in C++ is not.

https://github.com/pytorch/pytorch/issues/142453
"""

import torch

images = torch.ones(2, 6, 3, 3)
shuffled = torch.native_channel_shuffle(images, 0)
raise AssertionError(f"zero groups were accepted: {list(shuffled.shape)}")

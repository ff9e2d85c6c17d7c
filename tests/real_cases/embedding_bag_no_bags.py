"""No offsets means no bags: an empty result, as float32 gives. In float64 the process is killed, in every release.

https://github.com/pytorch/pytorch/issues/175370
"""

import torch

table = torch.ones(2, 12, dtype=torch.float64)
rows = torch.zeros(8, dtype=torch.int64)
no_offsets = torch.empty(0, dtype=torch.int64)
bags = torch.nn.functional.embedding_bag(rows, table, no_offsets, mode="sum")
print("shape:", list(bags.shape))
assert list(bags.shape) == [0, 12], list(bags.shape)

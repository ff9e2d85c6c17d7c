"""A storage offset of 2**63 - 1 lies outside of every storage: it must be refused, not read from.

https://github.com/pytorch/pytorch/issues/146793
"""

import torch

one_byte = torch.ones(1, dtype=torch.bool)
far_away = torch.ops.aten.as_strided(one_byte, [8192], [0], torch.iinfo(torch.int64).max)
total = far_away.sum().item()
raise AssertionError(f"read {total} from memory that is not ours")

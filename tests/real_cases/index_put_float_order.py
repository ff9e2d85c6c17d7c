"""On several threads index_put_(accumulate=True) adds in an order that varies, so the last bits of float sums do too.

Flaky in every release: one run of each tells a convincing and false story.
https://github.com/pytorch/pytorch/issues/51366
"""

import torch

torch.manual_seed(0)
torch.set_num_threads(2)
where = torch.randint(0, 50, (400_000,))
what = torch.randn(400_000)


def histogram():
    return torch.zeros(50).index_put_((where,), what, accumulate=True)


first = histogram()
different = sum(not torch.equal(histogram(), first) for _ in range(5))
print("runs that differ from the first:", different, "of 5")
assert different == 0, f"{different} of 5 runs differ from the first"

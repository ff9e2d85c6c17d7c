"""The mean CTC loss of no samples has no value, so it must be refused; older releases return NaN in silence.

https://github.com/pytorch/pytorch/issues/150835
"""

import torch

no_samples = torch.zeros(3, 0, 7)
nothing = torch.zeros(0, dtype=torch.int64)
loss = torch.nn.functional.ctc_loss(no_samples.log_softmax(dim=-1), nothing, nothing, nothing)
raise AssertionError(f"a loss of {loss.item()} for no samples at all")

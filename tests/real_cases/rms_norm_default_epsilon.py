"""With no eps given, rms_norm was documented to take that of the input's type; later releases take float32's.

On tiny bfloat16 numbers this is a factor of about 250 in the result.
https://github.com/pytorch/pytorch/issues/155527
"""

import torch
from torch.nn.functional import rms_norm

tiny = torch.full((3, 16), 1e-4, dtype=torch.bfloat16)
got = rms_norm(tiny, [16]).double()
exact = tiny.double()
documented = exact / (exact.square().mean(-1, keepdim=True) + torch.finfo(torch.bfloat16).eps).sqrt()
print("got", got[0, 0].item(), "documented", documented[0, 0].item())
torch.testing.assert_close(got, documented, rtol=0.02, atol=0.0)

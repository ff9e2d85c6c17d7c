"""A query of NaN must come out of attention as NaN; instead the fused CPU kernel answers with zeros.

https://github.com/pytorch/pytorch/issues/141128
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(3)
shape = (1, 3, 4, 8)
query = torch.full(shape, float("nan"))
key = torch.randn(shape)
value = torch.randn(shape)

weights = (query @ key.transpose(-2, -1) * shape[-1] ** -0.5).softmax(dim=-1)
by_hand = weights @ value
assert by_hand.isnan().all(), "the comparison itself lost its NaN"

fused = scaled_dot_product_attention(query, key, value)
print("NaN in the fused answer:", int(fused.isnan().sum()), "of", fused.numel())
assert fused.isnan().all(), "NaN in, numbers out"

"""Models, inputs and comparisons for the rules of ``LayerCast``."""

import copy
import gc

import torch
from torch import nn
from torch.nn import functional

from bisect_torch.numerics import integers, normal

torch.set_num_threads(1)
SIXTEEN = (torch.bfloat16, torch.float16)


def filled(model, seed=1):
    """The model with parameters and floating buffers that do not depend on the release; evaluation mode."""
    with torch.no_grad():
        for number, (name, tensor) in enumerate(list(model.named_parameters()) + list(model.named_buffers())):
            if tensor.is_floating_point():
                values = normal(tensor.shape, seed=1000 * seed + number) * 0.1
                tensor.copy_(values.abs() + 0.5 if "var" in name else values)
    return model.eval()


def reference(model, dtype):
    """A float32 model with the same rounded weights."""
    plain = copy.deepcopy(model).float().eval().requires_grad_(False)
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.copy_(parameter.to(dtype).float())
    return plain


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in flat(item)]
    return []


def same(actual, expected):
    actual, expected = flat(actual), flat(expected)
    assert len(actual) == len(expected) > 0
    for one, other in zip(actual, expected):  # noqa: B905 - Python 3.8
        assert one.dtype == other.dtype, (one.dtype, other.dtype)
        assert torch.equal(one, other), (one - other).abs().max()


def kept_bytes(model):
    tensors = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def live_tensors():
    """Type and shape of every tensor that Python still reaches, of those made after ``gc.freeze()``."""
    gc.collect()
    found = [item for item in gc.get_objects() if type(item) in (torch.Tensor, nn.Parameter)]
    return sorted((str(tensor.dtype), tuple(tensor.shape)) for tensor in found)


def raises(error, words, call):
    try:
        call()
    except error as raised:
        found = str(raised)
    else:
        found = "nothing was raised"
    assert words in found, (words, found)


class HandWrittenRMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class RawParameters(nn.Module):
    """Parameters of its own, positions, a list and a dictionary of parameters, types asked for inside."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(24, 16))
        self.positions = nn.Parameter(torch.ones(1, 6, 24))
        self.several = nn.ParameterList([nn.Parameter(torch.ones(16)) for _ in range(3)])
        self.named = nn.ParameterDict({"gain": nn.Parameter(torch.ones(16))})
        self.child = nn.Linear(16, 8)

    def forward(self, x):
        x = x.to(next(self.parameters()).dtype).type_as(self.weight) + self.positions
        x = x @ self.weight
        for bias in self.several:
            x = x + bias
        return functional.linear(x * self.named["gain"], self.child.weight, self.child.bias)


class TiedTwice(nn.Module):
    """An embedding tied with the output layer, and one block called three times."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(40, 24, padding_idx=0)
        self.block = nn.Sequential(nn.Linear(24, 24), nn.GELU(), nn.LayerNorm(24))
        self.head = nn.Linear(24, 40, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        for _ in range(3):
            x = x + self.block(x)
        return self.head(x), functional.linear(x, self.tokens.weight)


class SelfAttention(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(24, 4, batch_first=True, **options)

    def forward(self, x):
        return self.attention(x, x, x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.between = HandWrittenRMSNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, cache):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, 4, -1).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.feed(self.between(x)), (k, v)


class Decoder(nn.Module):
    """A decoder-only language model with tied embeddings, raw positions and a cache."""

    def __init__(self, width=32, layers=2, vocabulary=50, length=64):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList([Block(width) for _ in range(layers)])
        self.norm = HandWrittenRMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, caches=None):
        start = 0 if caches is None else caches[0][0].shape[2]
        x = self.tokens(ids) + self.positions[start : start + ids.shape[1]]
        grown = []
        for number, block in enumerate(self.blocks):
            x, cache = block(x, None if caches is None else caches[number])
            grown.append(cache)
        return self.head(self.norm(x)), grown

    def generate(self, ids, steps):
        logits, caches = self(ids)
        for _ in range(steps):
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
            logits, caches = self(ids[:, -1:], caches)
        return ids, logits


def floats(*shape):
    return lambda batch: normal((batch, *shape), seed=7)


def ids(batch):
    return integers((batch, 6), seed=8, low=0, high=40)


TABLE = {
    "linear": (lambda: nn.Linear(24, 40), floats(24)),
    "linear without bias, 3-D": (lambda: nn.Linear(24, 40, bias=False), floats(6, 24)),
    "bilinear in a module": (lambda: nn.Sequential(nn.Linear(24, 8), nn.PReLU(), nn.Linear(8, 3)), floats(24)),
    "embedding": (lambda: nn.Embedding(40, 24), ids),
    "embedding with padding_idx": (lambda: nn.Embedding(40, 24, padding_idx=3), ids),
    "embedding bag": (lambda: nn.EmbeddingBag(40, 24, mode="sum"), ids),
    "embedding bag, mean": (lambda: nn.EmbeddingBag(40, 24, mode="mean", padding_idx=1), ids),
    "tied": (TiedTwice, ids),
    "layer norm": (lambda: nn.LayerNorm(24), floats(6, 24)),
    "RMS norm": (lambda: nn.RMSNorm(24), floats(6, 24)),
    "hand-written RMS norm": (lambda: HandWrittenRMSNorm(24), floats(6, 24)),
    "group norm": (lambda: nn.GroupNorm(4, 8), floats(8, 9)),
    "batch norm": (lambda: nn.BatchNorm2d(3), floats(3, 9, 9)),
    "raw parameters": (RawParameters, floats(6, 24)),
    "conv1d": (lambda: nn.Conv1d(4, 8, 3), floats(4, 20)),
    "conv2d": (lambda: nn.Conv2d(3, 8, 3, padding=1), floats(3, 9, 9)),
    "conv2d, channels last": (
        lambda: nn.Conv2d(3, 8, 3, padding=1).to(memory_format=torch.channels_last),
        lambda batch: floats(3, 9, 9)(batch).to(memory_format=torch.channels_last),
    ),
    "conv2d, groups, circular": (
        lambda: nn.Conv2d(4, 8, 3, groups=2, padding=1, padding_mode="circular"),
        floats(4, 9, 9),
    ),
    "conv3d": (lambda: nn.Conv3d(2, 4, 3), floats(2, 5, 5, 5)),
    "conv transpose 1d": (lambda: nn.ConvTranspose1d(4, 8, 3, stride=2), floats(4, 20)),
    "conv transpose 2d": (lambda: nn.ConvTranspose2d(3, 8, 3, stride=2), floats(3, 9, 9)),
    "conv transpose 3d": (lambda: nn.ConvTranspose3d(2, 4, 3), floats(2, 5, 5, 5)),
    "convolutional net": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, 5)),
        floats(3, 9, 9),
    ),
    "attention": (SelfAttention, floats(6, 24)),
    "attention, other widths of key and value": (
        lambda: SelfAttention(kdim=24, vdim=24, add_bias_kv=True),
        floats(6, 24),
    ),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(24, 4, 48, batch_first=True), floats(6, 24)),
    "encoder layer, norm first": (
        lambda: nn.TransformerEncoderLayer(24, 4, 48, batch_first=True, norm_first=True, activation="gelu"),
        floats(6, 24),
    ),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 48, batch_first=True), 2, nn.LayerNorm(24)),
        floats(6, 24),
    ),
    "weight norm by parametrization": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(24, 8)), floats(24)),
    "gru": (lambda: nn.GRU(24, 16, num_layers=2, batch_first=True, bidirectional=True), floats(6, 24)),
    "lstm": (lambda: nn.LSTM(24, 16, num_layers=2, batch_first=True), floats(6, 24)),
    "lstm with projection": (lambda: nn.LSTM(24, 16, proj_size=8, batch_first=True), floats(6, 24)),
    "rnn": (lambda: nn.RNN(24, 16, batch_first=True), floats(6, 24)),
    "decoder": (Decoder, ids),
    "gru cell": (lambda: nn.GRUCell(24, 16), floats(24)),
}

"""Operations under ``Guard(device="cpu", limit=1000)``: which are stopped before their kernel runs, after, or not."""

import warnings

import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils._python_dispatch import TorchDispatchMode

from bisect_torch.numerics import Guard, GuardError

LIMIT = 1000
ROWS = []


def words(text):
    return text.split()


def row(expected, name, run, *, target=None):
    """One operation; ``target`` is a tensor that must be as it was when the operation is stopped before it runs."""
    ROWS.append((expected, name, run, target))


def numbers(*shape, dtype=torch.float32):
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count) % 7 + 1).reshape(shape).to(dtype)


big = numbers(40, 40)  # 1600 elements
flat = numbers(1600)
small = numbers(20, 20)  # 400
tiny = numbers(4, 4)
column, line = numbers(40, 1), numbers(1, 40)
tall, wide = numbers(40, 2), numbers(2, 40)
spread = numbers(1600)[::100]  # 16 elements that span 1501
expanded = numbers(40, 1).expand(40, 40)  # 1600 elements on 40
batch = numbers(4, 8, 8)
yes = big > 3
whole = numbers(40, 40, dtype=torch.int64)
indices = torch.arange(20) % 4
image = numbers(1, 2, 10, 10)
values = numbers(30)

numbers_weight = numbers(10, 2, 3, 3)
transposed_weight = numbers(2, 5, 3, 3)
numbers_columns = numbers(1, 8, 9)
repeated = torch.arange(60) % 20
gather_index = (torch.arange(1200) % 20).reshape(60, 20)
bilinear_weight = numbers(30, 2, 2)
dense_rows = numbers(25, 25)
counts = torch.full((30,), 40)
torch_large = torch.tensor([1, 1500])
empty = torch.empty(0)
sparse = torch.sparse_coo_tensor(torch.tensor([[0, 900], [1, 900]]), torch.tensor([1.0, 2.0]), (1000, 1000))

# Reading a tensor that is too large.
for name in words(
    "abs neg exp sin cos sqrt rsqrt log log1p sigmoid relu tanh floor ceil round sign erf reciprocal isnan isfinite "
    "square frac trunc clone sum mean max min argmax argmin any all prod var std amax aminmax logsumexp norm "
    "count_nonzero nonzero unique sort argsort msort median tril triu flipud fliplr trace inverse det cumsum cumprod "
    "softmax log_softmax topk kthvalue flip roll histc logcumsumexp cummax mode bernoulli rand_like zeros_like "
    "ones_like full_like isin searchsorted bucketize"
):
    extra = {
        "logsumexp": (0,), "cumsum": (0,), "cumprod": (0,), "softmax": (0,), "log_softmax": (0,), "topk": (2,),
        "kthvalue": (2,), "flip": ((0,),), "roll": (1,), "logcumsumexp": (0,), "cummax": (0,), "full_like": (2.0,),
        "isin": (tiny,), "searchsorted": (tiny,), "bucketize": (values,),
    }.get(name, ())  # fmt: skip
    row("before", name + " of a large tensor", lambda name=name, extra=extra: getattr(torch, name)(big, *extra))
row("before", "to float64", lambda: big.to(torch.float64))
for name in words("add sub mul div pow maximum minimum fmod remainder atan2 eq ne lt le gt ge logaddexp hypot dist mm"):
    row("before", name + " of two", lambda name=name: getattr(torch, name)(big, big))
row("before", "one element of it too many", lambda: flat[:1000] + 1)
row("passes", "one element fewer", lambda: flat[:999] + 1)
row("before", "item of a reduction", lambda: big.sum().item())
row("before", "equal", lambda: torch.equal(big, big))
row("before", "allclose", lambda: torch.allclose(big, big))
row("before", "where", lambda: torch.where(yes, big, 0.0))
row("before", "masked_select", lambda: big.masked_select(yes))
row("before", "layer_norm", lambda: F.layer_norm(big, (40,)))
row("before", "dropout", lambda: F.dropout(big, 0.5))
row("before", "cross_entropy", lambda: F.cross_entropy(big, torch.arange(40)))
row("before", "index", lambda: big[indices])
row("before", "embedding", lambda: F.embedding(indices, big))
row("before", "bincount", lambda: torch.bincount(whole.flatten()))
row("before", "strides that reach far", lambda: spread + 1)
row("before", "sum over strides that reach far", lambda: spread.sum())
row("before", "expanded view", lambda: expanded.sum())
row("before", "transposed view", lambda: big.t().sum())

# Writing one: the size follows from the arguments.
row("before", "mm", lambda: torch.mm(tall, wide))
row("before", "bmm", lambda: torch.bmm(tall.expand(3, 40, 2), wide.expand(3, 2, 40)))
row("before", "addmm", lambda: torch.addmm(tiny[0, 0], tall, wide))
row("before", "baddbmm", lambda: torch.baddbmm(tiny[:1, :1], tall[None], wide[None]))
row("before", "addr", lambda: torch.addr(tiny[:1, :1], values.repeat(1), torch.cat([values, values])))
row("before", "matmul", lambda: tall @ wide)
row("before", "einsum", lambda: torch.einsum("ij,jk->ik", tall, wide))
row("before", "tensordot", lambda: torch.tensordot(tall, wide, dims=1))
row("before", "outer", lambda: torch.outer(flat[:40], flat[:40]))
row("before", "kron", lambda: torch.kron(small, tiny))
row("before", "cdist", lambda: torch.cdist(tall, tall))
row("before", "broadcast add", lambda: column + line)
row("before", "broadcast where", lambda: torch.where(column > 2, column, line))
row("before", "broadcast lerp", lambda: torch.lerp(column, line, 0.5))
row("before", "cat", lambda: torch.cat([small, small, small]))
row("before", "stack", lambda: torch.stack([small, small, small]))
row("before", "hstack", lambda: torch.hstack([small, small, small]))
row("before", "block_diag", lambda: torch.block_diag(small, small))
row("before", "cartesian_prod", lambda: torch.cartesian_prod(values, values))
row("before", "repeat", lambda: small.repeat(2, 2))
row("before", "tile", lambda: small.tile(3))
row("before", "repeat_interleave by a number", lambda: small.repeat_interleave(3))
row("before", "contiguous of an expanded view", lambda: column.expand(40, 40).contiguous())
row("before", "reshape of an expanded view", lambda: column.expand(40, 40).reshape(-1))
row("before", "meshgrid, then added", lambda: sum(torch.meshgrid(values.repeat(1), flat[:40], indexing="ij")))
row("before", "zeros", lambda: torch.zeros(1000))
row("before", "ones", lambda: torch.ones(10, 100))
row("before", "full", lambda: torch.full((1000,), 2.0))
row("before", "new_zeros", lambda: tiny.new_zeros(1000))
row("before", "new_full", lambda: tiny.new_full((1000,), 1.0))
row("before", "arange", lambda: torch.arange(1000))
row("before", "arange in small steps", lambda: torch.arange(0, 1, 0.0005))
row("before", "linspace", lambda: torch.linspace(0, 1, 1000))
row("before", "logspace", lambda: torch.logspace(0, 1, 1000))
row("before", "eye", lambda: torch.eye(40))
row("before", "rand", lambda: torch.rand(1000))
row("before", "randn", lambda: torch.randn(1000))
row("before", "randint", lambda: torch.randint(3, (1000,)))
row("before", "randperm", lambda: torch.randperm(1000))
row("before", "normal", lambda: torch.normal(0.0, 1.0, (1000,)))
row("before", "hann_window", lambda: torch.hann_window(2000))
row("before", "tril_indices", lambda: torch.tril_indices(40, 40))
row("before", "diag_embed", lambda: torch.diag_embed(flat[:40]))
row("before", "diag", lambda: torch.diag(flat[:40]))
row("before", "vander", lambda: torch.vander(values, 40))
row("before", "pad", lambda: F.pad(small, (10, 10, 10, 10)))
row("before", "reflect pad", lambda: F.pad(small[None], (15, 15, 15, 15), mode="reflect"))
row("before", "interpolate", lambda: F.interpolate(image, scale_factor=3))
row("before", "bilinear interpolate", lambda: F.interpolate(image, size=(30, 30), mode="bilinear"))
row("before", "conv2d", lambda: F.conv2d(image, numbers_weight, padding=1))
row("before", "conv_transpose2d", lambda: F.conv_transpose2d(image, transposed_weight, stride=2))
row("before", "unfold", lambda: F.unfold(image, 3))
row("before", "fold", lambda: F.fold(numbers_columns, (24, 24), 2, stride=8))
row("before", "one_hot", lambda: F.one_hot(indices, 60))
row("before", "embedding rows", lambda: F.embedding(repeated, small))
row("before", "index_select", lambda: small.index_select(0, repeated))
row("before", "advanced index", lambda: small[repeated])
row("before", "gather", lambda: torch.gather(small, 0, gather_index))
row("before", "take", lambda: small.take(gather_index))
row("before", "multinomial", lambda: torch.multinomial(values, 1000, replacement=True))
row("before", "linalg.qr, complete", lambda: torch.linalg.qr(tall, mode="complete"))
row("before", "linalg.svd, full", lambda: torch.linalg.svd(tall, full_matrices=True))
row("before", "fft", lambda: torch.fft.fft(values, n=1000))
row("before", "irfft", lambda: torch.fft.irfft(values, n=1000))
row(
    "before",
    "pairwise attention scores",
    lambda: torch._scaled_dot_product_attention_math(tall[None], tall[None], tall[None]),
)
row("before", "linear", lambda: F.linear(tall, tall))
row("before", "bilinear", lambda: F.bilinear(tall, tall, bilinear_weight))
row("before", "histc", lambda: torch.histc(values, 1000))
row("before", "combinations", lambda: torch.combinations(flat[:60]))
row("before", "foreach broadcast", lambda: torch._foreach_add([big, tiny], 1.0))
row("before", "foreach of two lists", lambda: torch._foreach_mul([tiny, big], [tiny, big]))

# Sizes that depend on values: stopped right after.
row("after", "nonzero", lambda: torch.nonzero(flat[:900].reshape(30, 30)))
row("after", "argwhere", lambda: torch.argwhere(dense_rows))
row("after", "repeat_interleave by a tensor", lambda: torch.repeat_interleave(values, counts))
row("after", "bincount to a large number", lambda: torch.bincount(torch_large))

# In place and out=.
for name in words("zero_ abs_ exp_ neg_ relu_ sigmoid_ floor_ random_ normal_ uniform_ exponential_ bernoulli_"):
    row("before", name, lambda name=name: getattr(big, name)(), target=big)
row("before", "add_", lambda: big.add_(1), target=big)
row("before", "mul_", lambda: big.mul_(2), target=big)
row("before", "fill_", lambda: big.fill_(0), target=big)
row("before", "copy_", lambda: big.copy_(column), target=big)
row("before", "copy_ of an expanded view", lambda: big.copy_(expanded), target=big)
row("before", "clamp_", lambda: big.clamp_(0, 1), target=big)
row("before", "masked_fill_", lambda: big.masked_fill_(yes, 0), target=big)
row("before", "index_fill_", lambda: big.index_fill_(0, indices, 0.0), target=big)
row("before", "index_add_", lambda: big.index_add_(0, indices, big[:20]), target=big)
row("before", "scatter_", lambda: big.scatter_(0, whole[:4], 0.0), target=big)
row("before", "index_put_", lambda: big.index_put_((indices,), tiny[0, 0]), target=big)
row("before", "item assignment", lambda: big.__setitem__(yes, 0.0), target=big)
row("before", "in place through a far strided view", lambda: spread.zero_(), target=spread)
row("before", "foreach in place", lambda: torch._foreach_add_([tiny, big], 1.0), target=big)
row("before", "foreach zero", lambda: torch._foreach_zero_([tiny, big]), target=tiny)
row("before", "mm, out=", lambda: torch.mm(tall, wide, out=big), target=big)
row("before", "mm, an empty out=", lambda: torch.mm(tall, wide, out=empty), target=empty)
row("before", "add, out=", lambda: torch.add(column, line, out=big), target=big)
row("before", "add, an empty out=", lambda: torch.add(column, line, out=empty), target=empty)
row("before", "cat, an empty out=", lambda: torch.cat([small, small, small], out=empty), target=empty)
row("before", "sum, out= that reaches far", lambda: torch.sum(tall[:16], 1, out=spread), target=spread)
row("before", "arange, an empty out=", lambda: torch.arange(1000, out=empty), target=empty)
row("before", "bmm, out=", lambda: torch.bmm(tall[None], wide[None], out=big[None]), target=big)

# Nothing is read or written, or all is small.
row("passes", "view", lambda: big.view(1600))
row("passes", "reshape", lambda: big.reshape(1600))
row("passes", "transpose", lambda: big.t())
row("passes", "permute", lambda: big.permute(1, 0))
row("passes", "expand", lambda: column.expand(40, 400))
row("passes", "select", lambda: big[0])
row("passes", "slice", lambda: big[:10])
row("passes", "narrow", lambda: big.narrow(0, 0, 2))
row("passes", "diagonal", lambda: big.diagonal())
row("passes", "unfold view", lambda: big.unfold(0, 10, 10))
row("passes", "as_strided", lambda: big.as_strided((2, 2), (900, 1)))
row("passes", "split", lambda: big.split(10))
row("passes", "chunk", lambda: big.chunk(2))
row("passes", "unbind", lambda: big.unbind())
row("passes", "squeeze", lambda: big.squeeze())
row("passes", "unsqueeze", lambda: big.unsqueeze(0))
row("passes", "detach", lambda: big.detach())
row("passes", "flatten", lambda: big.flatten())
row("passes", "movedim", lambda: big.movedim(0, 1))
row("passes", "view dtype", lambda: big.view(torch.int32))
row("passes", "empty", lambda: torch.empty(10000))
row("passes", "empty_like", lambda: torch.empty_like(big))
row("passes", "new_empty", lambda: tiny.new_empty(10000))
row("passes", "empty_strided", lambda: torch.empty_strided((2, 2), (9000, 1)))
row("passes", "contiguous of a contiguous tensor", lambda: big.contiguous())
row("passes", "to its own dtype", lambda: big.to(torch.float32))
row("passes", "a slice, then arithmetic", lambda: big[:10] * 2 + big[10:20])
row("passes", "diagonal of a small view", lambda: small.diagonal().sum())
row("passes", "a product of many small", lambda: small @ small @ small)
row("passes", "chain of pointwise", lambda: (small * small + small).sum())
row("passes", "mm up to the border", lambda: torch.mm(flat[:66].reshape(33, 2), flat[:60].reshape(2, 30)))
row("passes", "softmax small", lambda: small.softmax(0))
row("passes", "cat below", lambda: torch.cat([small, small]))
row("passes", "sort small", lambda: small.sort())
row("passes", "bmm small", lambda: batch @ batch)
row("passes", "conv small", lambda: F.conv2d(image, numbers_weight[:4]))
row("passes", "layer_norm small", lambda: F.layer_norm(small, (20,)))
row("passes", "mean of a transposed", lambda: small.t().mean())
row("passes", "foreach small", lambda: torch._foreach_add([small] * 8, [small] * 8))
row("passes", "linalg.qr small", lambda: torch.linalg.qr(small))
row("passes", "nonzero small", lambda: small.nonzero())
row("passes", "zeros small", lambda: torch.zeros(3, 3))
row("passes", "meta tensors", lambda: torch.ones(100000, device="meta") + 1)
row("passes", "sparse of few", lambda: sparse.coalesce() * 2)
row("passes", "arange small", lambda: torch.arange(10))
row("passes", "in place small", lambda: small.clone().add_(1))
row("passes", "attention small", lambda: F.scaled_dot_product_attention(batch, batch, batch))
row("passes", "einsum small", lambda: torch.einsum("bij,bjk->bik", batch, batch))
row("passes", "print", lambda: repr(tiny))
row("passes", "item", lambda: tiny[0, 0].item())
row("passes", "tolist", lambda: tiny.tolist())
row("passes", "index small", lambda: small[indices])
row("passes", "interpolate small", lambda: F.interpolate(image, scale_factor=2))


class Recorder(TorchDispatchMode):
    """Below the guard: sees what the guard lets through."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def outcome(run, recorder=None):
    """(what happened, the error or None)"""
    try:
        with recorder or torch.enable_grad(), Guard(device="cpu", limit=LIMIT):
            run()
    except GuardError as stopped:
        return ("after" if stopped.kernel_ran else "before"), stopped
    return "passes", None


def differing(recorded):
    wrong = {}
    for expected, name, run, target in ROWS:
        before = None if target is None else target.clone()
        recorder = Recorder() if recorded else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                actual, stopped = outcome(run, recorder)
            except Exception as failure:  # noqa: BLE001 - shown in the table
                wrong[name] = [expected, f"{type(failure).__name__}: {failure}"]
                continue
        if actual != expected:
            wrong[name] = [expected, actual, str(stopped)]
        elif before is not None and not (target.shape == before.shape and torch.equal(target, before)):
            wrong[name] = [expected, "its target has changed"]
        elif stopped is not None and recorder and (stopped.operation in recorder.seen[-1:]) != (actual == "after"):
            wrong[name] = [expected, f"the kernel ran: {recorder.seen}"]
    return wrong


def rule_table_has_a_hundred_operations():
    assert len({name for _, name, _, _ in ROWS}) == len(ROWS) >= 100, len(ROWS)


def rule_every_operation_does_what_the_table_says():
    assert differing(recorded=False) == {}


def rule_kernels_of_stopped_operations_did_not_run():
    assert differing(recorded=True) == {}

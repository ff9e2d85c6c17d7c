"""What ``bisect-torch run`` runs when no file is named: everyday operators against float64, then known public bugs.

The first part must be ok on every release. A case of it compares an operator with the same thing by hand in float64, on
inputs with the same bytes in every release; ``k=`` is the length of the longest sum behind one element. The second part
are bugs that came or went between releases, each with its issue: some of their cells are meant to be red.
"""

from __future__ import annotations

import by_hand
import torch
import torch.nn.functional as F  # noqa: N812
from by_hand import exact
from torch import nn

from bisect_torch import case, check, skip
from bisect_torch.numerics import integers, uniform

FLOATS = ["float64", "float32", "bfloat16", "float16"]


def numbers(device, dtype, *shape, salt=0):
    """Numbers between -1 and 1 of a type given by name; another ``salt`` gives others."""
    kind = getattr(torch, dtype)
    if kind.is_complex:
        parts = uniform((2, *shape), low=-1.0, high=1.0, dtype=torch.float64, seed=salt)
        return torch.complex(parts[0], parts[1]).to(device, kind)
    if not kind.is_floating_point:
        return integers(shape, -5, 6, dtype=kind, seed=salt).to(device)
    return uniform(shape, low=-1.0, high=1.0, dtype=torch.float64, seed=salt).to(device, kind)


# --- products ---------------------------------------------------------------------------------------------------------


@case(dtype=[*FLOATS, "complex64", "int64", "int32", "int8"])
def matmul(device, dtype):
    a, b = numbers(device, dtype, 33, 70), numbers(device, dtype, 70, 29, salt=1)
    expected = by_hand.matmul(exact(a), exact(b))
    return check(a @ b, reference=expected if a.dtype.is_floating_point or a.is_complex() else expected.to(a.dtype), k=70)


@case(dtype=[*FLOATS, "int64"], layout=["contiguous", "transposed", "sliced", "expanded"])
def bmm(device, dtype, layout):
    if layout == "transposed":
        a = numbers(device, dtype, 5, 40, 17).transpose(1, 2)
    elif layout == "sliced":
        a = numbers(device, dtype, 5, 34, 81)[:, ::2, 1::2]
    elif layout == "expanded":
        a = numbers(device, dtype, 1, 17, 40).expand(5, 17, 40)
    else:
        a = numbers(device, dtype, 5, 17, 40)
    b = numbers(device, dtype, 5, 40, 19, salt=1)
    return check(torch.bmm(a, b), reference=by_hand.matmul(exact(a), exact(b)), k=40)


@case(dtype=["float32", "bfloat16"])
def linear_with_bias(device, dtype):
    x, w, b = numbers(device, dtype, 7, 50), numbers(device, dtype, 21, 50, salt=1), numbers(device, dtype, 21, salt=2)
    return check(F.linear(x, w, b), reference=by_hand.matmul(exact(x), exact(w).t()) + exact(b), k=50)


@case(dtype=["float64", "float32"])
def einsum(device, dtype):
    a, b = numbers(device, dtype, 3, 6, 8, 4), numbers(device, dtype, 4, 3, 9, 8, salt=1)
    expected = by_hand.matmul(exact(a).permute(0, 3, 1, 2), exact(b).permute(1, 0, 3, 2))
    return check(torch.einsum("bqdh,hbkd->bhqk", a, b), reference=expected, k=8)


@case(dtype=FLOATS, mask=["none", "causal", "boolean", "additive"])
def attention(device, dtype, mask):
    query, key, value = (numbers(device, dtype, 2, 3, 21, 16, salt=salt) for salt in range(3))
    options = {}
    bias = None
    if mask == "causal":
        options["is_causal"] = True
        bias = torch.full((21, 21), float("-inf"), dtype=torch.float64).triu(1)
    elif mask == "boolean":
        visible = integers((21, 21), 0, 3, dtype=torch.int64, seed=3) > 0
        visible.fill_diagonal_(True)
        options["attn_mask"] = visible.to(device)
        bias = torch.zeros(21, 21, dtype=torch.float64).masked_fill(~visible, float("-inf"))
    elif mask == "additive":
        options["attn_mask"] = numbers(device, dtype, 21, 21, salt=3)
        bias = exact(options["attn_mask"])
    actual = F.scaled_dot_product_attention(query, key, value, **options)
    expected = by_hand.attention(exact(query), exact(key), exact(value), bias)
    # The weights are rounded to the inputs' type before they are summed.
    tolerance = {} if dtype in ("float64", "float32") else {"rtol": 0.0, "atol": 4 * torch.finfo(query.dtype).eps}
    return check(actual, reference=expected, k=64, **tolerance)


# --- normalisation and loss -------------------------------------------------------------------------------------------


@case(dtype=FLOATS, dim=[0, -1])
def softmax(device, dtype, dim):
    x = 8 * numbers(device, dtype, 37, 53)
    return check(torch.softmax(x, dim), reference=by_hand.softmax(exact(x), dim), k=53)


@case(dtype=FLOATS)
def log_softmax(device, dtype):
    x = 8 * numbers(device, dtype, 37, 53)
    return check(torch.log_softmax(x, -1), reference=by_hand.log_softmax(exact(x), -1), k=53)


@case(dtype=["float64", "float32", "bfloat16"])
def layer_norm(device, dtype):
    x, w, b = numbers(device, dtype, 9, 65), numbers(device, dtype, 65, salt=1), numbers(device, dtype, 65, salt=2)
    expected = by_hand.standardised(exact(x), (-1,), 1e-5) * exact(w) + exact(b)
    return check(F.layer_norm(x, (65,), w, b), reference=expected, k=65)


@case(dtype=["float64", "float32"])
def rms_norm(device, dtype):
    x, w = numbers(device, dtype, 9, 65), numbers(device, dtype, 65, salt=1)
    expected = exact(x) / (exact(x).square().mean(-1, keepdim=True) + 1e-6).sqrt() * exact(w)
    return check(F.rms_norm(x, (65,), w, eps=1e-6), reference=expected, k=65)


@case(layout=["contiguous", "channels_last"], training=[True, False])
def batch_norm(device, layout, training):
    x = numbers(device, "float32", 4, 6, 9, 7)
    x = x.contiguous(memory_format=torch.channels_last) if layout == "channels_last" else x
    mean, var = numbers(device, "float32", 6, salt=1), numbers(device, "float32", 6, salt=2).abs() + 0.5
    if training:
        expected = by_hand.standardised(exact(x), (0, 2, 3), 1e-5)
    else:
        expected = (exact(x) - exact(mean).view(-1, 1, 1)) / (exact(var).view(-1, 1, 1) + 1e-5).sqrt()
    return check(F.batch_norm(x, mean, var, training=training), reference=expected, k=252)


@case(layout=["contiguous", "channels_last"])
def group_norm(device, layout):
    x = numbers(device, "float32", 3, 8, 7, 5)
    x = x.contiguous(memory_format=torch.channels_last) if layout == "channels_last" else x
    expected = by_hand.standardised(exact(x).view(3, 4, 2, 7, 5), (2, 3, 4), 1e-5).view(3, 8, 7, 5)
    return check(F.group_norm(x, 4), reference=expected, k=70)


@case(smoothing=[0.0, 0.1])
def cross_entropy(device, smoothing):
    scores, classes = 4 * numbers(device, "float32", 30, 11), integers((30,), 0, 11, dtype=torch.int64, seed=1)
    expected = by_hand.cross_entropy(exact(scores), classes, smoothing, ignored=3)
    actual = F.cross_entropy(scores, classes.to(device), ignore_index=3, label_smoothing=smoothing)
    return check(actual, reference=expected, k=330)


# --- convolution, pooling, pictures -----------------------------------------------------------------------------------


@case(dtype=["float32", "bfloat16"], kind=["plain", "strided", "dilated", "grouped", "channels_last"])
def conv2d(device, dtype, kind):
    options = {"padding": 1}
    if kind == "strided":
        options["stride"] = 2
    elif kind == "dilated":
        options["dilation"] = 2
    elif kind == "grouped":
        options["groups"] = 4
    x, w = numbers(device, dtype, 2, 8, 13, 11), numbers(device, dtype, 12, 2 if kind == "grouped" else 8, 3, 3, salt=1)
    expected = by_hand.conv2d(exact(x), exact(w), **options)
    if kind == "channels_last":
        x = x.contiguous(memory_format=torch.channels_last)
    return check(F.conv2d(x, w, **options), reference=expected, k=72)


@case(dtype=["float64", "float32"])
def conv1d_and_transposed(device, dtype):
    signal, taps = numbers(device, dtype, 3, 4, 50), numbers(device, dtype, 5, 4, 7, salt=1)
    expected = by_hand.conv2d(exact(signal).unsqueeze(2), exact(taps).unsqueeze(2)).squeeze(2)
    check(F.conv1d(signal, taps), reference=expected, k=28)
    x, w = numbers(device, dtype, 2, 6, 5, 4, salt=2), numbers(device, dtype, 6, 3, 3, 3, salt=3)
    expected = by_hand.conv_transpose2d(exact(x), exact(w), stride=2)
    return check(F.conv_transpose2d(x, w, stride=2), reference=expected, k=54)


@case
def pooling(device):
    x = numbers(device, "float32", 2, 3, 12, 8)
    windows = exact(x).view(2, 3, 6, 2, 4, 2).permute(0, 1, 2, 4, 3, 5).flatten(4)
    check(F.max_pool2d(x, 2), reference=windows.amax(-1).float())
    return check(F.avg_pool2d(x, 2), reference=windows.sum(-1) / 4, k=4)


@case(dtype=["float64", "float32"])
def interpolate(device, dtype):
    x = numbers(device, dtype, 2, 3, 9, 7)
    actual = F.interpolate(x, size=(14, 5), mode="bilinear", align_corners=False)
    return check(actual, reference=by_hand.bilinear(exact(x), 14, 5), k=64)


# --- reductions and order ---------------------------------------------------------------------------------------------


@case(dtype=["float64", "float32", "bfloat16"], dim=[0, 1], layout=["contiguous", "sliced"])
def reductions(device, dtype, dim, layout):
    x = numbers(device, dtype, 61, 84)
    x = x[::2, 1::3] if layout == "sliced" else x
    wide = exact(x)
    count = x.shape[dim]
    centred = wide - wide.sum(dim, keepdim=True) / count
    check(x.sum(dim), reference=wide.sum(dim), k=count)
    check(x.mean(dim), reference=wide.sum(dim) / count, k=count)
    check(x.var(dim), reference=centred.square().sum(dim) / (count - 1), k=count)
    check(x.logsumexp(dim), reference=wide.exp().sum(dim).log(), k=count)
    return check(x.amax(dim), reference=wide.max(dim).values)


@case(dtype=["float64", "float32", "int32"])
def cumulative_sum(device, dtype):
    x = numbers(device, dtype, 6, 45)
    columns, total = [], torch.zeros_like(exact(x[:, 0]))
    for column in exact(x).unbind(1):
        total = total + column
        columns.append(total)
    return check(x.cumsum(1), reference=torch.stack(columns, 1), k=45)


@case(dtype=["float32", "int64"])
def sort_and_argmax(device, dtype):
    x = numbers(device, dtype, 8, 50)
    rows = [sorted(row) for row in exact(x).tolist()]
    ordered = torch.tensor(rows, dtype=x.dtype)
    values, places = x.sort(dim=1, stable=True)
    check(values, reference=ordered)
    check(x.gather(1, places), reference=ordered)
    check(x.topk(7, dim=1).values, reference=ordered.flip(1)[:, :7])
    first = torch.tensor([row.index(max(row)) for row in x.tolist()])
    return check(x.argmax(1), reference=first)


# --- indexing and strides ---------------------------------------------------------------------------------------------


@case(dtype=["float32", "int64"])
def gather_and_scatter(device, dtype):
    x, places = numbers(device, dtype, 12, 9), integers((12, 5), 0, 9, dtype=torch.int64, seed=1)
    picked, summed = torch.zeros(12, 5, dtype=x.dtype), torch.zeros(12, 9, dtype=exact(x).dtype)
    for row in range(12):
        for column, place in enumerate(places[row].tolist()):
            picked[row, column] = x[row, place]
            summed[row, place] += exact(x)[row, column]
    check(x.gather(1, places.to(device)), reference=picked)
    actual = torch.zeros_like(x).scatter_add(1, places.to(device), x[:, :5])
    return check(actual, reference=summed, k=5)


@case
def indexing(device):
    x = numbers(device, "float32", 7, 8, 5)
    rows, columns = torch.tensor([6, 0, 3, 3], device=device), torch.tensor([1, 7, 7, 2], device=device)
    plain = exact(x).float()
    check(x[rows, :, 2:][:, columns], reference=torch.stack([plain[r, :, 2:] for r in (6, 0, 3, 3)])[:, [1, 7, 7, 2]])
    written = x.clone().index_put((rows, columns), torch.tensor(9.0, device=device))
    for row, column in ((6, 1), (0, 7), (3, 7), (3, 2)):
        plain[row, column] = 9.0
    check(written, reference=plain)
    return check(written.masked_fill(written > 8, 0.0).sum(), reference=(exact(plain) * (plain < 8)).sum(), k=280)


@case(dtype=["float32", "bfloat16", "int16", "complex64"])
def strided_views(device, dtype):
    x = numbers(device, dtype, 6, 10, 4)
    wide = exact(x)
    flipped = x.transpose(0, 1)[::3, 1::2].flip(2)
    check(flipped * 1, reference=wide.permute(1, 0, 2)[[0, 3, 6, 9]][:, [1, 3, 5]][:, :, [3, 2, 1, 0]].to(x.dtype))
    x.permute(2, 0, 1)[1, :, ::2].mul_(2)
    wide[:, ::2, 1] *= 2
    return check(x.reshape(-1), reference=wide.reshape(-1).to(x.dtype))


@case
def complex_arithmetic(device):
    a, b = numbers(device, "complex64", 40), numbers(device, "complex64", 40, salt=1) + 2
    (ar, ai), (br, bi) = ((exact(z).real, exact(z).imag) for z in (a, b))
    check(a * b, reference=torch.complex(ar * br - ai * bi, ar * bi + ai * br), k=2)
    size = br * br + bi * bi
    check(a / b, reference=torch.complex((ar * br + ai * bi) / size, (ai * br - ar * bi) / size), k=16)
    check(b.abs(), reference=size.sqrt(), k=2)
    return check((a.conj() * a).real, reference=ar * ar + ai * ai, k=2)


@case
def embedding(device):
    table, words = numbers(device, "float32", 13, 6).requires_grad_(), integers((4, 5), 0, 13, dtype=torch.int64, seed=1)
    looked_up = F.embedding(words.to(device), table)
    check(looked_up.detach(), reference=torch.stack([exact(table)[word] for word in words.flatten()]).view(4, 5, 6).float())
    (looked_up * looked_up).sum().backward()
    counts = torch.tensor([(words == word).sum().item() for word in range(13)])
    return check(table.grad, reference=2 * exact(table) * counts.view(-1, 1), k=20)


# --- linear algebra and transforms ------------------------------------------------------------------------------------


@case(dtype=["float64", "float32"])
def linear_algebra(device, dtype):
    a = numbers(device, dtype, 24, 24) + 6 * torch.eye(24, device=device, dtype=getattr(torch, dtype))
    b = numbers(device, dtype, 24, 3, salt=1)
    check(exact(a) @ exact(torch.linalg.solve(a, b)), reference=exact(b), rtol=0.0, atol=400 * torch.finfo(a.dtype).eps)
    q, r = torch.linalg.qr(a)
    check(by_hand.matmul(exact(q), exact(r)), reference=exact(a), rtol=0.0, atol=400 * torch.finfo(a.dtype).eps)
    check(exact(q).t() @ exact(q), reference=torch.eye(24, dtype=torch.float64), rtol=0.0, atol=400 * torch.finfo(a.dtype).eps)
    # What the singular values must satisfy: their squares add up to the squares of all elements, and their product is
    # the determinant's size.
    values = exact(torch.linalg.svdvals(a))
    eps = torch.finfo(a.dtype).eps
    check(values.square().sum(), reference=exact(a).square().sum(), rtol=100 * eps, atol=0.0)
    return check(values.log().sum(), reference=exact(torch.linalg.slogdet(a).logabsdet), rtol=200 * eps, atol=0.0)


@case(dtype=["float64", "float32", "complex64"], length=[32, 45])
def fourier(device, dtype, length):
    x = numbers(device, dtype, 3, length)
    expected = by_hand.discrete_fourier(exact(x))
    check(torch.fft.fft(x), reference=expected, k=length)
    return check(torch.fft.ifft(torch.fft.fft(x)), reference=exact(x).to(torch.complex128), k=length)


# --- training ---------------------------------------------------------------------------------------------------------


def network(x, w1, b1, w2):
    return torch.tanh(x @ w1 + b1) @ w2


@case(dtype=["float64", "float32"])
def gradients(device, dtype):
    """Chain rule by hand: d/dw of sum(tanh(x w1 + b1) w2)."""
    shapes = [(11, 9), (9, 7), (7,), (7, 2)]
    x, w1, b1, w2 = (numbers(device, dtype, *shape, salt=salt).requires_grad_() for salt, shape in enumerate(shapes))
    network(x, w1, b1, w2).sum().backward()
    hidden = (by_hand.matmul(exact(x), exact(w1)) + exact(b1)).tanh()
    slope = exact(w2).sum(1) * (1 - hidden.square())
    check(x.grad, reference=by_hand.matmul(slope, exact(w1).t()), k=64)
    check(w1.grad, reference=by_hand.matmul(exact(x).t(), slope), k=64)
    check(b1.grad, reference=slope.sum(0), k=64)
    return check(w2.grad, reference=hidden.sum(0).view(-1, 1).expand(7, 2), k=64)


@case(name=["SGD", "AdamW"])
def optimizer_steps(device, name):
    weight = numbers(device, "float32", 20).requires_grad_()
    expected, momentum, square = exact(weight), torch.zeros(20).double(), torch.zeros(20).double()
    if name == "SGD":
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.01)
    for step in range(1, 4):
        slope = numbers(device, "float32", 20, salt=step)
        weight.grad = slope
        optimizer.step()
        if name == "SGD":
            momentum = 0.9 * momentum + exact(slope) if step > 1 else exact(slope)
            expected = expected - 0.1 * momentum
        else:
            momentum, square = 0.9 * momentum + 0.1 * exact(slope), 0.999 * square + 0.001 * exact(slope).square()
            mean, deviation = momentum / (1 - 0.9**step), (square / (1 - 0.999**step)).sqrt()
            expected = expected * (1 - 0.1 * 0.01) - 0.1 * mean / (deviation + 1e-8)
    return check(weight.detach(), reference=expected, k=64)


@case
def lstm(device):
    layer = nn.LSTM(5, 6).to(device)
    with torch.no_grad():
        for salt, weight in enumerate(layer.parameters()):
            weight.copy_(numbers(device, "float32", *weight.shape, salt=salt))
    x = numbers(device, "float32", 7, 3, 5, salt=9)
    w_input, w_hidden, b_input, b_hidden = (exact(weight) for weight in layer.parameters())
    expected = by_hand.lstm(exact(x), w_input, w_hidden, b_input + b_hidden)
    return check(layer(x)[0].detach(), reference=expected, k=100)


# --- torch.compile ----------------------------------------------------------------------------------------------------


@case(needs="compile")
def compiled_normalisation(device):
    def normalise(x, w):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w

    x, w = numbers(device, "float32", 19, 70), numbers(device, "float32", 70, salt=1)
    return check(torch.compile(normalise)(x, w), reference=normalise(exact(x), exact(w)), k=70)


@case(needs="compile")
def compiled_gradients(device):
    shapes = [(11, 9), (9, 7), (7,), (7, 2)]
    x, w1, b1, w2 = (numbers(device, "float32", *shape, salt=salt).requires_grad_() for salt, shape in enumerate(shapes))
    torch.compile(network)(x, w1, b1, w2).sum().backward()
    hidden = (by_hand.matmul(exact(x), exact(w1)) + exact(b1)).tanh()
    slope = exact(w2).sum(1) * (1 - hidden.square())
    check(w2.grad, reference=hidden.sum(0).view(-1, 1).expand(7, 2), k=64)
    return check(w1.grad, reference=by_hand.matmul(exact(x).t(), slope), k=64)


# --- known bugs: these came or went between releases ------------------------------------------------------------------

NAN = float("nan")


@case(tokens=[8, 32], issue="https://github.com/pytorch/pytorch/issues/141128")
def attention_to_nan(device, tokens):
    """A query of NaN came out of the fused kernel as zeros; below one vector of tokens it still does."""
    query = torch.full((1, 2, tokens, 8), NAN, device=device)
    key = value = numbers(device, "float32", 1, 2, tokens, 8)
    return check(F.scaled_dot_product_attention(query, key, value), reference=query)


@case(issue="https://github.com/pytorch/pytorch/issues/155527")
def rms_norm_default_eps(device):
    """Without eps, the smallest step of the input's type was added; later releases add float32's."""
    x = torch.full((2, 8), 1e-4, dtype=torch.bfloat16, device=device)

    def with_eps(kind):
        return exact(x) / (exact(x).square() + torch.finfo(kind).eps).sqrt()

    explain = {"eps of float32": lambda: with_eps(torch.float32)}
    return check(F.rms_norm(x, (8,)), reference=with_eps(torch.bfloat16), k=8, explain=explain)


@case(issue="https://github.com/pytorch/pytorch/issues/147801")
def hardswish_slope_at_its_knees(device):
    """0 up to -3 and the identity from 3 on, so the slopes there are 0 and 1; they were -0.5 and 1.5."""
    x = torch.tensor([-3.0, 3.0], device=device, requires_grad=True)
    F.hardswish(x).sum().backward()
    return check(x.grad, reference=torch.tensor([0.0, 1.0]))


@case(issue="https://github.com/pytorch/pytorch/issues/138385")
def softshrink_of_nan(device):
    x = torch.tensor([NAN, 2.0, -2.0, 0.25] * 16, device=device)
    return check(F.softshrink(x), reference=torch.tensor([NAN, 1.5, -1.5, 0.0] * 16))


@case(issue="https://github.com/pytorch/pytorch/issues/133267")
def ldexp_beyond_float32(device):
    """2**200 fits into float64, but was computed in float32."""
    one, exponents = torch.ones(3, dtype=torch.float64, device=device), torch.tensor([200, -200, 3], device=device)
    expected = torch.tensor([2.0**200, 2.0**-200, 8.0], dtype=torch.float64)
    return check(torch.ldexp(one, exponents), reference=expected, rtol=0.0)


@case(issue="https://github.com/pytorch/pytorch/issues/165427")
def atan2_slope_at_the_origin(device):
    """The angle of (0, 0) is given as 0; its gradient was NaN and spoiled whatever it was added to."""
    y, x = (torch.zeros(2, device=device, requires_grad=True) for _ in range(2))
    torch.atan2(y, x).sum().backward()
    return check([y.grad, x.grad], reference=[torch.zeros(2), torch.zeros(2)])


@case(issue="https://github.com/pytorch/pytorch/issues/154328")
def fake_quantize_of_infinity(device):
    """More than the largest step is the largest step; infinity became the smallest."""
    x = torch.tensor([float("inf"), 1e6, -float("inf"), 3.2], device=device)
    actual = torch.fake_quantize_per_tensor_affine(x, 1.0, 0, 0, 255)
    return check(actual, reference=torch.tensor([255.0, 255.0, 0.0, 3.0]))


@case(operation=["floor_divide", "remainder"], issue="https://github.com/pytorch/pytorch/issues/138425")
def smallest_integer_by_minus_one(device, operation):
    """The quotient does not fit into int64: any value or exception will do, but the processor's trap kills the process."""
    smallest = torch.full((1,), -(2**63), dtype=torch.int64, device=device)
    getattr(torch, operation)(smallest, torch.full_like(smallest, -1))


@case(device="cpu", issue="https://github.com/pytorch/pytorch/issues/149274")
def max_pool_with_stride_zero():
    """A stride of 0 must be refused; it was divided by. Fixed in a patch release."""
    if not torch.backends.mkldnn.is_available():
        skip("this build of torch is without oneDNN")
    with_mkldnn = torch.ones(1, 1, 4, 4).to_mkldnn()
    assert refuses(torch.mkldnn_max_pool2d, with_mkldnn, 3, 0), "a stride of 0 was accepted"


@case(issue="https://github.com/pytorch/pytorch/issues/142453")
def channel_shuffle_in_zero_groups(device):
    assert refuses(torch.native_channel_shuffle, torch.ones(1, 4, 2, 2, device=device), 0), "0 groups were accepted"


@case(issue="https://github.com/pytorch/pytorch/issues/150835")
def ctc_loss_of_no_samples(device):
    """A mean over nothing has no value; it was NaN in silence."""
    nothing = torch.zeros(0, dtype=torch.int64, device=device)
    log_p = torch.zeros(1, 0, 5, device=device).log_softmax(2)
    assert refuses(F.ctc_loss, log_p, nothing, nothing, nothing), "a loss of no samples was given"


def refuses(function, *arguments):
    """Whether the call raises a RuntimeError or a ValueError, as it should."""
    try:
        function(*arguments)
    except (RuntimeError, ValueError):
        return True
    return False


@case(device="cpu", issue="https://github.com/pytorch/pytorch/issues/146793")
def view_past_the_end_of_storage():
    """Right is an exception, so this case is never ok: it is there for how a crash turns into an error."""
    far_away = torch.ops.aten.as_strided(torch.ones(1, dtype=torch.bool), [4096], [0], 2**63 - 1)
    return check(far_away.sum(), reference=0)


@case(issue="https://github.com/pytorch/pytorch/issues/187761")
def chebyshev_of_nan(device):
    """Right, then an uninitialised variable, then right again."""
    x = torch.full((70,), NAN, device=device)
    return check(torch.special.chebyshev_polynomial_t(x, torch.full_like(x, 3.0)), reference=x)


@case(device="cpu", issue="https://github.com/pytorch/pytorch/issues/58734")
def where_of_uint16():
    """Not implemented at first, and by another type of exception from a certain release on."""
    small, large = torch.tensor([1, 2], dtype=torch.uint16), torch.tensor([60001, 60002], dtype=torch.uint16)
    picked = torch.where(torch.tensor([True, False]), small, large)
    assert picked.tolist() == [1, 60002]


@case(issue="https://github.com/pytorch/pytorch/issues/10536")
def pad_sequence_on_the_left(device):
    """A wish of 2018; the keyword is absent at first."""
    ragged = [torch.tensor([1], device=device), torch.tensor([2, 3], device=device)]
    padded = nn.utils.rnn.pad_sequence(ragged, batch_first=True, padding_side="left")
    return check(padded, reference=torch.tensor([[0, 1], [2, 3]]))


@case(issue="https://github.com/pytorch/pytorch/issues/64947")
def median_of_seventeen_million(device):
    """More than 2**24 elements were refused."""
    x = torch.arange(17_000_000, dtype=torch.float32, device=device)
    return check(torch.quantile(x, 0.5), reference=8_499_999.5, rtol=1e-7)


@case(needs="compile", issue="https://github.com/pytorch/pytorch/issues/184528")
def scan_gradient(device):
    """The gradient for what the loop's body closes over: absent, refused, wrong, right."""
    from torch._higher_order_ops.scan import scan

    decay = torch.tensor(0.7, dtype=torch.float64, device=device, requires_grad=True)
    steps = torch.arange(1.0, 5.0, dtype=torch.float64, device=device)

    def body(carry, step):
        carry = carry * decay + step
        return carry, carry.clone()

    _, outputs = scan(body, torch.zeros_like(steps[0]), steps, dim=0)
    (actual,) = torch.autograd.grad(outputs.sum(), decay)
    # d/da of the sum of 1, a + 2, a² + 2a + 3, a³ + 2a² + 3a + 4
    a = 0.7
    return check(actual, reference=1 + (2 * a + 2) + (3 * a * a + 4 * a + 3), rtol=1e-12)


@case(needs="compile", issue="https://github.com/pytorch/pytorch/issues/187018")
def compiled_uint8_arithmetic(device):
    """uint8 wraps around; the compiled kernel took the absolute value, and with it the rest, as int."""

    def twice_negated(x):
        negated = -x.abs()
        return torch.cat([negated, negated]).sum()

    x = torch.tensor([200, 200], dtype=torch.uint8, device=device)
    return check(torch.compile(twice_negated)(x), reference=4 * (256 - 200), explain={"in int": 4 * -200})


@case(needs="compile", issue="https://github.com/pytorch/pytorch/issues/138908")
def compiled_row_added_to_itself(device):
    """Each row is to be doubled; where it stands twice in the index it came out four times as large."""

    def double(rows, table):
        rows = rows + 10
        table[rows] += table[rows]
        return table

    rows, table = torch.full((1, 2), -10, device=device), numbers(device, "float32", 2, 32)
    expected = exact(table)
    expected[0] *= 2
    actual = torch.compile(double, dynamic=True)(rows, table.clone())
    return check(actual, reference=expected.float())

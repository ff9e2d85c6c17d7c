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
    """Numbers between -1 and 1 (integers from -5 to 5) of a type given by name; another ``salt`` gives others."""
    kind = getattr(torch, dtype)
    if kind.is_floating_point or kind.is_complex:
        return uniform(shape, seed=salt, dtype=kind, device=device)
    return integers(shape, seed=salt, low=-5, high=6, dtype=kind, device=device)


# --- products ---------------------------------------------------------------------------------------------------------


@case(dtype=[*FLOATS, "complex64", "int64", "int32", "int8"])
def matmul(device, dtype):
    a, b = numbers(device, dtype, 33, 70), numbers(device, dtype, 70, 29, salt=1)
    expected = by_hand.matmul(exact(a), exact(b))
    return check(
        a @ b, reference=expected if a.dtype.is_floating_point or a.is_complex() else expected.to(a.dtype), k=70
    )


@case(dtype=[*FLOATS, "int64"])
def bmm(device, dtype):
    layouts = {
        "contiguous": numbers(device, dtype, 5, 17, 40),
        "transposed": numbers(device, dtype, 5, 40, 17).transpose(1, 2),
        "sliced": numbers(device, dtype, 5, 34, 81)[:, ::2, 1::2],
        "expanded": numbers(device, dtype, 1, 17, 40).expand(5, 17, 40),
    }
    b = numbers(device, dtype, 5, 40, 19, salt=1)
    expected = {layout: by_hand.matmul(exact(a), exact(b)) for layout, a in layouts.items()}
    return check({layout: torch.bmm(a, b) for layout, a in layouts.items()}, reference=expected, k=40)


@case
def linear_with_bias(device):
    actual, expected = {}, {}
    for dtype in ("float32", "bfloat16"):
        x, w = numbers(device, dtype, 7, 50), numbers(device, dtype, 21, 50, salt=1)
        b = numbers(device, dtype, 21, salt=2)
        actual[dtype] = F.linear(x, w, b)
        expected[dtype] = by_hand.matmul(exact(x), exact(w).t()) + exact(b)
    return check(actual, reference=expected, k=50)


@case
def einsum(device):
    a, b = numbers(device, "float32", 3, 6, 8, 4), numbers(device, "float32", 4, 3, 9, 8, salt=1)
    expected = by_hand.matmul(exact(a).permute(0, 3, 1, 2), exact(b).permute(1, 0, 3, 2))
    return check(torch.einsum("bqdh,hbkd->bhqk", a, b), reference=expected, k=8)


@case(mask=["none", "causal", "boolean", "additive"])
def attention(device, mask):
    for dtype in FLOATS:
        query, key, value = (numbers(device, dtype, 2, 3, 21, 16, salt=salt) for salt in range(3))
        options, bias = masked(device, dtype, mask)
        actual = F.scaled_dot_product_attention(query, key, value, **options)
        expected = by_hand.attention(exact(query), exact(key), exact(value), bias)
        # The weights are rounded to the inputs' type before they are summed.
        tolerance = {} if dtype in ("float64", "float32") else {"rtol": 0.0, "atol": 4 * torch.finfo(query.dtype).eps}
        check({dtype: actual}, reference={dtype: expected}, k=64, **tolerance)


def masked(device, dtype, mask):
    """Options of the call for 21 tokens, and what they add to the scores."""
    hidden = torch.full((21, 21), float("-inf"), dtype=torch.float64)
    if mask == "causal":
        return {"is_causal": True}, hidden.triu(1)
    if mask == "boolean":
        visible = integers((21, 21), seed=3, low=0, high=3) > 0
        visible.fill_diagonal_(True)
        return {"attn_mask": visible.to(device)}, hidden.masked_fill(visible, 0.0)
    if mask == "additive":
        bias = numbers(device, dtype, 21, 21, salt=3)
        return {"attn_mask": bias}, exact(bias)
    return {}, None


# --- normalisation and loss -------------------------------------------------------------------------------------------


@case
def softmax(device):
    for dtype in FLOATS:
        x = 8 * numbers(device, dtype, 37, 53)
        actual = {(dtype, dim): torch.softmax(x, dim) for dim in (0, -1)}
        check(actual, reference={(dtype, dim): by_hand.softmax(exact(x), dim) for dim in (0, -1)}, k=53)


@case
def log_softmax(device):
    x = {dtype: 8 * numbers(device, dtype, 37, 53) for dtype in FLOATS}
    expected = {dtype: by_hand.log_softmax(exact(scores), -1) for dtype, scores in x.items()}
    return check({dtype: torch.log_softmax(scores, -1) for dtype, scores in x.items()}, reference=expected, k=53)


@case
def layer_norm(device):
    for dtype in ("float64", "float32", "bfloat16"):
        x, w, b = numbers(device, dtype, 9, 65), numbers(device, dtype, 65, salt=1), numbers(device, dtype, 65, salt=2)
        expected = by_hand.standardised(exact(x), (-1,), 1e-5) * exact(w) + exact(b)
        check({dtype: F.layer_norm(x, (65,), w, b)}, reference={dtype: expected}, k=65)


@case
def rms_norm(device):
    for dtype in ("float64", "float32"):
        x, w = numbers(device, dtype, 9, 65), numbers(device, dtype, 65, salt=1)
        expected = exact(x) / (exact(x).square().mean(-1, keepdim=True) + 1e-6).sqrt() * exact(w)
        check({dtype: F.rms_norm(x, (65,), w, eps=1e-6)}, reference={dtype: expected}, k=65)


LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


@case(training=[True, False])
def batch_norm(device, training):
    mean, var = numbers(device, "float32", 6, salt=1), numbers(device, "float32", 6, salt=2).abs() + 0.5
    for layout, memory_format in LAYOUTS.items():
        x = numbers(device, "float32", 4, 6, 9, 7).contiguous(memory_format=memory_format)
        if training:
            expected = by_hand.standardised(exact(x), (0, 2, 3), 1e-5)
        else:
            expected = (exact(x) - exact(mean).view(-1, 1, 1)) / (exact(var).view(-1, 1, 1) + 1e-5).sqrt()
        actual = F.batch_norm(x, mean.clone(), var.clone(), training=training)
        check({layout: actual}, reference={layout: expected}, k=252)


@case
def group_norm(device):
    for layout, memory_format in LAYOUTS.items():
        x = numbers(device, "float32", 3, 8, 7, 5).contiguous(memory_format=memory_format)
        expected = by_hand.standardised(exact(x).view(3, 4, 2, 7, 5), (2, 3, 4), 1e-5).view(3, 8, 7, 5)
        check({layout: F.group_norm(x, 4)}, reference={layout: expected}, k=70)


@case
def cross_entropy(device):
    scores, classes = 4 * numbers(device, "float32", 30, 11), integers((30,), seed=2, high=11)
    for smoothing in (0.0, 0.1):
        expected = by_hand.cross_entropy(exact(scores), classes, smoothing, ignored=3)
        actual = F.cross_entropy(scores, classes.to(device), ignore_index=3, label_smoothing=smoothing)
        check({smoothing: actual}, reference={smoothing: expected}, k=330)


# --- convolution, pooling, pictures -----------------------------------------------------------------------------------


@case(kind=["plain", "strided", "dilated", "grouped", "channels_last"])
def conv2d(device, kind):
    options = {"padding": 1}
    options.update({"strided": {"stride": 2}, "dilated": {"dilation": 2}, "grouped": {"groups": 4}}.get(kind, {}))
    for dtype in ("float32", "bfloat16"):
        x = numbers(device, dtype, 2, 8, 13, 11)
        w = numbers(device, dtype, 12, 8 // options.get("groups", 1), 3, 3, salt=1)
        expected = by_hand.conv2d(exact(x), exact(w), **options)
        if kind == "channels_last":
            x = x.contiguous(memory_format=torch.channels_last)
        check({dtype: F.conv2d(x, w, **options)}, reference={dtype: expected}, k=72)


@case
def conv1d_and_transposed(device):
    signal, taps = numbers(device, "float32", 3, 4, 50), numbers(device, "float32", 5, 4, 7, salt=1)
    expected = by_hand.conv2d(exact(signal).unsqueeze(2), exact(taps).unsqueeze(2)).squeeze(2)
    check({"conv1d": F.conv1d(signal, taps)}, reference={"conv1d": expected}, k=28)
    x, w = numbers(device, "float32", 2, 6, 5, 4, salt=2), numbers(device, "float32", 6, 3, 3, 3, salt=3)
    expected = by_hand.conv_transpose2d(exact(x), exact(w), stride=2)
    actual = F.conv_transpose2d(x, w, stride=2)
    return check({"conv_transpose2d": actual}, reference={"conv_transpose2d": expected}, k=54)


@case
def pooling(device):
    x = numbers(device, "float32", 2, 3, 12, 8)
    windows = exact(x).view(2, 3, 6, 2, 4, 2).permute(0, 1, 2, 4, 3, 5).flatten(4)
    check({"max": F.max_pool2d(x, 2)}, reference={"max": windows.amax(-1)}, rtol=0.0)
    return check({"avg": F.avg_pool2d(x, 2)}, reference={"avg": windows.sum(-1) / 4}, k=4)


@case
def interpolate(device):
    for dtype in ("float64", "float32"):
        x = numbers(device, dtype, 2, 3, 9, 7)
        actual = F.interpolate(x, size=(14, 5), mode="bilinear", align_corners=False)
        check({dtype: actual}, reference={dtype: by_hand.bilinear(exact(x), 14, 5)}, k=64)


# --- reductions and order ---------------------------------------------------------------------------------------------


@case(dtype=["float64", "float32", "bfloat16"])
def reductions(device, dtype):
    table = numbers(device, dtype, 61, 84)
    for layout, x in {"contiguous": table, "sliced": table[::2, 1::3]}.items():
        for dim, count in enumerate(x.shape):
            wide = exact(x)
            mean = wide.sum(dim, keepdim=True) / count
            actual = {
                "sum": x.sum(dim),
                "mean": x.mean(dim),
                "var": x.var(dim),
                "logsumexp": x.logsumexp(dim),
            }
            expected = {
                "sum": wide.sum(dim),
                "mean": mean.squeeze(dim),
                "var": (wide - mean).square().sum(dim) / (count - 1),
                "logsumexp": wide.exp().sum(dim).log(),
            }
            check({(layout, dim): actual}, reference={(layout, dim): expected}, k=count)
            check(
                {(layout, dim, "amax"): x.amax(dim)}, reference={(layout, dim, "amax"): wide.max(dim).values}, rtol=0.0
            )


@case
def cumulative_sum(device):
    for dtype in ("float64", "float32", "int32"):
        x = numbers(device, dtype, 6, 45)
        columns, total = [], torch.zeros_like(exact(x[:, 0]))
        for column in exact(x).unbind(1):
            total = total + column
            columns.append(total)
        check({dtype: x.cumsum(1)}, reference={dtype: torch.stack(columns, 1)}, k=45)


@case
def sort_and_argmax(device):
    for dtype in ("float32", "int64"):
        x = numbers(device, dtype, 8, 50)
        plain = exact(x).tolist()
        ordered = torch.tensor([sorted(row) for row in plain], dtype=x.dtype)
        first = torch.tensor([row.index(max(row)) for row in plain])
        values, places = x.sort(dim=1, stable=True)
        actual = {"sort": values, "places": x.gather(1, places), "topk": x.topk(7, dim=1).values, "argmax": x.argmax(1)}
        expected = {"sort": ordered, "places": ordered, "topk": ordered.flip(1)[:, :7], "argmax": first}
        check({dtype: actual}, reference={dtype: expected}, k=1)


# --- indexing and strides ---------------------------------------------------------------------------------------------


@case
def gather_and_scatter(device):
    for dtype in ("float32", "int64"):
        x, places = numbers(device, dtype, 12, 9), integers((12, 9), seed=1, high=9)
        plain = exact(x)
        picked, summed = torch.zeros_like(plain), torch.zeros_like(plain)
        for row, columns in enumerate(places.tolist()):
            for column, place in enumerate(columns):
                picked[row, column] = plain[row, place]
                summed[row, place] += plain[row, column]
        actual = {"gather": x.gather(1, places.to(device))}
        actual["scatter_add"] = torch.zeros_like(x).scatter_add(1, places.to(device), x)
        check({dtype: actual}, reference={dtype: {"gather": picked, "scatter_add": summed}}, k=9)


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


@case
def strided_views(device):
    for dtype in ("float32", "bfloat16", "int16", "complex64"):
        x = numbers(device, dtype, 6, 10, 4)
        plain = exact(x)
        turned = x.transpose(0, 1)[::3, 1::2].flip(2) + 0
        expected = plain.permute(1, 0, 2)[[0, 3, 6, 9]][:, [1, 3, 5]][:, :, [3, 2, 1, 0]]
        x.permute(2, 0, 1)[1, :, ::2].mul_(2)
        plain[:, ::2, 1] *= 2
        actual = {"read": turned, "written": x.reshape(-1)}
        check({dtype: actual}, reference={dtype: {"read": expected, "written": plain.reshape(-1)}}, k=1)


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
    table, words = (
        numbers(device, "float32", 13, 6).requires_grad_(),
        integers((4, 5), seed=1, high=13),
    )
    looked_up = F.embedding(words.to(device), table)
    check(
        looked_up.detach(),
        reference=torch.stack([exact(table)[word] for word in words.flatten()]).view(4, 5, 6).float(),
    )
    (looked_up * looked_up).sum().backward()
    counts = torch.tensor([(words == word).sum().item() for word in range(13)])
    return check(table.grad, reference=2 * exact(table) * counts.view(-1, 1), k=20)


# --- linear algebra and transforms ------------------------------------------------------------------------------------


@case
def linear_algebra(device):
    for dtype in ("float64", "float32"):
        a = numbers(device, dtype, 24, 24) + 6 * torch.eye(24, device=device, dtype=getattr(torch, dtype))
        b = numbers(device, dtype, 24, 3, salt=1)
        eps = torch.finfo(a.dtype).eps
        q, r = (exact(part) for part in torch.linalg.qr(a))
        values = exact(torch.linalg.svdvals(a))
        # What a solution must satisfy, rather than another algorithm's solution.
        actual = {
            "a x": by_hand.matmul(exact(a), exact(torch.linalg.solve(a, b))),
            "q r": by_hand.matmul(q, r),
            "q' q": by_hand.matmul(q.t(), q),
            "squares of the singular values": values.square().sum() / 24,
            "their logarithms": values.log().sum() / 24,
        }
        expected = {
            "a x": exact(b),
            "q r": exact(a),
            "q' q": torch.eye(24, dtype=torch.float64),
            "squares of the singular values": exact(a).square().sum() / 24,
            "their logarithms": exact(torch.linalg.slogdet(a).logabsdet) / 24,
        }
        check({dtype: actual}, reference={dtype: expected}, rtol=0.0, atol=400 * eps)


@case
def fourier(device):
    for dtype in ("float64", "float32", "complex64"):
        for length in (32, 45):
            x = numbers(device, dtype, 3, length)
            actual = {"fft": torch.fft.fft(x), "there and back": torch.fft.ifft(torch.fft.fft(x))}
            expected = {"fft": by_hand.discrete_fourier(exact(x)), "there and back": exact(x).to(torch.complex128)}
            check({(dtype, length): actual}, reference={(dtype, length): expected}, k=length)


# --- training ---------------------------------------------------------------------------------------------------------


def network(x, w1, b1, w2):
    return torch.tanh(x @ w1 + b1) @ w2


@case
def gradients(device):
    for dtype in ("float64", "float32"):
        parts = parameters(device, dtype)
        network(**parts).sum().backward()
        check({dtype: {name: part.grad for name, part in parts.items()}}, reference={dtype: slopes(**parts)}, k=64)


def parameters(device, dtype):
    shapes = {"x": (11, 9), "w1": (9, 7), "b1": (7,), "w2": (7, 2)}
    return {
        name: numbers(device, dtype, *shape, salt=salt).requires_grad_()
        for salt, (name, shape) in enumerate(shapes.items())
    }


def slopes(x, w1, b1, w2):
    """Of the sum of the network's outputs, by the chain rule."""
    hidden = (by_hand.matmul(exact(x), exact(w1)) + exact(b1)).tanh()
    inner = exact(w2).sum(1) * (1 - hidden.square())
    return {
        "x": by_hand.matmul(inner, exact(w1).t()),
        "w1": by_hand.matmul(exact(x).t(), inner),
        "b1": inner.sum(0),
        "w2": hidden.sum(0).view(-1, 1).expand(7, 2),
    }


@case
def optimizer_steps(device):
    weights = {name: numbers(device, "float32", 20).requires_grad_() for name in ("SGD", "AdamW")}
    sgd = torch.optim.SGD([weights["SGD"]], lr=0.1, momentum=0.9)
    adamw = torch.optim.AdamW([weights["AdamW"]], lr=0.1, weight_decay=0.01)
    by_sgd = by_adamw = exact(weights["SGD"])
    velocity = momentum = square = torch.zeros(20, dtype=torch.float64)
    for step in range(1, 4):
        slope = numbers(device, "float32", 20, salt=step)
        for weight in weights.values():
            weight.grad = slope.clone()
        sgd.step()
        adamw.step()
        velocity = 0.9 * velocity + exact(slope)
        by_sgd = by_sgd - 0.1 * velocity
        momentum = 0.9 * momentum + 0.1 * exact(slope)
        square = 0.999 * square + 0.001 * exact(slope).square()
        ratio = momentum / (1 - 0.9**step) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
        by_adamw = by_adamw * (1 - 0.1 * 0.01) - 0.1 * ratio
    actual = {name: weight.detach() for name, weight in weights.items()}
    return check(actual, reference={"SGD": by_sgd, "AdamW": by_adamw}, k=64)


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
    parts = parameters(device, "float32")
    torch.compile(network)(**parts).sum().backward()
    return check({name: part.grad for name, part in parts.items()}, reference=slopes(**parts), k=64)


# --- known bugs: these came or went between releases ------------------------------------------------------------------

NAN = float("nan")


@case(tokens=[4, 32], issue="https://github.com/pytorch/pytorch/issues/141128")
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
    """The quotient does not fit into int64. Any value or exception will do; the processor's trap kills the process."""
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


@case(memory="1 GiB", issue="https://github.com/pytorch/pytorch/issues/64947")
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

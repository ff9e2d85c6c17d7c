"""Rules of ``LayerCast``, run with a real torch, against a float32 model with the same rounded weights."""

import copy
import functools
import gc
import io
import pickle
import threading
import weakref

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from bisect_torch.numerics import LayerCast, LayerCastError, integers, normal

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

    def __init__(self, width=32, layers=2, vocabulary=50):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(64, width))
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


def rule_outputs_are_bit_identical_to_float32_with_the_same_rounded_weights():
    for name, (make, inputs) in TABLE.items():
        model = filled(make())
        for dtype in SIXTEEN:
            expected, cast = reference(model, dtype), LayerCast(model, dtype=dtype)
            for batch in (1, 8, 32):
                for graded in (False, True):
                    with torch.set_grad_enabled(graded):
                        x = inputs(batch)
                        try:
                            same(cast(x), expected(x))
                        except Exception as error:
                            raise AssertionError((name, dtype, batch, graded)) from error
            assert {parameter.dtype for parameter in cast.parameters()} == {dtype}, name
            parameters = sum(p.numel() * p.element_size() for p in expected.parameters())
            assert sum(p.numel() * p.element_size() for p in cast.parameters()) == parameters / 2, name


class Watching(TorchDispatchMode):
    """Notes which operators are given 16-bit numbers, and the memory of every cast."""

    def __init__(self):
        super().__init__()
        self.operators, self.casts = set(), []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if any(tensor.dtype in SIXTEEN for tensor in flat(list(args) + list((kwargs or {}).values()))):
            self.operators.add(str(operator))
        result = operator(*args, **(kwargs or {}))
        if str(operator) == "aten._to_copy.default":
            self.casts.append(StorageWeakRef(result.untyped_storage()))
        return result


def rule_nothing_is_computed_in_16_bits_and_no_cast_is_kept():
    for name, (make, inputs) in TABLE.items():
        cast = LayerCast(filled(make()))
        with torch.no_grad(), Watching() as noted:
            cast(inputs(2))
        harmless = {"aten._to_copy.default", "aten.embedding.default", "aten.detach.default"}
        assert noted.operators <= harmless, (name, noted.operators)
        assert noted.casts, name
        assert all(memory.expired() for memory in noted.casts), name


def rule_the_comparison_can_fail():
    model = filled(Decoder())
    with torch.no_grad():
        exact = reference(model, torch.bfloat16)(ids(8))[0]
        assert not torch.equal(exact, model(ids(8))[0])
        assert not torch.equal(exact, copy.deepcopy(model).bfloat16()(ids(8))[0].float())


def rule_greedy_decoding_with_a_cache_is_that_of_float32():
    model = filled(Decoder(), seed=3)
    for dtype in SIXTEEN:
        expected, cast = reference(model, dtype), LayerCast(model, dtype=dtype)
        assert kept_bytes(cast) <= 0.55 * kept_bytes(expected)
        for batch in (1, 8, 32):
            with torch.inference_mode():
                same(cast.generate(ids(batch), 12), expected.generate(ids(batch), 12))


def random_model(seed):
    """A chain of layers, some called twice, some shared; the input has 16 channels."""
    draw = iter(integers(64, seed=seed, low=0, high=1 << 16).tolist())
    layers, width = [], 16
    for _ in range(2 + next(draw) % 5):
        kind = next(draw) % 7
        if kind == 0:
            wider = 8 * (1 + next(draw) % 6)
            layers.append(nn.Linear(width, wider, bias=bool(next(draw) % 2)))
            width = wider
        elif kind == 1:
            layers.append(nn.LayerNorm(width, elementwise_affine=bool(next(draw) % 2)))
        elif kind == 2:
            layers.append(HandWrittenRMSNorm(width))
        elif kind == 3:
            layers.append(
                nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, norm_first=bool(next(draw) % 2))
            )
        elif kind == 4:
            layers.append(SelfAttentionOnly(width))
        elif kind == 5:
            layers += [nn.GELU(), nn.PReLU()]
        elif layers and not isinstance(layers[-1], nn.Linear):
            layers.append(layers[-1])
    return nn.Sequential(*layers, nn.Linear(width, 4))


class SelfAttentionOnly(SelfAttention):
    def __init__(self, width):
        nn.Module.__init__(self)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True, bias=width % 16 == 0)

    def forward(self, x):
        return super().forward(x)[0]


def rule_random_architectures_are_bit_identical():
    for seed in range(60):
        model, dtype = filled(random_model(seed), seed), SIXTEEN[seed % 2]
        expected, cast = reference(model, dtype), LayerCast(model, dtype=dtype)
        for batch in (1, 8, 32):
            with torch.no_grad():
                same(cast(normal((batch, 5, 16), seed=seed)), expected(normal((batch, 5, 16), seed=seed)))
        assert kept_bytes(cast) <= 0.55 * kept_bytes(expected), seed


def rule_the_given_model_stays_as_it_is_unless_converted_in_place():
    model = filled(Decoder())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    types = [type(module) for module in model.modules()]
    cast = LayerCast(model)
    assert types == [type(module) for module in model.modules()]
    assert all(p.dtype == torch.float32 and p.requires_grad for p in model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    large = with_parameter(torch.tensor([1.0, 3.4e38]))
    raises(LayerCastError, "too large", lambda: LayerCast(large, in_place=True))
    assert {p.dtype for p in large.parameters()} == {torch.float32}
    with torch.no_grad():
        expected = cast(ids(2))
        there = LayerCast(model, in_place=True)
        same(there(ids(2)), expected)
    assert there.module is model
    assert model.head._parameters["weight"] is model.tokens._parameters["weight"]
    assert kept_bytes(there) == kept_bytes(cast)


def rule_no_float32_tensor_remains_after_a_call():
    made = {name: (LayerCast(filled(make())), inputs(2)) for name, (make, inputs) in TABLE.items()}
    gc.collect()
    gc.freeze()
    with torch.no_grad():
        for name, (cast, x) in made.items():
            cast(x)
            assert live_tensors() == [], name
            kept = cast(x)
            assert live_tensors() != [], "the search finds nothing"
            del kept
    gc.unfreeze()


def rule_a_copy_lives_no_longer_than_its_operation():
    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):
            weight = self.first.weight
            seen.append(weakref.ref(weight))
            x = functional.linear(x, weight)
            del weight
            alive.append(seen[-1]() is not None)
            return self.second(x)

    seen, alive = [], []
    LayerCast(Watched())(torch.ones(2, 16))
    assert alive == [False]


def rule_an_exception_inside_leaves_16_bits_and_no_copies():
    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(16, 16), nn.Linear(8, 8)

        def forward(self, x):
            return self.second(self.first(x))

    model = Failing()
    cast, expected, x = LayerCast(model), reference(model, torch.bfloat16), torch.ones(2, 16)
    with torch.no_grad():
        with Watching() as noted:
            for _ in range(3):
                raises(RuntimeError, "shapes cannot be multiplied", lambda: cast(x))
        assert noted.casts
        assert all(memory.expired() for memory in noted.casts)
        assert {p.dtype for p in cast.parameters()} == {torch.bfloat16}
        same(cast.module.first(x), expected.first(x))


def rule_calls_nest_and_come_from_several_threads():
    model = filled(Decoder())
    cast, wrong = LayerCast(model), []
    with torch.no_grad():
        expected = [reference(model, torch.bfloat16)(ids(batch)) for batch in (1, 2, 3, 4)]

    def call(number):
        with torch.no_grad():
            for _ in range(20):
                if not all(torch.equal(a, b) for a, b in zip(flat(cast(ids(number + 1))), flat(expected[number]))):  # noqa: B905
                    wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []

    def nested(module, args, output):
        inner.append(cast.module.blocks[1].feed(output[0]))

    inner = []
    handle = cast.module.blocks[0].register_forward_hook(nested)
    with torch.no_grad():
        same(cast(ids(1)), expected[0])
    handle.remove()
    assert inner[0].dtype == torch.float32


def rule_inputs_in_16_bits_are_cast_wherever_they_are():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(16)

        def forward(self, pair, *, named):
            return self.norm(pair[0]), self.norm(pair[1][0]), self.norm(named["x"])

    model, x = filled(Nested()), normal((2, 16), seed=4, dtype=torch.bfloat16)
    with torch.no_grad():
        actual = LayerCast(model)((x, [x.half()]), named={"x": x})
        same(actual, reference(model, torch.bfloat16)((x.float(), [x.half().float()]), named={"x": x.float()}))


def rule_gradients_of_inputs_are_those_of_the_frozen_float32_model():
    model = filled(nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)))
    gradients = []
    for module in (LayerCast(model), reference(model, torch.bfloat16)):
        x = normal((5, 16), seed=5).requires_grad_()
        module(x).square().sum().backward()
        gradients.append(x.grad)
    same(*gradients)


def rule_training_is_refused_and_buffers_stay_in_float32():
    cast = LayerCast(filled(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))).double().train())
    assert not any(module.training for module in cast.modules())
    assert {b.dtype for b in cast.buffers() if b.is_floating_point()} == {torch.float32}
    cast.eval()
    for call in (cast.train, cast.module.train, cast.requires_grad_):
        raises(LayerCastError, "for inference", call)
    assert not any(p.requires_grad for p in cast.parameters())
    assert not any(module.training for module in cast.modules())


def rule_a_state_goes_round():
    model, other = filled(Decoder(), 1), filled(Decoder(), 2)
    expected, cast = reference(model, torch.bfloat16), LayerCast(other)
    assert list(cast.state_dict()) == list(model.state_dict())
    assert [name for name, _ in cast.named_parameters()] == [name for name, _ in model.named_parameters()]
    for assign in (False, True):
        for state in (model.state_dict(), LayerCast(model).state_dict()):
            target = copy.deepcopy(cast)
            target.load_state_dict(state, assign=assign)
            assert {p.dtype for p in target.parameters()} == {torch.bfloat16}
            with torch.no_grad():
                same(target(ids(3)), expected(ids(3)))
    fresh = Decoder().eval()
    fresh.load_state_dict(LayerCast(model).state_dict())
    with torch.no_grad():
        same(fresh(ids(3)), expected(ids(3)))
    large = {**model.state_dict(), "norm.weight": torch.full((32,), 1e9)}
    raises(
        LayerCastError,
        "norm.weight: 32 of 32 values",
        lambda: LayerCast(model, dtype=torch.float16).load_state_dict(large),
    )
    raises(RuntimeError, "Missing key", lambda: cast.load_state_dict({}))


def rule_copies_and_pickles_are_the_same_model():
    for name in ("encoder", "lstm", "embedding", "convolutional net", "weight norm by parametrization"):
        make, inputs = TABLE[name]
        cast = LayerCast(filled(make()))
        again = [copy.deepcopy(cast)]
        if name != "weight norm by parametrization":  # torch itself refuses to pickle it
            file = io.BytesIO()
            torch.save(cast, file)
            file.seek(0)
            again += [torch.load(file, weights_only=False), pickle.loads(pickle.dumps(cast))]
        with torch.no_grad():
            for other in again:
                same(other(inputs(3)), cast(inputs(3)))
                assert {p.dtype for p in other.parameters()} == {torch.bfloat16}, name
                assert other.module is not cast.module
                assert not {p.data_ptr() for p in other.parameters()} & {p.data_ptr() for p in cast.parameters()}


def rule_it_moves_between_devices_but_not_between_types():
    for dtype in SIXTEEN:
        cast = LayerCast(filled(Decoder()), dtype=dtype)
        same(cast.to("cpu").cpu()(ids(2)), cast(ids(2)))
        moved = copy.deepcopy(cast).to("meta")
        assert {(p.dtype, p.device.type) for p in moved.parameters()} == {(dtype, "meta")}
        assert moved(ids(2).to("meta"))[0].shape == (2, 6, 50)
        to_own_type = functools.partial(cast.to, dtype)
        for change in (cast.float, cast.half, cast.bfloat16, cast.double, cast.module.float, to_own_type):
            raises(LayerCastError, "moves it between devices only", change)
        assert {p.dtype for p in cast.parameters()} == {dtype}


def rule_the_rest_of_the_model_can_be_reached():
    model = filled(Decoder())
    model.note = "kept"
    cast = LayerCast(model)
    assert cast.note == "kept"
    assert cast.head.weight.dtype == torch.float32
    assert cast.dtype == torch.bfloat16
    raises(AttributeError, "nothing_here", lambda: cast.nothing_here)
    raises(AttributeError, "module", lambda: LayerCast.__new__(LayerCast).module)
    assert "LayerCast(\n  dtype=torch.bfloat16" in repr(cast)


def rule_a_compiled_layercast_gives_the_same():
    for name in ("decoder", "tied", "raw parameters", "conv2d"):
        make, inputs = TABLE[name]
        model = filled(make())
        expected = reference(model, torch.bfloat16)
        for backend in ("eager", "aot_eager") if name == "decoder" else ("eager",):
            torch._dynamo.reset()
            compiled = torch.compile(LayerCast(model), backend=backend)
            with torch.no_grad():
                same(compiled(inputs(8)), expected(inputs(8)))


def quantised():
    return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear}, dtype=torch.qint8)


def with_parameter(value, requires_grad=True):
    model = nn.Sequential(nn.Linear(4, 4))
    model[0].register_parameter("odd", nn.Parameter(value, requires_grad=requires_grad))
    return model


def with_buffer(value):
    model = nn.Sequential(nn.Linear(4, 4))
    model[0].register_buffer("odd", value)
    return model


def with_list():
    model = nn.Sequential(nn.Linear(4, 4))
    model[0].shortcut = {"weights": [model[0].weight]}
    return model


def not_copyable():
    model = nn.Linear(4, 4)
    model.derived = model.weight * 2
    return model


def compiled_inside():
    model = nn.Sequential(nn.Linear(4, 4))
    model[0].compile(backend="eager")
    return model


SPARSE = torch.eye(4).to_sparse()
REFUSED = {
    "0 (Linear) is quantised": quantised,
    "is scripted or traced": lambda: torch.jit.script(nn.Linear(4, 4)),
    "is a traced graph": lambda: torch.fx.symbolic_trace(nn.Linear(4, 4)),
    "compile the LayerCast instead": lambda: torch.compile(nn.Linear(4, 4), backend="eager"),
    "0 (Linear) is compiled already": compiled_inside,
    "(DataParallel) spreads over devices": lambda: nn.DataParallel(nn.Linear(4, 4)),
    "the model (LayerCast) is converted already": lambda: LayerCast(nn.Linear(4, 4)),
    "the model (Linear) is converted already": lambda: LayerCast(nn.Linear(4, 4)).module,
    "max_norm": lambda: nn.Embedding(4, 4, max_norm=1.0),
    "(EmbeddingBag) has max_norm": lambda: nn.EmbeddingBag(4, 4, max_norm=1.0),
    "parameter odd of 0 (Linear) is of type torch.complex64": lambda: with_parameter(
        torch.ones(2, dtype=torch.complex64)
    ),
    "is of type torch.uint8": lambda: with_parameter(torch.ones(2, dtype=torch.uint8), False),
    "is of type torch.float8_e4m3fn": lambda: with_parameter(torch.ones(2).to(torch.float8_e4m3fn), False),
    "give dtype=torch.float16": lambda: with_parameter(torch.ones(2).half()),
    "parameter odd of 0 (Linear) has the layout torch.sparse_coo": lambda: with_parameter(SPARSE),
    "buffer odd of 0 (Linear) has the layout torch.sparse_coo": lambda: with_buffer(SPARSE),
    "buffer odd of 0 (Linear) is quantised": lambda: with_buffer(
        torch.quantize_per_tensor(torch.ones(2), 1, 0, torch.qint8)
    ),
    "has no shape yet": lambda: nn.LazyLinear(4),
    "not a plain tensor": lambda: with_buffer(torch.ones(2).as_subclass(Strange)),
    "in its attribute shortcut": with_list,
    "in_place=True": not_copyable,
    "0.odd: 1 of 2 values are too large for torch.bfloat16": lambda: with_parameter(torch.tensor([1.0, 3.4e38])),
}


class Strange(torch.Tensor):
    pass


def rule_what_cannot_be_cast_is_refused_and_unchanged():
    for words, make in REFUSED.items():
        model = make()
        before = [
            (type(module), [str(p.dtype) for p in module._parameters.values() if p is not None])
            for module in model.modules()
        ]
        raises(LayerCastError, words, lambda: LayerCast(model))  # noqa: B023
        after = [
            (type(module), [str(p.dtype) for p in module._parameters.values() if p is not None])
            for module in model.modules()
        ]
        assert before == after, words
    raises(ValueError, "not in torch.float32", lambda: LayerCast(nn.Linear(4, 4), dtype=torch.float32))
    raises(TypeError, "torch.nn.Module, not list", lambda: LayerCast([1]))
    raises(
        LayerCastError, "give dtype=torch.bfloat16", lambda: LayerCast(nn.Linear(4, 4).bfloat16(), dtype=torch.float16)
    )


def rule_models_that_are_in_16_bits_already_keep_their_bits():
    model = filled(Decoder()).half()
    with torch.no_grad():
        same(LayerCast(model, dtype=torch.float16)(ids(3)), copy.deepcopy(model).float()(ids(3)))


def rule_autocast_is_refused():
    cast = LayerCast(nn.Linear(4, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        raises(LayerCastError, "autocast", lambda: cast(torch.ones(2, 4)))
    assert cast(torch.ones(2, 4)).dtype == torch.float32

"""Rules of ``LayerCast``, run with a real torch: bit for bit a float32 model with the same rounded weights."""

import copy
import gc
import inspect
import threading
import weakref

import torch
from casting_models import (
    SIXTEEN,
    TABLE,
    Decoder,
    HandWrittenRMSNorm,
    SelfAttention,
    filled,
    flat,
    ids,
    kept_bytes,
    live_tensors,
    raises,
    reference,
    same,
)
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

from bisect_torch.numerics import LayerCast, integers, normal


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


FAST_PATHS = ("aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention")


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


def rule_fast_paths_are_taken_where_float32_takes_them():
    for name in ("encoder layer", "encoder layer, norm first", "encoder", "attention"):
        make, inputs = TABLE[name]
        model, ran = filled(make()), []
        for module in (LayerCast(model), reference(model, torch.bfloat16)):
            with torch.no_grad(), profile() as profiled:
                module(inputs(8))
            ran.append({event.key for event in profiled.key_averages() if event.key in FAST_PATHS})
        assert ran[0] == ran[1] != set(), (name, ran)


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
        assert "named" in inspect.signature(LayerCast(model).module.forward).parameters
        same(actual, reference(model, torch.bfloat16)((x.float(), [x.half().float()]), named={"x": x.float()}))


def rule_gradients_of_inputs_are_those_of_the_frozen_float32_model():
    model = filled(nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)))
    gradients = []
    for module in (LayerCast(model), reference(model, torch.bfloat16)):
        x = normal((5, 16), seed=5).requires_grad_()
        module(x).square().sum().backward()
        gradients.append(x.grad)
    same(*gradients)

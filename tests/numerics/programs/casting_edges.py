"""Rules of ``LayerCast``, run with a real torch: states, copies, devices, compilers, and what it refuses."""

import copy
import functools
import io
import pickle

import torch
from casting_models import SIXTEEN, TABLE, Decoder, filled, ids, raises, reference, same
from torch import nn

from bisect_torch.numerics import LayerCast, LayerCastError


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
    large = with_parameter(torch.tensor([1.0, 3.4e38]))
    raises(LayerCastError, "too large", lambda: LayerCast(large, in_place=True))
    assert {p.dtype for p in large.parameters()} == {torch.float32}
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

"""Rules of ``bisect_torch.numerics.large_index``, run with a real torch, against loops over lists of Python numbers."""

import itertools
import json

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bisect_torch import check
from bisect_torch.numerics import digest
from bisect_torch.numerics import large_index as large
from bisect_torch.numerics.large_index import judged
from bisect_torch.numerics.large_index.geometry import PLACEMENTS
from bisect_torch.numerics.misuse import MisusedCheckError
from bisect_torch.worker import recording

SHAPES = ("4x2x4", "3x2x5", "2x4x3", "6x1x3")


def operand_lists(sizes, layout):
    seeds = {"a": 11, "b": 12}  # those of the cases
    pair = [large.source(one, seed=seeds[one.name], amplitude=2) for one in large.operands(sizes, layout)]
    return pair, [large.buffer(one, torch.float32, "cpu").tolist() for one in pair]


def loops(pair, memory, read=("right", "right"), border=0):
    """The product element by element; each operand read as it is, packed, or with its index wrapped."""
    (x, y), (batch, rows, inner) = (one.operand for one in pair), pair[0].operand.shape
    columns = y.shape[2]

    def value(operand, numbers, how, i, r, c):
        index = i * operand.strides[0] + r * operand.strides[1] + c * operand.strides[2]
        if how == "packed":
            index = (i * operand.shape[1] + r) * operand.shape[2] + c
        return numbers[index % border if how == "wraps" else index]

    return [
        sum(value(x, memory[0], read[0], i, r, k) * value(y, memory[1], read[1], i, k, c) for k in range(inner))
        for i, r, c in itertools.product(range(batch), range(rows), range(columns))
    ]


def wrapped_writes(right, border):
    found = [0.0] * len(right)
    for index, value in enumerate(right):
        found[index % border] = value
    return found


def by_hand(pair, memory, name, bits):
    """What a fault gives, from its name."""
    right = loops(pair, memory)
    if name == "result is zero":
        return [0.0] * len(right)
    if name.startswith("tail not written"):
        border = 2 ** (bits - 1 if name.endswith(f"beyond 2**{bits - 1}") else bits)
        return right[:border] + [0.0] * (len(right) - border)
    if name.startswith("flat index of output"):
        return wrapped_writes(right, 2 ** int(name.rpartition("**")[2]))
    read, border = ["right", "right"], 0
    for part in name.split(" and "):
        side = "ab".index(part.split(" of ")[1][0])
        read[side] = "packed" if part.startswith("strides") else "wraps"
        border = 2 ** int(part.rpartition("**")[2]) if "**" in part else 0
    return loops(pair, memory, read, border)


def small_problems(bits, shapes):
    """Layout, shape and batch such that the border lies in the output, in ``a`` or in ``b``; and few large batches."""
    for layout, shape in itertools.product(large.LAYOUTS, shapes):
        sizes = large.parse_shape(shape, 1)
        for width in {sizes.output, sizes.rows * sizes.inner, sizes.inner * sizes.columns}:
            yield layout, shape, 2**bits // width + 2
    yield "contiguous", "20x2x15", 1
    yield "a transposed", "9x2x15", 3


def rule_views_have_the_strides_that_the_geometry_says():
    for placement, shape in itertools.product(PLACEMENTS, ((3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (5, 16, 8))):
        operand = large.place("a", shape, placement)
        known = large.source(operand, seed=1, amplitude=2)
        flat = large.buffer(known, torch.float16, "cpu")
        seen = large.view(flat, operand, placement)
        assert tuple(seen.shape) == shape
        assert seen.is_contiguous() == operand.contiguous
        expected = torch.as_strided(flat, shape, operand.strides)
        assert torch.equal(seen, expected), (placement, shape)
        assert seen.transpose(1, 2).is_contiguous() == operand.flipped().contiguous


def rule_every_model_is_what_loops_over_the_buffers_give():
    tried = set()
    for bits in (6, 7):
        for layout, shape, batch in small_problems(bits, SHAPES):
            sizes = large.parse_shape(shape, batch)
            pair, memory = operand_lists(sizes, layout)
            product = large.Product(*pair)
            count = product.rows
            assert product.values(slice(0, count)).reshape(-1).tolist() == loops(pair, memory)
            for name, model in large.fault_models(product, bits).items():
                expected = torch.tensor(by_hand(pair, memory, name, bits)).view(-1, sizes.columns)
                for first, end in ((0, count), (1, 2), (count // 2, count), (count - 1, count)):
                    found = model(slice(first, end))
                    assert found.dtype == torch.float64
                    assert torch.equal(found.float(), expected[first:end]), (name, layout, shape, batch)
                tried.add(name.replace(f"2**{bits}", "border").replace(f"2**{bits - 1}", "half"))
    assert len(tried) == 3 + 2 * 3 + 2 + 2 + 1, sorted(tried)


def judge(*arguments, everything=False, body=large.bmm_forward, **options):
    recording.forget_records()
    recording.set_thorough(everything)
    result = body("cpu", *arguments, **options)
    recording.set_thorough(False)
    return result, json.loads(recording.recorded())


def rule_each_fault_is_named_and_no_other_that_gives_other_values():
    bits = 6
    for layout, shape, batch in small_problems(bits, ("3x2x5",)):
        sizes = large.parse_shape(shape, batch)
        pair, memory = operand_lists(sizes, layout)
        right = loops(pair, memory)
        values = {name: by_hand(pair, memory, name, bits) for name in large.fault_models(large.Product(*pair), bits)}
        for name, wrong in values.items():
            made = torch.tensor(wrong, dtype=torch.bfloat16).view(batch, sizes.rows, sizes.columns)
            arguments = ("bfloat16", layout, shape, batch, bits)
            sampled, _ = judge(*arguments, call=lambda a, b, made=made: made)
            result, recorded = judge(*arguments, call=lambda a, b, made=made: made, everything=True)
            assert bool(result) == (wrong == right), (name, arguments)
            if wrong == right:
                assert sampled, (name, arguments)
                continue
            assert name in sampled.facts["explained_by"].split(" or "), (name, arguments)
            named = [other for other, value in values.items() if value == wrong]
            assert result.facts["explained_by"] == " or ".join(named), (name, arguments)
            place = [one == two for one, two in zip(wrong, right)].index(False)  # noqa: B905 - Python 3.8
            assert recorded["first_wrong_flat_index"] == place
            assert recorded["first_wrong_batch"] == place // (sizes.rows * sizes.columns)


def rule_a_right_product_is_ok_forward_and_backward_on_every_layout():
    for dtype, layout, shape in itertools.product(("bfloat16", "float16", "float32"), large.LAYOUTS, SHAPES):
        result, recorded = judge(dtype, layout, shape, 40, 8, predict=True)
        assert result, (dtype, layout, shape)
        assert recorded["inputs_as_made"]
        assert recorded["predicted_verdict"] in ("ok", "wrong", "error")
        for grad in "ab":
            result, recorded = judge(dtype, layout, shape, 40, grad, 8, body=large.bmm_backward)
            assert result, (dtype, layout, shape, grad)
            assert recorded["forward_right"]
            assert recorded["upstream_as_made"]
            assert "predicted_verdict" not in recorded


def rule_a_prediction_is_kept_where_the_operator_raises():
    def refuse(a, b):
        raise RuntimeError("too large")

    for batch, expected in ((31, "ok"), (32, "error")):  # of 4 elements of the view each, and 2**7 is the border
        recording.forget_records()
        try:
            large.bmm_forward("cpu", "float32", "a transposed", "2x2x2", batch, 8, call=refuse, predict=True)
        except RuntimeError:
            assert json.loads(recording.recorded())["predicted_verdict"] == expected


class _Faulty(torch.autograd.Function):
    """The gradient that MPS gives: the upstream gradient is read from its start again beyond 2**10 elements."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.bmm(a, b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        wrapped = grad.reshape(-1)[torch.arange(grad.numel()) % 2**10].view_as(grad)
        return wrapped @ b.transpose(1, 2), a.transpose(1, 2) @ wrapped


def rule_a_gradient_whose_upstream_index_wraps_is_recognised_from_its_first_batch():
    for grad, everything in itertools.product("ab", (False, True)):
        arguments = ("float16", "contiguous", "8x2x8", 20, grad, 10)
        result, recorded = judge(
            *arguments, body=large.bmm_backward, call=_Faulty.apply, everything=everything, predict=True
        )
        assert not result
        assert recorded["forward_right"]
        assert result.facts["explained_by"] == "flat index of upstream gradient wraps at 2**10"
        assert recorded["predicted_model"] == result.facts["explained_by"]
        assert recorded["predicted_verdict"] == "wrong"
        assert recorded["first_wrong_batch"] == 16  # of 64 elements of the upstream gradient each
        assert recorded["coverage"] == (1.0 if everything else recorded["digest_coverage"])


def rule_a_wrong_forward_pass_is_recorded_beside_a_right_gradient():
    class Wrong(_Faulty):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return torch.bmm(a, b) * 0

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad @ b.transpose(1, 2), a.transpose(1, 2) @ grad

    result, recorded = judge("float32", "contiguous", "4x2x4", 40, "a", 8, body=large.bmm_backward, call=Wrong.apply)
    assert result
    assert recorded["forward_right"] is False


def rule_the_first_wrong_batch_is_narrowed_down_between_those_that_were_compared():
    for first in (1, 777, 1024, 2049, 4999):

        def broken(a, b, first=first):
            found = torch.bmm(a, b)
            found[first:, 1, 2] += 1
            return found

        result, recorded = judge("float32", "contiguous", "4x2x4", 5000, 16, call=broken)
        assert not result
        assert recorded["coverage"] < 0.01
        assert recorded["first_wrong_batch"] == first
        assert recorded["first_wrong_flat_index"] == first * 16 + 6
        assert result.facts["explained_by"] is None
        assert [0, 0] in recorded["compared"] or recorded["compared"][0][0] == 0


def rule_rows_are_chosen_where_one_batch_is_huge():
    def broken(a, b):
        found = torch.bmm(a, b)
        found.view(-1)[2**21 :] = 0
        return found

    for layout in ("contiguous", "both transposed", "strided"):
        result, recorded = judge("bfloat16", layout, "1100x2x1000", 2, 21)
        assert result
        assert recorded["compared"][0][0] == 0
        assert recorded["compared"][-1][1] == 1
        assert 0 < recorded["coverage"] < 0.05
        assert [2**21 // 1000 in range(first, last + 1) for first, last in recorded["compared_rows"]].count(True) == 1
        result, recorded = judge("bfloat16", layout, "1100x2x1000", 2, 21, call=broken)
        assert result.facts["explained_by"] == "tail not written"
        assert recorded["first_wrong_batch"] == 1
        assert 2**21 <= recorded["first_wrong_flat_index"] < 2**21 + 20  # right zeros there are not wrong


class _Largest(TorchDispatchMode):
    """Notes the largest tensor that an operator gives, views left out."""

    elements = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        storages = {one.untyped_storage().data_ptr() for one in args if isinstance(one, torch.Tensor)}
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in storages:
            self.elements = max(self.elements, result.numel())
        return result


def rule_a_comparison_holds_a_bounded_number_of_elements():
    for shape, batch in (("64x2x64", 1200), ("2200x2x2100", 1)):
        sizes = large.parse_shape(shape, batch)
        pair = [large.source(one, seed=1, amplitude=2) for one in large.operands(sizes, "both transposed")]
        wrong = torch.zeros((batch, sizes.rows, sizes.columns), dtype=torch.bfloat16)
        assert wrong.numel() > 4 * judged.HELD
        for everything in (False, True):
            recording.set_thorough(everything)
            with _Largest() as seen:
                assert large.check_product(wrong, large.Product(*pair), 22).facts["explained_by"] == "result is zero"
            recording.set_thorough(False)
            assert 0 < seen.elements <= judged.HELD + sizes.columns, (shape, everything, seen.elements)


def rule_a_buffer_that_does_not_hold_what_was_written_is_noticed():
    known = large.source(large.place("a", (40, 16, 16), "contiguous"), seed=1, amplitude=1)
    flat = large.buffer(known, torch.float16, "cpu")
    assert large.as_made(flat, known, 13)
    flat[8191] += 1
    assert not large.as_made(flat, known, 13)


def rule_inputs_repeat_after_their_period_hold_no_zero_and_are_the_same_everywhere():
    known = large.source(large.place("a", (1, 3, 2**20), "contiguous"), seed=3, amplitude=2)
    flat = large.buffer(known, torch.bfloat16, "cpu")
    period = known.sequence.numel()
    assert set(flat.tolist()) == {-2.0, -1.0, 1.0, 2.0}
    assert torch.equal(flat[period:], flat[:-period])
    assert torch.equal(flat.double(), known.read(torch.arange(flat.numel())))
    one = large.source(large.place("a", (1, 3, 5), "contiguous"), seed=3, amplitude=1)
    assert set(one.sequence.tolist()) == {-1, 1}
    return [digest.digest(flat), one.sequence.tolist()]


def rule_only_the_named_rows_are_compared_counted_and_digested():
    actual = torch.arange(40.0).view(20, 2)
    exact = actual.double()
    broken = actual.clone()
    broken[7] = 0

    def reference(part):
        return exact[part]

    result = check(broken, reference, rows=3, blocks=[(0, 4), (9, 9), (18, 19)])
    assert result
    assert result.facts["elements"] == 16
    assert result.facts["digest"] == check(actual, reference, rows=5, blocks=[(0, 4), (9, 9), (18, 19)]).facts["digest"]
    models = {"no": lambda part: exact[part], "zero": lambda part: exact[part] * 0, "lost": lambda part: broken[part]}
    found = check(broken, reference, rows=3, blocks=[(7, 7)], explain=models)
    assert found.facts["first_wrong_index"] == "[7, 0]"
    assert found.facts["wrong_elements"] == 2
    assert found.facts["explained_by"] == "zero or lost"
    assert check(broken, reference, rows=3, blocks=[(6, 7)], explain=models).facts["explained_by"] == "lost"
    try:
        check(broken, reference, blocks=[(0, 1)])
    except MisusedCheckError as problem:
        refused = str(problem)
    assert refused == "blocks= needs rows="

"""Sizes, layouts and indices alone, without torch: what is compared, where elements lie, what the rules predict."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.numerics.large_index import (
    LAYOUTS,
    Choice,
    Sizes,
    backward_memory,
    borders,
    choose,
    forward_memory,
    parse_shape,
    place,
    predict_backward,
    predict_forward,
)
from bisect_torch.numerics.large_index.geometry import PLACEMENTS, Operand
from bisect_torch.numerics.large_index.recipe import PERIOD, amplitudes

SHAPE = (256, 64, 256)


# --- what is compared -------------------------------------------------------------------------------------------------


@given(
    total=st.integers(1, 5000),
    widths=st.lists(st.integers(0, 70), min_size=1, max_size=4),
    bits=st.integers(4, 14),
    seed=st.integers(0, 3),
    also=st.lists(st.integers(-5, 6000), max_size=3),
)
def test_the_choice_has_the_ends_the_middle_and_both_sides_of_each_border(
    total: int, widths: list[int], bits: int, seed: int, also: list[int]
) -> None:
    choice = choose(total, widths, bits=bits, seed=seed, also=also, everything=False)
    units = choice.units()
    assert {0, total // 2, total - 1} <= set(units)
    assert {unit for unit in also if 0 <= unit < total} <= set(units)
    for width, border in product(widths, borders(bits)):
        if 0 < border < total * width:
            beyond = next(unit for unit in range(total) if (unit + 1) * width > border)
            assert {beyond, max(0, beyond - 1), min(total - 1, beyond + 1)} <= set(units)
    assert units == sorted(set(units))
    assert all(first <= last for first, last in choice.ranges)
    assert all(one[1] + 1 < other[0] for one, other in zip(choice.ranges, choice.ranges[1:], strict=False))
    assert choice.chosen == len(units)
    assert choice.coverage == len(units) / total


def test_a_choice_of_many_batches_is_small_has_a_sample_and_is_the_same_each_time() -> None:
    widths = (256 * 256, 256 * 64, 64 * 256)
    plain = choose(65538, widths, sample=0, everything=False)
    drawn = choose(65538, widths, everything=False)
    assert plain.chosen < drawn.chosen <= plain.chosen + 8 < 30
    assert drawn == choose(65538, widths, everything=False)
    assert drawn != choose(65538, widths, seed=1, everything=False)


def test_everything_and_nothing() -> None:
    assert choose(7, (1,), everything=True) == Choice(((0, 6),), 7)
    assert choose(7, (1,), everything=True).coverage == 1.0
    assert choose(0, (1,), everything=False) == Choice((), 0)
    assert choose(0, (1,), everything=True).coverage == 1.0


def test_borders() -> None:
    assert borders() == (2**31, 2**32)
    assert borders(8) == (128, 256)
    with pytest.raises(ValueError, match="at least 2 bits"):
        borders(1)


# --- where elements lie -----------------------------------------------------------------------------------------------


@given(shape=st.tuples(*[st.integers(1, 9)] * 3), placement=st.sampled_from(PLACEMENTS))
def test_every_element_has_a_place_of_its_own_in_the_buffer(shape: tuple[int, int, int], placement: str) -> None:
    operand = place("a", shape, placement)
    places = [at(operand, *index) for index in product(*map(range, shape))]
    assert min(places) == 0
    assert max(places) < operand.buffer
    assert len(set(places)) == len(places) // (shape[0] if placement == "expanded" else 1)
    assert operand.contiguous == (places == list(range(len(places))))
    flipped = operand.flipped()
    assert flipped.flipped() == operand
    assert all(at(flipped, i, c, r) == at(operand, i, r, c) for i, r, c in product(*map(range, shape)))
    if placement == "transposed" and not operand.contiguous:
        assert operand.transposed
        assert flipped.contiguous


def at(operand: Operand, *index: int) -> int:
    return sum(place * stride for place, stride in zip(index, operand.strides, strict=True))


def test_unknown_words_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown placement 'diagonal'; there are contiguous, transposed"):
        place("a", (1, 2, 3), "diagonal")
    with pytest.raises(ValueError, match="ROWSxINNERxCOLUMNS"):
        parse_shape("256x64", 1)
    with pytest.raises(ValueError, match="that of a or of b"):
        predict_backward(Sizes(1, 2, 3, 4), "contiguous", "output")


# --- what the rules predict -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "shape", "batch", "verdict", "model"),
    [
        # Up to exactly 2**32 elements all is right, and an output beyond is right too while no operand is a view.
        ("contiguous", "256x64x256", 65536, "ok", None),
        ("contiguous", "256x64x256", 65537, "ok", None),
        # Rule 1.
        ("a transposed", "256x64x256", 65536, "ok", None),
        ("a transposed", "256x64x256", 65537, "wrong", "strides of a ignored"),
        ("b transposed", "256x64x256", 65537, "wrong", "strides of b ignored"),
        ("both transposed", "256x64x256", 65537, "wrong", "strides of a ignored and strides of b ignored"),
        ("strided", "256x64x256", 65537, "ok", None),
        ("expanded", "256x64x256", 65537, "ok", None),
        # Rule 2; a larger problem turns the error into a silent failure.
        ("a transposed", "256x256x64", 32767, "ok", None),
        ("a transposed", "256x256x64", 32768, "error", None),
        ("a transposed", "256x256x64", 65537, "error", None),
        ("a transposed", "256x256x64", 262145, "wrong", "strides of a ignored"),
        ("expanded", "64x256x256", 32768, "error", None),
        ("strided", "256x256x64", 32768, "error", None),
        # Rule 3.
        ("contiguous", "256x256x64", 65536, "ok", None),
        ("contiguous", "256x256x64", 65537, "wrong", "flat index of a wraps at 2**32"),
        ("contiguous", "64x256x256", 65537, "wrong", "flat index of b wraps at 2**32"),
    ],
)
def test_the_papers_outcomes(layout: str, shape: str, batch: int, verdict: str, model: str | None) -> None:
    assert predict_forward(parse_shape(shape, batch), layout) == (verdict, model)


@pytest.mark.parametrize("grad", ["a", "b"])
def test_the_papers_gradients(grad: str) -> None:
    """Right up to 65536 batches; from 65537 on the upstream gradient's index wraps though the forward pass is right."""
    wraps = ("wrong", "flat index of upstream gradient wraps at 2**32")
    for batch, expected in ((32769, ("ok", None)), (65536, ("ok", None)), (65537, wraps), (65538, wraps)):
        assert predict_backward(Sizes(batch, *SHAPE), "contiguous", grad) == expected
        assert predict_forward(Sizes(batch, *SHAPE), "contiguous").verdict == "ok"


def test_a_gradient_takes_the_other_operand_with_rows_and_columns_exchanged() -> None:
    """A contiguous operand is a view there; a transposed one is packed. A forward error leaves no gradient."""
    large = Sizes(32768, 256, 256, 64)
    assert predict_backward(large, "contiguous", "b") == ("error", None)
    assert predict_forward(large, "a transposed").verdict == "error"
    assert predict_backward(large, "a transposed", "b") == ("error", None)
    output = Sizes(65537, 256, 256, 4)
    assert predict_backward(output, "contiguous", "a") == ("wrong", "strides of b ignored")
    assert predict_backward(output, "expanded", "a") == ("wrong", None)  # read outside its buffer


@given(
    layout=st.sampled_from(sorted(LAYOUTS)),
    shape=st.tuples(*[st.sampled_from([1, 2, 4, 8])] * 3),
    batch=st.integers(1, 600),
    bits=st.integers(8, 12),
    grad=st.sampled_from(["a", "b"]),
)
def test_the_rules_scale(layout: str, shape: tuple[int, int, int], batch: int, bits: int, grad: str) -> None:
    """With all sides of a batch and the width grown together the prediction is the same but for the width's name."""
    small, large = Sizes(batch, *shape), Sizes(batch, *(16 * side for side in shape))
    if 1 in shape:  # a side of one has no stride, and the larger one has
        return
    for one, other in (
        (predict_forward(small, layout, bits), predict_forward(large, layout, bits + 8)),
        (predict_backward(small, layout, grad, bits), predict_backward(large, layout, grad, bits + 8)),
    ):
        assert one.verdict == other.verdict
        assert (one.model or "").replace(f"2**{bits}", "border") == (other.model or "").replace(
            f"2**{bits + 8}", "border"
        )


# --- sums and memory --------------------------------------------------------------------------------------------------


def test_sums_stay_exact_in_the_type() -> None:
    assert [amplitudes(inner, "bfloat16") for inner in (1, 64, 65, 256)] == [2, 2, 1, 1]
    assert [amplitudes(inner, "float16") for inner in (64, 512, 513, 2048)] == [2, 2, 1, 1]
    with pytest.raises(ValueError, match="sums of 257 products are not exact in bfloat16: at most 256"):
        amplitudes(257, "bfloat16")


def test_the_period_is_a_prime() -> None:
    assert all(PERIOD % divisor for divisor in range(2, 1025))


def test_memory_is_that_of_buffers_product_and_gradient() -> None:
    rest = forward_memory("cpu", "bfloat16", "contiguous", "1x1x1", 1)["cpu"] - 6
    a, output = 2 * 65536 * 256 * 64, 2 * 2**32
    plain = ("bfloat16", "contiguous", "256x64x256", 65536)
    assert forward_memory("cpu", *plain) == {"cpu": 2 * a + output + rest}
    assert forward_memory("cuda:1", *plain) == {"cuda": 2 * a + output + rest, "cpu": rest}
    assert forward_memory("mps", *plain) == {"mps": 2 * a + output + rest, "cpu": 2 * a + output + rest}
    assert backward_memory("cpu", *plain, "a") == {"cpu": 3 * a + output + rest}
    expanded = ("expanded", "256x64x256", 65536)
    assert forward_memory("cpu", "float32", *expanded)["cpu"] == 2 * a + 4 * 2**14 + 2 * output + rest
    assert backward_memory("cpu", "float16", *expanded, "b")["cpu"] == 2 * a + 2 * 2**14 + output + rest


def test_memory_has_the_copies_that_the_cpu_makes_in_bfloat16() -> None:
    def copied(device: str, layout: str) -> int:
        one, other = (forward_memory(device, name, layout, "256x64x256", 65536) for name in ("bfloat16", "float16"))
        return one[device] - other[device]

    packed = 2 * 65536 * 256 * 64
    found = {layout: copied("cpu", layout) for layout in LAYOUTS}
    assert found == dict.fromkeys(LAYOUTS, 0) | {"strided": 2 * packed, "expanded": packed}
    assert {copied("cuda", layout) for layout in LAYOUTS} == {0}

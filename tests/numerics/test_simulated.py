"""The judge and the fault models of the large-index cases against an independent simulation of every fault.

A cell is wrong exactly when its value differs from the right one, and what is named is the fault that was put in,
possibly beside others that give the same value. Everything runs on the oldest and on the newest release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.numerics.test_on_real_torch import ends
from tests.support.asking import Ask, asking

MPS = "the three rules of MPS"
LAYOUTS = ("contiguous", "a transposed", "b transposed", "both transposed", "strided", "expanded")
DTYPES = ("float64", "float32", "float16", "bfloat16")


@pytest.fixture(scope="module", params=["oldest", "newest"])
def ask(request: pytest.FixtureRequest, real_torch: Mapping[str, Path]) -> Iterator[Ask]:
    python = ends(real_torch)[request.param]
    with asking(python, Path(__file__).with_name("programs") / "simulating.py") as answer:
        yield answer


def faults(k: int, operands: tuple[str, str]) -> list[str]:
    """Every single fault of a product, and both operands misread in the same way."""
    found = ["tail not written", f"tail not written beyond 2**{k - 1}", "result is zero"]
    wraps = [f"flat index of {{}} wraps at 2**{border}" for border in (k - 1, k)]
    for misread in ["strides of {} ignored", *wraps]:
        one, other = (misread.format(name) for name in operands)
        found += [one, other, f"{one} and {other}"]
    return [*found, *(wrap.format("output") for wrap in wraps)]


@st.composite
def questions(draw: st.DrawFn, least: int, most: int, fault: str | None = "") -> dict[str, Any]:
    """A cell with one border in reach; ``fault`` an empty string draws one."""
    k = draw(st.integers(least, most))
    longest = min(3 << max(0, k - 8) // 2, 64)  # so that there are not too many batches
    rows, columns = draw(st.integers(1, longest)), draw(st.integers(1, longest))
    inner = draw(st.integers(1, min(longest, 16)))
    grad = draw(st.sampled_from([None, "a", "b"]))
    widths = {rows * inner, inner * columns, rows * columns}
    width = draw(st.sampled_from(sorted(widths)))
    border = 1 << draw(st.sampled_from([k - 1, k]))
    batch = border // width + draw(st.sampled_from([-2, -1, 0, 1, 2, 3, border // width // 3, border // width // 2]))
    batch = max(1, min(batch, (3 << k) // max(widths)))
    operands = {None: ("a", "b"), "a": ("upstream gradient", "b"), "b": ("a", "upstream gradient")}[grad]
    candidates = faults(k, operands)
    fault = draw(st.sampled_from([MPS, MPS, MPS, *candidates])) if fault == "" else fault
    return {
        "k": k,
        "grad": grad,
        "layout": draw(st.sampled_from(LAYOUTS)),
        "dtype": draw(st.sampled_from(DTYPES)),
        "shape": f"{rows}x{inner}x{columns}",
        "batch": batch,
        "fault": fault,
        "during": draw(st.sampled_from(["both", "backward"])) if grad and fault != MPS else "both",
        "thorough": draw(st.booleans()) if batch <= 100 else False,
        "candidates": candidates if k < 11 else [],
    }


SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def judge(ask: Ask, question: dict[str, Any]) -> None:
    """Judge one cell, and count what it was."""
    cell = judged(ask, question)
    event(cell["verdict"])
    if cell["verdict"] == "ok" and cell["differing"]:
        event("wrong only where it was not compared")
    if len(cell.get("named", ())) > 1:
        event("several faults give the same value")


def judged(ask: Ask, question: dict[str, Any]) -> dict[str, Any]:
    """The facts of one cell, which has all the properties."""
    cell = ask(question)
    measured = cell["measured"]
    assert measured["inputs_as_made"] is True
    if cell["verdict"] == "error":
        assert question["fault"] == MPS
        assert measured["predicted_verdict"] == "error"
        return cell
    last = cell["calls"][-1]
    assert last["wrong_elements"] == cell["differing"]
    # Neither a miss nor a false alarm.
    assert cell["verdict"] == ("wrong" if cell["compared_differing"] else "ok")
    if question["thorough"]:
        assert measured["coverage"] == 1.0
        assert cell["differing"] == cell["compared_differing"]
    if question["grad"]:
        assert measured["upstream_as_made"] is True
        forward = cell["calls"][0]
        if question["thorough"]:
            assert measured["forward_right"] == (forward["wrong_elements"] == 0)
    if question["fault"] == MPS:
        foretold(cell)
    if cell["verdict"] == "ok":
        assert cell["explained"] is None
    else:
        explained(question, cell)
    return cell


def explained(question: dict[str, Any], cell: dict[str, Any]) -> None:
    """The fault that was put in is named, and only what truly gives the same value."""
    measured, last = cell["measured"], cell["calls"][-1]
    # What lies beyond the end of a storage is unknown, and no model explains a value from there.
    assert last["outside"] or last["fault"] in cell["named"]
    if question["candidates"]:
        assert sorted(cell["named"]) == cell["coinciding"]
    else:
        assert set(cell["named"]) == set(cell["coinciding"])
    width = last["shape"][1] * last["shape"][2]
    assert measured["first_wrong_flat_index"] // width == measured["first_wrong_batch"]
    if question["thorough"]:
        assert measured["first_wrong_flat_index"] == cell["first"]


def foretold(cell: dict[str, Any]) -> None:
    """The rules, as the predictor has them, say what the backend does."""
    measured, last = cell["measured"], cell["calls"][-1]
    if last["fault"] is None:
        assert measured["predicted_verdict"] == "ok"
    else:
        model = None if last["outside"] else last["fault"]
        assert (measured["predicted_verdict"], measured["predicted_model"]) == ("wrong", model)


@pytest.mark.real_torch
@settings(max_examples=25, **SETTINGS)
@given(question=questions(8, 10))
def test_each_fault_is_seen_where_values_differ_and_named(ask: Ask, question: dict[str, Any]) -> None:
    judge(ask, question)


@pytest.mark.real_torch
@settings(max_examples=10, **SETTINGS)
@given(question=questions(8, 10, None))
def test_without_a_fault_every_cell_is_right(ask: Ask, question: dict[str, Any]) -> None:
    judge(ask, question)


@pytest.mark.real_torch
def test_the_papers_backward_pass_scaled_down(ask: Ask) -> None:
    """arXiv 2609.22991: a batch beyond the border, the product is right, both gradients are wrong from there."""
    for grad in ("a", "b"):
        for batch, verdict in ((256, "ok"), (257, "wrong"), (258, "wrong")):
            question = {
                **{"k": 16, "grad": grad, "layout": "contiguous", "dtype": "float32", "shape": "16x4x16"},
                **{"batch": batch, "fault": MPS, "during": "both", "thorough": False, "candidates": []},
            }
            cell = judged(ask, question)
            assert (cell["verdict"], cell["measured"]["forward_right"]) == (verdict, True)
            if verdict == "wrong":
                assert cell["explained"] == "flat index of upstream gradient wraps at 2**16"
                assert cell["measured"]["first_wrong_batch"] == 256


@pytest.mark.slow
@pytest.mark.real_torch
@settings(max_examples=1500, **SETTINGS)
@given(question=questions(8, 12))
def test_each_fault_in_thousands_of_cells(ask: Ask, question: dict[str, Any]) -> None:
    judge(ask, question)


@pytest.mark.slow
@pytest.mark.real_torch
@settings(max_examples=40, **SETTINGS)
@given(question=questions(13, 20))
def test_each_fault_at_wide_indices(ask: Ask, question: dict[str, Any]) -> None:
    judge(ask, question)


@pytest.mark.slow
@pytest.mark.real_torch
@settings(max_examples=300, **SETTINGS)
@given(question=questions(8, 18, None))
def test_without_a_fault_in_many_cells(ask: Ask, question: dict[str, Any]) -> None:
    judge(ask, question)

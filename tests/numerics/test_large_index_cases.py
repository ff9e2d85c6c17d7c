"""The grid of the shipped large-index cases: which sizes it has, and that the default run stays small."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from bisect_torch.numerics.large_index import LAYOUTS, borders, operands, parse_shape
from bisect_torch.shipped import shipped
from bisect_torch.worker.api import describe, load_case_file

GIGABYTE = 10**9


def instances(name: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    return describe(load_case_file(str(shipped("cases") / f"large_index_{name}.py")))


def sides(rows: list[dict[str, Any]], dtype: str) -> set[tuple[str, str, int, str]]:
    """Tensor, layout and border, and whether an instance lies exactly there or beyond."""
    found = set()
    for row in rows:
        chosen = row["parameters"]
        sizes = parse_shape(chosen["shape"], chosen["batch"])
        counts = {operand.name: operand.elements for operand in operands(sizes, chosen["layout"])}
        for name, count in {**counts, "output": sizes.output}.items():
            for border in borders() if chosen["dtype"] == dtype else ():
                if border <= count < 1.1 * border:
                    found.add((name, chosen["layout"], border, "at" if count == border else "beyond"))
    return found


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_layout_of_the_output_and_each_operand_lie_on_both_sides_of_both_borders(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    there = sides(instances("bmm", monkeypatch), dtype)
    for border in borders():
        for side in ("at", "beyond"):
            assert {("output", layout, border, side) for layout in LAYOUTS} <= there
            assert {("a", layout, border, side) for layout in ("contiguous", "a transposed")} <= there
            assert {("b", layout, border, side) for layout in ("contiguous", "b transposed", "expanded")} <= there


def test_the_gradients_have_the_papers_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row["parameters"] for row in instances("backward", monkeypatch) if row["case"] == "bmm_gradient"]
    for grad in ("a", "b"):
        batches = {row["batch"] for row in rows if row["grad"] == grad and row["dtype"] == "bfloat16"}
        assert batches == {32768, 32769, 65536, 65537, 65538}
    assert {row["shape"] for row in rows} == {"256x64x256"}


def test_sixteen_bit_sweeps_fit_in_twenty_gigabytes_and_the_quick_ones_in_five(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bmm", "backward"):
        for row in instances(name, monkeypatch):
            if row["parameters"]["dtype"] != "float32":
                assert row["by_device"]["cpu"]["memory"]["cpu"] < 20 * GIGABYTE
    quick = instances("quick", monkeypatch)
    assert len(quick) == 4
    assert all(row["by_device"]["cpu"]["memory"]["cpu"] < 5 * GIGABYTE for row in quick)

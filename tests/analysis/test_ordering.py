"""Rows stand in the order in which runs planned them, whatever was recorded first."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.analysis import PlannedOrder, never_begun, planned
from bisect_torch.analysis.ordering import woven
from bisect_torch.model import Series

ROWS = [
    *(("b.py", f"bmm[dtype={dtype},n={n}]") for dtype in ("float32", "bfloat16") for n in (2, 10, 1)),
    ("b.py", "add"),
    ("a.py", "bmm[text=x,y]"),
    ("a.py", "bmm[text=x]"),
    ("script.py", "script"),
]


def ordered(rows: list[tuple[str, str]], *runs: object, devices: tuple[str, ...] = ("cpu",)) -> list[tuple[str, str]]:
    order = PlannedOrder([{"rows": each, "devices": ["cuda", "cpu"]} for each in runs])
    places = sorted([(*row, device) for row in rows for device in devices], key=order.place)
    return [(file, instance) for file, instance, device in places if device == devices[0]]


def test_rows_of_any_recorded_order_come_back_as_planned_also_of_parts() -> None:
    mixed = random.Random(3).sample(ROWS, len(ROWS))
    assert ordered(mixed, planned(ROWS)["rows"]) == ROWS
    assert ordered(mixed[::2], planned(ROWS)["rows"]) == [row for row in ROWS if row in mixed[::2]]


def test_devices_stand_as_the_run_named_them() -> None:
    order = PlannedOrder([{**planned(ROWS), "devices": ["cuda", "cpu"]}])
    rows = [("b.py", "add", "cpu"), ("b.py", "add", "cuda"), ("b.py", "bmm[dtype=float32,n=2]", "cpu")]
    assert sorted(rows, key=order.place) == [rows[2], rows[1], rows[0]]


def test_without_an_order_rows_are_by_file_and_case_as_they_were_recorded() -> None:
    mixed = [("b.py", "f[n=2]"), ("a.py", "g"), ("b.py", "h"), ("b.py", "f[n=1]")]
    assert ordered(mixed) == [mixed[0], mixed[3], mixed[2], mixed[1]]
    assert ordered(mixed, planned([("a.py", "g")])["rows"])[0] == ("a.py", "g")


@pytest.mark.parametrize("rows", [None, "x", [1, [], [2, ["f"]], ["b.py", "x", [3]], ["b.py", [None, {}]]]])
def test_an_order_that_is_none_is_no_order(rows: object) -> None:
    assert ordered(list(ROWS), rows)[0][0] == "b.py"


def cut_off(rows: list[tuple[str, str]], *, ended: str | None = None, devices: tuple[str, ...] = ("cpu",)):
    return {**planned(rows), "devices": list(devices), "ended_at": ended}


def test_what_a_run_that_was_cut_off_had_planned_and_not_begun() -> None:
    every = [(*row, "cpu") for row in ROWS]
    assert never_begun([cut_off(ROWS)], []) == every
    assert never_begun([cut_off(ROWS)], [Series(*row, (), ()) for row in every[1:]]) == every[:1]
    assert never_begun([cut_off(ROWS, ended="2026-12-01")], []) == []
    assert never_begun([cut_off(ROWS, devices=("cpu", "cuda"))], []) == [], "some cases run on one of them alone"
    part = [row for row in ROWS if row[1] != "bmm[dtype=float32,n=2]"]
    assert never_begun([cut_off(part)], []) == every[6:], "of bmm not every choice was planned: which is not known"


def test_the_newest_run_that_planned_a_case_decides_what_was_not_begun() -> None:
    old, new = cut_off(ROWS), cut_off([("b.py", "add"), ("b.py", "other")], ended="2026-12-01")
    assert ("b.py", "add", "cpu") not in never_begun([old, new], [])
    assert ("script.py", "script", "cpu") in never_begun([old, new], [])


@pytest.mark.parametrize("counts", [None, "x", {"b.py": None}, {"b.py": {"add": "1"}}, {"b.py": {"add": True}}])
def test_a_manifest_of_another_tool_tells_of_none(counts: object) -> None:
    assert (
        never_begun(
            [{**cut_off([("b.py", "add"), ("b.py", "f[n=1]")]), "row_counts": counts}],
            [Series("b.py", "add", "cpu", (), ())],
        )
        == []
    )


@pytest.mark.parametrize(
    ("known", "newer", "expected"),
    [
        ("", "ba", "ba"),
        ("ab", "ab", "ab"),
        ("abcd", "db", "adcb"),  # what both have, as the newer has it
        ("abc", "bxc", "abxc"),
        ("abc", "xb", "axbc"),
        ("abc", "xy", "abcxy"),
    ],
)
def test_two_orders_become_one(known: str, newer: str, expected: str) -> None:
    assert "".join(woven(list(known), list(newer))) == expected


@given(st.lists(st.integers(0, 12).map(str), unique=True), st.lists(st.integers(0, 12).map(str), unique=True))
def test_the_newer_order_holds_and_nothing_is_lost(known: list[str], newer: list[str]) -> None:
    found = woven(known, newer)
    assert sorted(found) == sorted({*known, *newer})
    assert [word for word in found if word in newer] == newer
    if not set(known) & set(newer):
        assert found == known + newer

"""Rows stand in the order in which runs planned them, whatever was recorded first."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.analysis import PlannedOrder, planned
from bisect_torch.analysis.ordering import woven

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
    assert ordered(mixed, planned(ROWS)) == ROWS
    assert ordered(mixed[::2], planned(ROWS)) == [row for row in ROWS if row in mixed[::2]]


def test_devices_stand_as_the_run_named_them() -> None:
    order = PlannedOrder([{"rows": planned(ROWS), "devices": ["cuda", "cpu"]}])
    rows = [("b.py", "add", "cpu"), ("b.py", "add", "cuda"), ("b.py", "bmm[dtype=float32,n=2]", "cpu")]
    assert sorted(rows, key=order.place) == [rows[2], rows[1], rows[0]]


def test_without_an_order_rows_are_by_file_and_case_as_they_were_recorded() -> None:
    mixed = [("b.py", "f[n=2]"), ("a.py", "g"), ("b.py", "h"), ("b.py", "f[n=1]")]
    assert ordered(mixed) == [mixed[0], mixed[3], mixed[2], mixed[1]]
    assert ordered(mixed, planned([("a.py", "g")]))[0] == ("a.py", "g")


@pytest.mark.parametrize("rows", [None, "x", [1, [], [2, ["f"]], ["b.py", "x", [3]], ["b.py", [None, {}]]]])
def test_an_order_that_is_none_is_no_order(rows: object) -> None:
    assert ordered(list(ROWS), rows)[0][0] == "b.py"


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

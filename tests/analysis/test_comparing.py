"""Two sets of results are compared cell by cell, and nothing is said to be equal or different that was not compared."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from bisect_torch.analysis.comparing import (
    Comparison,
    Relation,
    Side,
    compare,
    wrong_among,
)
from bisect_torch.analysis.matching import device_pairs
from bisect_torch.model import Observation
from tests.analysis.made import observe

BUILDS = ("2.4.1", "2.9.1", "2.14.0")
VALUE = {"digest": "d1", "rel_error": 1e-7, "dtype": "float32", "seed": 0}


def sides(first: list[Observation], second: list[Observation]) -> tuple[Side, Side]:
    """The second set was made by another run."""
    return Side("a", tuple(first)), Side("b", tuple(dataclasses.replace(each, run_id="other") for each in second))


def compared(first: list[Observation], second: list[Observation], **options: object) -> Comparison:
    return compare(*sides(first, second), BUILDS, **options)  # type: ignore[arg-type]


def only(first: Observation, second: Observation, **options: object) -> Relation:
    (cell,) = compared([first], [second], **options).cells
    return cell.relation


@pytest.mark.parametrize(
    ("first", "second", "relation"),
    [
        ("ok", "wrong", Relation.VERDICT),
        ("error:RuntimeError", "crash:SIGSEGV", Relation.VERDICT),
        ("error:RuntimeError", "error:IndexError", Relation.SIGNATURE),
        ("crash:SIGSEGV", "crash:SIGFPE", Relation.SIGNATURE),
        ("error:RuntimeError", "error:RuntimeError", Relation.ALIKE),
        ("ok", "ok", Relation.ALIKE),
        ("ok", "skip", Relation.UNJUDGED),
        ("broken", "wrong", Relation.UNJUDGED),
        ("infra", "infra", Relation.UNJUDGED),
    ],
)
def test_a_cell_without_a_value_is_compared_by_verdict_and_signature(first, second, relation):
    comparison = compared([observe(first)], [observe(second)])
    assert [each.relation for each in comparison.cells] == [relation]
    assert [each.bits for each in comparison.cells] == [None]
    expected = 3 if relation is Relation.UNJUDGED else int(relation.differs)
    assert comparison.exit_code == expected


@pytest.mark.parametrize(
    ("word", "other", "relation"),
    [
        ("ok", {}, Relation.EQUAL),
        ("wrong", {}, Relation.EQUAL),
        ("ok", {"digest": "d2"}, Relation.BITS),
        ("ok", {"digest": "d2", "rel_error": 9.9e-7}, Relation.BITS),
        ("ok", {"digest": "d2", "rel_error": 1.1e-6}, Relation.ERROR),
        ("ok", {"digest": None}, Relation.ALIKE),
        ("ok", {"digest": None, "rel_error": 1.1e-6}, Relation.ERROR),
        ("ok", {"digest": "d2", "seed": 7}, Relation.ALIKE),
        ("ok", {"digest": "d1", "input_digest": "i2"}, Relation.OTHER_INPUT),
        ("ok", {"digest": "d2", "input_digest": None}, Relation.BITS),
    ],
)
def test_values_are_compared_where_repeat_seed_and_input_are_the_same(word, other, relation):
    first = observe(word, **VALUE, input_digest="i1")
    second = observe(word, **{**VALUE, "input_digest": "i1", **other})
    assert only(first, second) is relation


@pytest.mark.parametrize(
    ("first", "second", "ratio"),
    [
        (1e-7, 2e-6, 20.0),
        (0.0, 2**-25, 1.0),
        (0.0, 2**-20, 16.0),
        (2**-30, 2**-24, 1.0),
        (math.inf, math.inf, 1.0),
        (math.nan, math.nan, 1.0),
        (math.inf, 1e-7, math.inf),
        (1e-7, math.nan, math.inf),
    ],
)
def test_errors_below_the_unit_roundoff_are_as_good_as_one_another(first, second, ratio):
    """2**-24 for float32: a correctly rounded result may have it."""
    values = {**VALUE, "criterion": "elementwise"}
    ours = observe("ok", **{**values, "rel_error": first})
    theirs = observe("ok", **{**values, "rel_error": second, "digest": "d2"})
    (cell,) = compared([ours], [theirs]).cells
    assert cell.ratio == pytest.approx(ratio)
    assert cell.relation is (Relation.ERROR if ratio > 10 else Relation.BITS)


@pytest.mark.parametrize("other", [{"dtype": "float64"}, {"check_path": "[1]"}, {"elements": 7}])
def test_errors_of_different_checks_are_not_compared(other):
    """An observation has the numbers of its worst check; with one thread that may be another than with two."""
    first = observe("ok", **VALUE)
    second = observe("ok", **{**VALUE, "digest": "d2", "rel_error": 0.5, **other})
    (cell,) = compared([first], [second]).cells
    assert (cell.relation, cell.errors, cell.ratio) == (Relation.BITS, None, None)


def test_the_factor_is_the_users():
    first, second = observe("ok", **VALUE), observe("ok", **{**VALUE, "digest": "d2", "rel_error": 1e-6})
    assert only(first, second, factor=20.0) is Relation.BITS
    assert only(first, second, factor=5.0) is Relation.ERROR


def test_equal_wrong_values_are_counted_among_the_equal():
    first = [observe(word, build, **VALUE) for word, build in zip(("ok", "wrong", "wrong"), BUILDS, strict=True)]
    second = [*first[:2], dataclasses.replace(first[2], digest="d3")]
    comparison = compared(first, second)
    equal = [each for each in comparison.cells if each.bits]
    assert (len(equal), wrong_among(equal), comparison.exit_code) == (2, 1, 1)


def test_a_flaky_cell_is_named_and_neither_equal_nor_different():
    first = [observe("ok", repeat=0, **VALUE), observe("ok", repeat=1)]
    second = [observe("ok", repeat=0, **VALUE), observe("wrong", repeat=1)]
    comparison = compared(first, second)
    assert [(each.relation, each.bits) for each in comparison.cells] == [(Relation.FLAKY, None)]
    assert comparison.exit_code == 0


def test_one_repeat_with_other_bits_is_enough_to_differ():
    first = [observe("ok", repeat=n, **{**VALUE, "seed": n}) for n in range(3)]
    second = [*first[:2], dataclasses.replace(first[2], digest="d2")]
    assert [each.relation for each in compared(first, second).cells] == [Relation.BITS]


def test_a_repeat_that_only_one_side_has_is_not_compared():
    first = [observe("ok", repeat=0, **VALUE), observe("ok", repeat=1, **{**VALUE, "digest": "d9", "seed": 1})]
    assert [each.relation for each in compared(first, first[:1]).cells] == [Relation.EQUAL]


def test_the_same_observation_in_both_says_nothing():
    """A file and a copy of it, to which more was added."""
    old = observe("ok", **VALUE)
    comparison = compare(Side("a", (old,)), Side("b", (old, observe("ok", repeat=1))), BUILDS)
    assert [each.relation for each in comparison.cells] == [Relation.SHARED]
    assert comparison.exit_code == 3


def test_another_message_alone_is_no_difference_but_is_counted():
    first = observe("error:RuntimeError")
    second = dataclasses.replace(first, message="something else")
    (cell,) = compared([first], [second]).cells
    assert (cell.relation, cell.other_message) == (Relation.ALIKE, True)


def test_what_only_one_side_has_is_listed_by_row_and_build():
    first = [observe("ok", "2.4.1", instance="case"), observe("ok", "2.9.1", instance="case")]
    second = [observe("ok", "2.4.1", instance="case"), observe("ok", "2.4.1", instance="other")]
    comparison = compared(first, second)
    assert len(comparison.cells) == 1
    assert comparison.only_first == ((("cases.py", "case", "cpu"), "2.9.1"),)
    assert comparison.only_second == ((("cases.py", "other", "cpu"), "2.4.1"),)


# --- which cell is which ----------------------------------------------------------------------------------------


def test_a_case_file_is_known_by_its_bytes_wherever_it_lies():
    first, second = observe("ok", case_file="a/one.py"), observe("wrong", case_file="b/two.py")
    comparison = compared([first], [second])
    assert [each.relation for each in comparison.cells] == [Relation.VERDICT]
    assert comparison.changed_files == ()


def test_a_changed_case_file_is_compared_by_its_name_and_that_is_said():
    first = observe("ok", case_file="a/cases.py", case_file_hash="old")
    second = observe("ok", case_file="b/cases.py", case_file_hash="new")
    comparison = compared([first], [second])
    assert [each.relation for each in comparison.cells] == [Relation.ALIKE]
    assert comparison.changed_files == ("a/cases.py",)


def test_a_changed_neighbour_is_said_too_but_not_the_tools_own_modules():
    first = observe("ok", local_modules='{"helper.py": "1", "store/staged/bisect_torch/api.py": "1"}')
    second = observe("ok", local_modules='{"helper.py": "1", "store/staged/bisect_torch/api.py": "2"}')
    assert compared([first], [second]).changed_files == ()
    third = observe("ok", local_modules='{"helper.py": "2"}')
    assert compared([first], [third]).changed_files == ("cases.py",)


def test_other_data_beside_a_case_file_is_said_too_but_not_what_a_cell_makes_itself():
    def reads(what):
        return observe("ok", local_modules=json.dumps({"inputs.pt": what}))

    one, other = "1" * 64, "2" * 64
    assert compared([reads(f"{one} 2026-11-28T10:00:00Z")], [reads(f"{other} 2026-11-28T11:00:00Z")]).changed_files
    assert not compared([reads(f"{one} 2026-11-28T10:00:00Z")], [reads(f"{one} 2026-11-28T11:00:00Z")]).changed_files
    assert not compared([reads(f"{one} own")], [reads(f"{other} own")]).changed_files


def test_a_file_of_the_same_bytes_goes_before_one_of_the_same_name():
    first = [observe("ok", case_file="x/cases.py", case_file_hash="A")]
    second = [
        observe("wrong", case_file="x/cases.py", case_file_hash="B"),
        observe("ok", case_file="y/copy.py", case_file_hash="A"),
    ]
    comparison = compared(first, second)
    assert [each.relation for each in comparison.cells] == [Relation.ALIKE]
    assert comparison.only_second == ((("x/cases.py", "case", "cpu"), "2.4.1"),)


def test_no_row_of_the_second_set_is_compared_twice():
    first = [observe("ok", case_file="one.py"), observe("ok", case_file="two.py")]
    second = [observe("ok", case_file="two.py")]
    comparison = compared(first, second)
    assert len(comparison.cells) == 1
    assert len(comparison.only_first) == 1


def test_local_interpreters_with_the_same_torch_are_the_same_build_where_that_leaves_no_choice():
    def local(word: str, path: str) -> Observation:
        seen = observe(word, path, build_kind="local", local_version="cpu")
        return dataclasses.replace(seen, build="2.9.1")

    here, there = local("ok", "/here"), local("wrong", "/there")
    (cell,) = compared([here], [there]).cells
    assert (cell.builds, cell.relation) == (("/here", "/there"), Relation.VERDICT)
    assert compared([here], [there, local("ok", "/elsewhere")]).cells == ()


@pytest.mark.parametrize(
    ("first", "second", "chosen", "pairs"),
    [
        (("cpu",), ("cpu",), (), (("cpu", "cpu"),)),
        (("cpu",), ("cuda:0",), (), (("cpu", "cuda:0"),)),
        (("cpu", "cuda:0"), ("cpu",), (), (("cpu", "cpu"),)),
        (("cpu", "cuda:0"), ("mps",), (), ()),
        (("cpu", "cuda:0"), ("cpu", "cuda:0"), (("cpu", "cuda:0"),), (("cpu", "cuda:0"),)),
    ],
)
def test_devices_are_paired_by_name_or_as_the_only_ones_or_as_chosen(first, second, chosen, pairs):
    assert device_pairs(first, second, chosen) == pairs


def test_two_devices_of_one_file_can_be_compared():
    observations = (
        observe("ok", device="cpu", key="1", **VALUE),
        observe("wrong", device="cuda:0", key="2", **{**VALUE, "digest": "d2"}),
    )
    side = Side("both", observations)
    comparison = compare(side, side, BUILDS, devices=(("cpu", "cuda:0"),))
    assert [(each.row[2], each.device, each.relation) for each in comparison.cells] == [
        ("cpu", "cuda:0", Relation.VERDICT)
    ]
    assert comparison.aside == (("cuda:0",), ("cpu",))


def test_devices_that_cannot_be_told_apart_leave_nothing_to_compare():
    first = [observe("ok", device="cpu"), observe("ok", device="cuda:0")]
    comparison = compared(first, [observe("ok", device="mps")])
    assert (comparison.cells, comparison.exit_code) == ((), 3)
    assert comparison.aside == (("cpu", "cuda:0"), ("mps",))


def test_comparing_the_other_way_round_finds_the_same():
    first = [observe("ok", build, **VALUE) for build in BUILDS]
    second = [observe("wrong", "2.4.1", **VALUE), observe("ok", "2.9.1", **{**VALUE, "digest": "d2"})]
    one, other = compared(first, second), compared(second, first)
    assert [each.relation for each in one.cells] == [each.relation for each in other.cells]
    assert [len(one.only_first), len(one.only_second)] == [len(other.only_second), len(other.only_first)]
    assert one.exit_code == other.exit_code == 1

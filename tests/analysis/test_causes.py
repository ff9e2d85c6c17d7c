"""Rows are told together only where more than their verdicts is alike, and the worst comes first."""

from __future__ import annotations

import dataclasses
import time

from bisect_torch.analysis.causes import Cause, Models, Others, causes
from bisect_torch.model import Series
from tests.report.histories import RELEASES, series

SHAPES = "shapes must not differ in torch.nn.functional:pad"


def with_detail(of: Series, detail: str) -> Series:
    """The same row, with this detail on every bad build."""
    points = tuple(
        dataclasses.replace(point, judgement=dataclasses.replace(point.judgement, detail=detail))
        if point is not None and point.judgement.verdict.bad
        else point
        for point in of.points
    )
    return dataclasses.replace(of, points=points)


def explained(of: Series, model: str) -> Models:
    return {(of.case_file, of.instance, of.device, name): model for name in of.builds}


def names(found: list[Cause]) -> list[list[str]]:
    return [[each.instance for each in cause.series] for cause in found]


def test_instances_of_one_case_with_the_same_signatures_are_one_cause() -> None:
    rows = [series("bmm[n=1]", "ok", "wrong"), series("bmm[n=2]", "ok", "ok"), series("bmm[n=3]", "ok", "wrong")]

    (found,) = causes(rows)

    assert names([found]) == [["bmm[n=1]", "bmm[n=3]"]]
    assert [[each.series.instance for each in change] for change in found.changes] == [["bmm[n=1]", "bmm[n=3]"]]


def test_the_same_case_on_two_devices_is_one_cause() -> None:
    rows = [series("bmm", "ok", "wrong"), series("bmm", "ok", "wrong", device="cuda")]

    assert names(causes(rows)) == [["bmm", "bmm"]]


def test_values_of_two_cases_that_become_wrong_in_one_release_say_nothing_about_each_other() -> None:
    first, second = series("attention", "ok", "wrong"), series("uint8", "ok", "wrong")

    found = causes([with_detail(first, "values differ"), with_detail(second, "values differ")])

    assert names(found) == [["attention"], ["uint8"]]
    assert [[each.instance for each in cause.same_history] for cause in found] == [["uint8"], ["attention"]]


def test_wrong_values_that_one_fault_model_explains_are_one_cause() -> None:
    rows = [series("bmm", "ok", "wrong"), series("cat", "ok", "wrong"), series("sum", "ok", "wrong")]
    models = {**explained(rows[0], "index wraps"), **explained(rows[1], "index wraps"), **explained(rows[2], "rounded")}

    assert names(causes(rows, models)) == [["bmm", "cat"], ["sum"]]


def test_the_same_exception_from_the_same_frame_is_one_cause_and_from_another_is_not() -> None:
    rows = [series(name, "ok", "error:RuntimeError") for name in ("pad", "roll", "flip")]
    rows = [with_detail(rows[0], SHAPES), with_detail(rows[1], SHAPES), with_detail(rows[2], SHAPES + "_other")]

    assert names(causes(rows)) == [["pad", "roll"], ["flip"]]


def test_a_signal_has_many_causes() -> None:
    rows = [with_detail(series(name, "ok", "crash:SIGSEGV"), "in functional:pad") for name in ("pad", "roll")]

    assert names(causes(rows)) == [["pad"], ["roll"]]


def test_instances_of_a_case_stay_together_whatever_they_say() -> None:
    rows = [
        with_detail(series("pad[n=1]", "ok", "error:RuntimeError"), SHAPES),
        with_detail(series("pad[n=2]", "ok", "error:RuntimeError"), "something else"),
        with_detail(series("roll", "ok", "error:RuntimeError"), SHAPES),
    ]

    assert names(causes(rows)) == [["pad[n=1]", "roll", "pad[n=2]"]]


def test_what_is_ok_wherever_it_was_judged_is_no_cause() -> None:
    assert causes([series("fine", "ok", "skip", "ok"), series("never", None, "broken", "infra")]) == []


def test_the_worst_comes_first() -> None:
    rows = [
        series("appeared", "absent", "ok", "ok"),
        series("fixed", "wrong", "wrong", "ok"),
        series("broke once", "ok", "wrong", "ok"),
        series("flaky", "ok|wrong", "ok|wrong", "ok|wrong"),
        series("always crashes", "crash:SIGFPE", "crash:SIGFPE", "crash:SIGFPE"),
        series("always wrong", "wrong", "wrong", "wrong"),
        series("raises since", "ok", "error:ValueError", "error:ValueError"),
        series("crashes since", "ok", "ok", "crash:SIGFPE"),
        series("silent since", "error:ValueError", "wrong", "wrong"),
        series("wrong since", "ok", "wrong", "wrong"),
    ]

    found = [name for (name,) in names(causes(rows))]

    assert found == [
        "silent since", "wrong since", "crashes since", "raises since", "always wrong", "always crashes", "flaky",
        "broke once", "fixed", "appeared",
    ]  # fmt: skip


def test_the_main_change_is_the_newest_of_the_worst() -> None:
    (found,) = causes([series("twice", "ok", "wrong", "ok", "wrong", "ok")])

    assert [change[0].after.build for change in found.changes] == list(RELEASES[1:5])
    assert found.main_change[0].after.build == RELEASES[3]


def test_an_exception_that_became_a_crash_is_the_main_change_and_not_the_crash_that_became_one() -> None:
    (found,) = causes([series("arange", "error", "crash", "error", "ok")])

    assert found.main_change[0].after.build == RELEASES[1]


def test_a_change_that_is_not_confirmed_in_one_row_is_not_confirmed() -> None:
    sure, unsure = series("bmm[n=1]", "ok", "wrong"), series("bmm[n=2]", "ok", "wrong")
    points = tuple(dataclasses.replace(point, processes=1) for point in unsure.points if point is not None)

    (found,) = causes([sure, dataclasses.replace(unsure, points=points)])

    assert [each.confirmed for each in found.main_change] == [False, True]


def test_the_other_rows_of_a_group_are_a_sequence_without_a_copy() -> None:
    group = [series(f"f[n={number}]", "ok") for number in range(6)]
    others = Others(group, [group[1], group[4]])
    left = [group[0], group[2], group[3], group[5]]
    assert list(others) == left
    assert (len(others), others[0], others[-1]) == (4, left[0], left[-1])
    assert (others[1:3], others[::-1]) == (left[1:3], left[::-1])
    assert not Others(group[:1], group[:1])


def test_many_cases_that_went_alike_cost_what_they_are() -> None:
    """Ten times as many rows, each of a case of its own, take ten times as long, not a hundred times."""

    def seconds(rows: int) -> float:
        """The least of three: what else the machine does only adds to it."""
        bad = [series(f"case_{number}", *["ok"] * 7, *["wrong"] * 8) for number in range(rows)]
        tries = []
        for _ in range(3):
            started = time.process_time()
            assert len(causes(bad)) == rows
            tries.append(time.process_time() - started)
        return min(tries)

    assert seconds(4_000) < 60 * max(seconds(400), 0.01)

"""Where greedy outputs change and by how much, on numbers that were worked out by hand; nothing unseen is equal."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.analysis.decoding import (
    Change,
    Difference,
    axis_change,
    measures,
    over_configurations,
    over_releases,
    release_changes,
    repeat_change,
)
from bisect_torch.analysis.decoding_sweep import AXES, Configuration, Decoded, common_prefix, divergences, sweep
from bisect_torch.model import Observation
from tests.analysis.made_decoding import decoded

BUILDS = ("2.4.1", "2.5.0", "2.6.0", "2.7.0")
A, B = ["abcd", "efgh"], ["abXd", "efgh"]
"""Outputs of two questions that differ at token 2 of the first."""

REFERENCE = Configuration("bfloat16", 1, 1, 0, 1, "cpu")


def cell(outputs: list[str], correct: int = 2, paths: list[list[float]] | None = None, answerable: int = 4) -> Decoded:
    known = paths or [[0.5]] * len(outputs)
    return Decoded(REFERENCE, "2.4.1", tuple(outputs), correct, answerable, tuple(map(tuple, known)), 2)


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (["abc", "abc", "abc"], None),
        (["abc", "abd", "abc"], 2),
        (["abc", "xbc"], 0),
        (["abc", "abcd"], 3),
        (["", "a"], 0),
        (["", ""], None),
        (["abc"], None),
    ],
)
def test_outputs_differ_from_the_first_token_that_not_all_share(outputs: list[str], expected: int | None) -> None:
    assert common_prefix(outputs) == expected


@given(st.lists(st.text("ab", max_size=6), min_size=1, max_size=5))
def test_what_lies_before_the_divergence_is_shared_and_no_more(outputs: list[str]) -> None:
    place = common_prefix(outputs)
    if place is None:
        assert len(set(outputs)) == 1
    else:
        assert len({each[:place] for each in outputs}) == 1
        assert len({each[: place + 1] for each in outputs}) > 1


def test_every_question_that_differs_has_its_first_token() -> None:
    assert divergences([["abcd", "efgh", "ij"], ["abcX", "eXgh", "ij"]]) == (1, 3)
    assert divergences([["ab"], ["ab"]]) == ()
    assert divergences([["ab"]]) == ()


# --- the four measures


def test_the_four_measures_by_hand() -> None:
    """Accuracies 1/4, 2/4, 3/4: deviation 1/4. Lengths 4, 3, 6 of the first question: variance 7/3, of the second 0.

    The outputs part at token 2, so of the first question only position 0 counts, with 0.9, 0.7, 0.5: deviation 0.2; the
    second, where all agree, adds positions 0 and 2: deviations 0.1 and 0.
    """
    found = measures(
        [
            cell(["abcd", "efg"], 1, [[0.9, 0.8], [0.3, 0.4]]),
            cell(["abc", "efg"], 2, [[0.7, 0.8], [0.4, 0.4]]),
            cell(["abXdef", "efg"], 3, [[0.5, 0.1, 0.1], [0.5, 0.4]]),
        ],
        missing=1,
    )

    assert (found.cells, found.missing) == (3, 1)
    assert found.std_accuracy == pytest.approx(0.25)
    assert found.avg_std_output_length == pytest.approx(math.sqrt(7 / 3) / 2)
    assert found.div_index == (2, None)
    assert (found.earliest, found.diverging) == (2, 1)
    assert found.avg_std_top1_probability == pytest.approx((0.2 + 0.05) / 2)


def test_a_position_counts_where_it_lies_before_the_divergence() -> None:
    """Recorded are positions 0, 2 and 4; a divergence at 4 leaves the first two, one at 5 all three."""
    for output, expected in (("abcdX", (0.1 + 0.2) / 2), ("abcdeX", (0.1 + 0.2 + 0.3) / 3), ("Xbcde", None)):
        other = "abcdef"
        spread = math.sqrt(2)
        one = cell([other], paths=[[0.5, 0.5, 0.5]])
        two = cell([output], paths=[[0.5 + 0.1 * spread, 0.5 + 0.2 * spread, 0.5 + 0.3 * spread]])
        found = measures([one, two]).avg_std_top1_probability
        assert found == (None if expected is None else pytest.approx(expected)), output


def test_fewer_than_two_cells_and_questions_without_an_answer_measure_nothing() -> None:
    assert measures([cell(A)]).std_accuracy is None
    assert measures([]).div_index == ()
    unanswerable = measures([cell(A, 0, answerable=0), cell(A, 0, answerable=0)])
    assert (unanswerable.std_accuracy, unanswerable.avg_std_output_length) == (None, 0.0)


def test_measures_over_configurations_and_over_releases() -> None:
    observations = [
        decoded(build, A if batch == 1 else B, batch=batch, correct=1 if batch == 1 else 3)
        for build in BUILDS[:2]
        for batch in (1, 8)
        if (build, batch) != ("2.5.0", 8)
    ]
    found = sweep(observations, BUILDS[:2])

    by_build = over_configurations(found, "bfloat16")
    assert by_build["2.4.1"].std_accuracy == pytest.approx(math.sqrt(0.125))
    assert by_build["2.4.1"].div_index == (2, None)
    assert (by_build["2.5.0"].cells, by_build["2.5.0"].missing, by_build["2.5.0"].std_accuracy) == (1, 1, None)
    by_configuration = over_releases(found, "bfloat16", BUILDS[:2])
    assert by_configuration[REFERENCE].div_index == (None, None)
    assert by_configuration[REFERENCE._replace(batch=8)].missing == 1


# --- what changes the output


def test_one_thing_varies_and_all_else_stays() -> None:
    """The batch size changes the first question at token 2 with 1 thread only; nothing else changes anything."""
    observations = [
        decoded("2.4.1", B if batch == 8 and threads == 1 else A, batch=batch, threads=threads)
        for batch in (1, 8)
        for threads in (1, 2)
    ]
    found = sweep(observations, ("2.4.1",))

    batch = axis_change(found, "bfloat16", "batch")
    assert (batch.compared, batch.changed, batch.open, batch.token) == (2, 1, 0, 2)
    assert batch.first == Difference((2,), "2.4.1", (REFERENCE, REFERENCE._replace(batch=8)))
    threads = axis_change(found, "bfloat16", "threads")
    assert (threads.compared, threads.changed, threads.token) == (2, 1, 2)
    assert axis_change(found, "bfloat16", "padding") == Change()
    assert axis_change(found, "float32", "batch") == Change()


def test_processes_are_compared_with_the_same_batch_threads_and_padding() -> None:
    observations = [
        decoded("2.4.1", A, batch=8),
        decoded("2.4.1", A, batch=8, threads=2),
        decoded("2.4.1", B, batch=8, processes=2),
    ]
    found = axis_change(sweep(observations, ("2.4.1",)), "bfloat16", "processes")
    assert (found.compared, found.changed, found.token) == (1, 1, 2)


@pytest.mark.parametrize(
    ("missing", "outputs", "expected"),
    [
        (None, [A, A, A], (1, 0, 0)),
        (1, [A, A, A], (0, 0, 1)),  # the two that are there agree: that says nothing about the third
        (1, [A, A, B], (1, 1, 0)),  # they differ: whatever the third is, something changed
        (0, [B, A, A], (0, 0, 1)),
    ],
)
def test_a_comparison_that_lacks_a_cell_is_open_unless_it_differs_already(
    missing: int | None, outputs: list[list[str]], expected: tuple[int, int, int]
) -> None:
    observations = [
        decoded("2.5.0", each, batch=batch, word="infra" if place == missing else "ok")
        for place, (batch, each) in enumerate(zip((1, 8, 32), outputs, strict=True))
    ]
    # What was lost on this build was seen on another, so that its configuration is known.
    observations += [decoded("2.4.1", A, batch=batch) for batch in (1, 8, 32)]
    found = axis_change(sweep(observations, ("2.5.0",)), "bfloat16", "batch")
    assert (found.compared, found.changed, found.open) == expected


def upgrade_of(*outputs: list[str] | None) -> tuple[Change, list[tuple[str, str, int]]]:
    """What is said of one configuration over the builds; None for a build on which it was lost."""
    observations = [
        decoded(build, each or [], word="infra" if each is None else "ok")
        for build, each in zip(BUILDS, outputs, strict=True)
    ]
    found = release_changes(sweep(observations, BUILDS), "bfloat16", BUILDS)
    return found.change, [(each.build, each.after, each.token) for each in found.upgrades]


@pytest.mark.parametrize(
    ("outputs", "counts", "upgrades"),
    [
        ((A, A, A, A), (3, 0, 0), []),
        ((A, A, B, B), (3, 1, 0), [("2.6.0", "2.5.0", 2)]),
        ((A, B, A, A), (3, 2, 0), [("2.5.0", "2.4.1", 2), ("2.6.0", "2.5.0", 2)]),
        ((A, None, A, A), (1, 0, 2), []),  # equal ends do not make the middle equal
        ((A, None, B, B), (2, 1, 1), [("2.6.0", "2.4.1", 2)]),  # one of two steps changed it, the other is open
        ((None, A, A, None), (1, 0, 2), []),
        ((None, None, None, A), (0, 0, 3), []),
    ],
)
def test_upgrading_is_compared_step_by_step(
    outputs: tuple[list[str] | None, ...], counts: tuple[int, int, int], upgrades: list[tuple[str, str, int]]
) -> None:
    change, found = upgrade_of(*outputs)
    assert (change.compared, change.changed, change.open) == counts
    assert found == upgrades


def test_the_median_is_over_the_first_tokens_of_all_outputs_that_differ() -> None:
    outputs = {1: ["abcdef", "ghijkl"], 8: ["Xbcdef", "ghXjkl"], 32: ["Xbcdef", "ghijXl"]}
    observations = [
        decoded(build, outputs[batch if build == "2.4.1" else 1 if batch == 1 else 32], batch=batch)
        for build in BUILDS[:2]
        for batch in (1, 8)
    ]
    found = axis_change(sweep(observations, BUILDS[:2]), "bfloat16", "batch")
    assert [each.tokens for each in found.differences] == [(0, 2), (0, 4)]
    assert (found.token, found.median) == (0, 1.0)


def test_an_upgrade_names_the_configurations_that_it_changed() -> None:
    observations = [
        decoded(build, B if build == "2.5.0" and batch == 8 else A, batch=batch)
        for build in BUILDS[:2]
        for batch in (1, 8)
    ]
    found = release_changes(sweep(observations, BUILDS[:2]), "bfloat16", BUILDS[:2])
    (upgrade,) = found.upgrades
    differences = (Difference((2,), "2.5.0", (REFERENCE._replace(batch=8),)),)
    assert (upgrade.build, upgrade.after, upgrade.differences) == ("2.5.0", "2.4.1", differences)
    assert found.change == Change(2, 0, differences)


def test_a_cell_that_differs_from_process_to_process_is_compared_with_nothing() -> None:
    observations = [
        decoded("2.4.1", A, repeat=0),
        decoded("2.4.1", B, repeat=1),
        decoded("2.4.1", A, batch=8, repeat=0),
        decoded("2.4.1", A, batch=8, repeat=1),
        decoded("2.4.1", A, batch=32),
    ]
    found = sweep(observations, ("2.4.1",))
    assert found.missing == {(REFERENCE, "2.4.1"): "its outputs differ from process to process"}
    again = repeat_change(found, "bfloat16")
    assert again == Change(2, 0, (Difference((2,), "2.4.1", (REFERENCE,)),))
    batch = axis_change(found, "bfloat16", "batch")
    assert (batch.compared, batch.open) == (0, 1)


# --- sorting observations


def test_what_has_no_output_is_missing_with_its_reason() -> None:
    observations = [
        decoded("2.4.1", A),
        decoded("2.5.0", [], word="skip"),
        decoded("2.4.1", [], batch=8, word="error:RuntimeError"),
        decoded("2.5.0", A, batch=8, word="wrong"),
        decoded("2.4.1", [], processes=2, batch=8, word="skip"),
    ]
    found = sweep(observations, BUILDS[:3])
    other = REFERENCE._replace(batch=8)
    assert found.configurations == (REFERENCE, other)
    assert set(found.cells) == {(REFERENCE, "2.4.1"), (other, "2.5.0")}
    assert found.missing == {
        (REFERENCE, "2.5.0"): "skip: no such device",
        (REFERENCE, "2.6.0"): "not run",
        (other, "2.4.1"): "error:RuntimeError",
        (other, "2.6.0"): "not run",
    }
    assert found.silent == {"two_processes[dtype=bfloat16,batch=8]": "skip: no such device"}


def test_outputs_of_an_older_case_file_are_no_pair_with_those_of_a_newer_one() -> None:
    old = decoded("2.4.1", A, case_file_hash="old", started_at="2026-01-01")
    new = decoded("2.4.1", B, batch=8, case_file_hash="new", started_at="2026-01-02")
    found = sweep([old, new], ("2.4.1",))
    assert set(found.cells) == {(REFERENCE._replace(batch=8), "2.4.1")}


def test_answers_to_another_number_of_questions_are_set_aside() -> None:
    observations = [decoded("2.4.1", A, batch=batch) for batch in (1, 8)] + [decoded("2.4.1", ["abcd"], batch=32)]
    found = sweep(observations, ("2.4.1",))
    assert found.missing == {(REFERENCE._replace(batch=32), "2.4.1"): "it has 1 outputs, the others have 2"}


def test_other_cases_are_no_decoding() -> None:
    assert sweep([], BUILDS).configurations == ()
    other = decoded("2.4.1", A, case_file="cases.py", measurements='{"coverage": 1}')
    assert sweep([other], BUILDS).configurations == ()


GRID = [(batch, threads, build) for batch in (1, 8, 32) for threads in (1, 2) for build in BUILDS]


@given(st.lists(st.sampled_from([A, B, ["abcd", "Xfgh"]]), min_size=len(GRID), max_size=len(GRID)),
       st.sets(st.sampled_from(GRID)))  # fmt: skip
def test_a_missing_cell_never_makes_more_look_equal(outputs: list[list[str]], lost: set[tuple[int, int, str]]) -> None:
    """All comparisons are counted once, as decided or open, and losing cells only moves them from equal to open."""

    def found(lost: set[tuple[int, int, str]]) -> list[Change]:
        cells: list[Observation] = [
            decoded(
                build, each, batch=batch, threads=threads, word="infra" if (batch, threads, build) in lost else "ok"
            )
            for (batch, threads, build), each in zip(GRID, outputs, strict=True)
        ]
        of = sweep([*cells, *(decoded("0", A, batch=b, threads=t) for b in (1, 8, 32) for t in (1, 2))], BUILDS)
        changes = [axis_change(of, "bfloat16", axis) for axis in AXES]
        return [*changes, release_changes(of, "bfloat16", BUILDS).change]

    whole, partly = found(set()), found(lost)
    for each, left in zip(whole, partly, strict=True):
        assert each.open == 0
        assert left.compared + left.open == each.compared
        assert left.compared - left.changed <= each.compared - each.changed

"""Merging is a union: nothing is lost, nothing stands twice, and what files say differently is named."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random

import pytest

from bisect_torch.model import Observation
from bisect_torch.results.merging import Part, merge
from bisect_torch.results.metadata import Metadata
from bisect_torch.results.recorded import identity
from tests.analysis.made import observe
from tests.results.made import full


def part(name: str, *observations: Observation, **metadata: object) -> Part:
    return Part(name, observations, Metadata(**metadata))  # type: ignore[arg-type]


OK, WRONG = observe("ok"), observe("wrong", instance="other")


def test_each_observation_stands_once():
    merged = merge([part("a", OK), part("b", OK, WRONG)])
    assert merged.observations == (OK, WRONG)
    assert (merged.repeated, merged.conflicts, merged.disagreements, merged.beside) == (1, (), (), 0)


@pytest.mark.parametrize("seed", range(20))
def test_the_union_is_the_same_in_any_order_and_grouping_and_repeating_it_adds_nothing(seed):
    draw = random.Random(seed)
    every = [observe("ok", f"2.{n}.0", instance=f"i{n}", repeat=n % 3, run_id=f"r{n % 4}") for n in range(12)]
    parts = [part(f"p{n}", *draw.sample(every, draw.randint(1, 8))) for n in range(4)]
    known = {each for one in parts for each in one.observations}

    for order in itertools.islice(itertools.permutations(parts), 6):
        assert set(merge(order).observations) == known
        assert merge(order).conflicts == ()
    together = merge(parts)
    grouped = merge([part("ab", *merge(parts[:2]).observations), part("cd", *merge(parts[2:]).observations)])
    again = merge([part("all", *together.observations), *parts])
    assert set(grouped.observations) == set(together.observations) == set(again.observations)
    assert len(again.observations) == len(known)


def test_the_same_observation_with_other_facts_is_a_conflict_and_the_first_is_kept():
    other = dataclasses.replace(OK, elapsed_s=2.0, outcome="raised")
    merged = merge([part("a", OK), part("b", other)])
    assert merged.observations == (OK,)
    (conflict,) = merged.conflicts
    assert (conflict.kept_of, conflict.other_of, conflict.fields) == ("a", "b", ("outcome", "elapsed_s"))


@pytest.mark.parametrize("reverse", [False, True])
def test_what_was_taken_back_since_its_environment_was_broken_stays_taken_back(reverse):
    broken = dataclasses.replace(OK, outcome="environment_broken", reason="a file changed")
    parts = [part("a", OK), part("b", broken)]
    merged = merge(parts[::-1] if reverse else parts)
    assert merged.observations == (broken,)
    assert [(each.kept_of, each.other_of) for each in merged.conflicts] == [("b", "a")]


def test_equal_facts_are_no_conflict_though_nan_is_not_itself_and_parquet_cannot_hold_a_lone_surrogate():
    one = dataclasses.replace(full(), rel_error=float("nan"), stdout_tail="\ud800")
    other = dataclasses.replace(one, rel_error=math.nan * 2, stdout_tail="\\ud800")
    assert merge([part("a", one), part("b", other)]).conflicts == ()


def test_another_run_of_the_same_cell_is_no_conflict_but_another_answer_is_named():
    again = dataclasses.replace(observe("wrong"), run_id="second", started_at="2026-11-30T00:00:00+00:00")
    merged = merge([part("a", OK), part("b", again)])
    assert merged.observations == (OK, again)
    assert merged.conflicts == ()
    (found,) = merged.disagreements
    assert found.answers == {"a": ("ok",), "b": ("wrong",)}
    assert merged.beside == 1, "of the same repeat only the newest run stands in the matrix"


def test_a_cell_that_is_flaky_in_one_file_already_is_not_told_again():
    flaky = (OK, observe("wrong", repeat=1))
    assert merge([part("a", OK), part("b", *flaky)]).disagreements == ()


def test_what_says_nothing_about_the_build_disagrees_with_nothing():
    lost = dataclasses.replace(observe("infra"), run_id="second")
    assert merge([part("a", OK), part("b", lost)]).disagreements == ()


def test_rows_of_two_machines_are_kept_and_those_that_no_matrix_shows_are_counted():
    here = [observe("ok", build, machine="x", started_at=f"2026-01-0{n}") for n, build in enumerate(("2.4.1", "2.9.1"))]
    there = [dataclasses.replace(each, machine="y", key=each.key + "y", run_id="other") for each in here[:1]]
    merged = merge([part("a", *here), part("b", *there)])
    assert len(merged.observations) == 3
    assert merged.beside == 1


@pytest.mark.parametrize("seed", range(20))
def test_three_files_that_say_different_things_are_merged_as_one_record_after_another_would_be(seed):
    """Against the rule itself, written for single records."""
    draw = random.Random(seed)

    def some() -> list[Observation]:
        return [
            dataclasses.replace(
                full(number), outcome=draw.choice(["returned", "returned", "raised", "environment_broken"]),
                elapsed_s=draw.choice([0.5, 0.5, float("nan")]), stdout_tail=draw.choice([None, "x", "x"]),
            )
            for number in draw.sample(range(8), 6)
        ]  # fmt: skip

    parts = [part(name, *some()) for name in "abc"]
    kept: dict[tuple[str, int, str], tuple[Observation, str]] = {}
    conflicts: dict[tuple[str, int, str], tuple[str, str]] = {}
    for one in parts:
        for each in one.observations:
            known, of = kept.setdefault(identity(each), (each, one.name))
            if repr(known) != repr(each):
                taken_back = [o.outcome == "environment_broken" for o in (known, each)] == [False, True]
                conflicts[identity(each)] = (one.name, of) if taken_back else (of, one.name)
                kept[identity(each)] = (each, one.name) if taken_back else (known, of)
    merged = merge(parts)
    assert repr(list(merged.observations)) == repr([each for each, _ in kept.values()])
    assert [(each.kept_of, each.other_of) for each in merged.conflicts] == list(conflicts.values())
    assert merged.repeated == 18 - len(kept)


# --- what the files carry beside their rows ---------------------------------------------------------------------

ENDED = {"run_id": "r1", "started_at": "2026-01-02", "ended_at": "2026-01-03"}
CUT_OFF = {"run_id": "r1", "started_at": "2026-01-02", "ended_at": None}
OLDER = {"run_id": "r0", "started_at": "2026-01-01", "ended_at": None}


@pytest.mark.parametrize("order", list(itertools.permutations([ENDED, CUT_OFF, OLDER])))
def test_of_a_run_the_manifest_that_says_that_it_ended_counts_and_runs_are_in_order(order):
    parts = [part(str(n), OK, runs=(run,)) for n, run in enumerate(order)]
    assert merge(parts).metadata.runs == (OLDER, ENDED)


def test_locks_and_case_texts_are_united_and_two_texts_of_one_hash_are_named():
    first = part("a", OK, locks={"l1": "x", "l2": "y"}, sources={"s1": "one"})
    second = part("b", WRONG, locks={"l2": "z"}, sources={"s2": "two"})
    merged = merge([first, second])
    assert merged.metadata.locks == {"l1": "x", "l2": "y"}, "that of the file named first"
    assert merged.metadata.sources == {"s1": "one", "s2": "two"}
    assert merged.other_texts == ("l2",)

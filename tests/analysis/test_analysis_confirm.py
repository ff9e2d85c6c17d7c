"""What must run again before a transition is printed, and that this comes to an end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_torch.analysis import (
    Confirmation,
    Wanted,
    build_series,
    flaky_repeats,
    transitions,
    wanted_repeats,
)
from bisect_torch.model import Isolation, Observation
from tests.analysis.made import observe, signatures

Answer = Callable[[Wanted], Observation]
BUILDS = tuple(f"2.{number}.0" for number in range(6))


def answer(words: Iterable[str]) -> Answer:
    """Every repeat of a build gives that build's word, whatever the isolation."""
    by_build = dict(zip(BUILDS, words, strict=False))
    return lambda wanted: run(wanted, by_build[wanted.build])


def run(wanted: Wanted, word: str, **fields: object) -> Observation:
    own = wanted.isolation is Isolation.PROCESS
    return observe(
        word,
        wanted.build,
        wanted.repeat,
        instance=wanted.instance,
        isolation=wanted.isolation.value,
        worker=f"own {wanted.repeat}" if own else f"w{wanted.repeat}",
        **fields,
    )


def first_pass(give: Answer, builds: Iterable[str], isolation: Isolation = Isolation.FORK) -> list[Observation]:
    return [give(Wanted("cases.py", "case", "cpu", build, 0, isolation, "")) for build in builds]


def confirm(
    give: Answer,
    builds: tuple[str, ...],
    isolation: Isolation = Isolation.FORK,
    confirmation: Confirmation | None = None,
    first: Iterable[Observation] = (),
) -> list[Observation]:
    """What the engine does: run what is wanted until nothing is. Fails when that takes more than 200 rounds."""
    observations = [*first] or first_pass(give, builds, isolation)
    for _ in range(200):
        wanted = wanted_repeats(observations, builds, confirmation=confirmation)
        if not wanted:
            return observations
        places = [(each.instance, each.build, each.repeat) for each in wanted]
        taken = {(each.instance, each.build_name, each.repeat) for each in observations}
        assert len(set(places)) == len(places)
        assert not taken & set(places)
        observations += [give(each) for each in wanted]
    raise AssertionError("it does not come to an end")


def repeats(observations: list[Observation]) -> dict[str, int]:
    return dict(Counter(each.build_name for each in observations))


def test_while_builds_are_still_to_come_the_newest_so_far_is_not_the_last() -> None:
    """On a short disk builds come in groups: running the newest of each once more would be for nothing."""
    so_far = first_pass(answer(["ok", "ok", "wrong", "wrong"]), BUILDS[:4])
    more = Confirmation(edges=(True, False))
    wanted = {each.build for each in wanted_repeats(so_far, BUILDS, confirmation=more)}
    assert wanted == {"2.0.0", "2.1.0", "2.2.0"}
    assert {each.build for each in wanted_repeats(so_far, BUILDS)} == wanted | {"2.3.0"}


def test_both_ends_run_in_three_processes_the_last_with_full_teardown() -> None:
    give = answer(["ok", "ok", "wrong", "wrong"])
    wanted = wanted_repeats(first_pass(give, BUILDS[:4]), BUILDS[:4])
    ends = [(w.build, w.repeat, w.isolation.value) for w in wanted if w.build in ("2.1.0", "2.2.0")]
    assert ends == [("2.1.0", 1, "fork"), ("2.1.0", 2, "process"), ("2.2.0", 1, "fork"), ("2.2.0", 2, "process")]


def test_the_first_and_last_judged_build_run_once_in_an_interpreter_of_their_own() -> None:
    give = answer(["broken", "ok", "ok", "ok", "infra"])
    wanted = wanted_repeats(first_pass(give, BUILDS[:5]), BUILDS[:5])
    assert [(w.build, w.repeat, w.isolation) for w in wanted] == [
        ("2.1.0", 1, Isolation.PROCESS),
        ("2.3.0", 1, Isolation.PROCESS),
    ]


def test_a_test_of_a_suite_runs_by_itself_only_where_something_changed() -> None:
    same = first_pass(answer(["ok"] * 4), BUILDS[:4], isolation=Isolation.SESSION)
    assert wanted_repeats(same, BUILDS[:4]) == []
    changed = first_pass(answer(["ok", "ok", "wrong", "wrong"]), BUILDS[:4], isolation=Isolation.SESSION)
    wanted = wanted_repeats(changed, BUILDS[:4])
    assert [(each.build, each.isolation) for each in wanted] == [
        (build, Isolation.PROCESS) for build in BUILDS[1:3] for _ in range(2)
    ]


def test_a_script_that_is_ok_everywhere_needs_nothing() -> None:
    """It ran in interpreters of its own anyway."""
    assert wanted_repeats(first_pass(answer(["ok"] * 6), BUILDS, Isolation.PROCESS), BUILDS) == []


@pytest.mark.parametrize("word", ["wrong", "error:RuntimeError", "crash:SIGSEGV"])
def test_what_is_bad_everywhere_is_seen_in_three_processes_at_both_ends(word: str) -> None:
    """Else a coin that fell twice on the same side would be told as wrong in every build."""
    observations = first_pass(answer([word] * 6), BUILDS, Isolation.PROCESS)
    wanted = [(each.build, each.repeat) for each in wanted_repeats(observations, BUILDS)]
    assert wanted == [("2.0.0", 1), ("2.0.0", 2), ("2.5.0", 1), ("2.5.0", 2)]
    assert repeats(confirm(answer([word] * 6), BUILDS, Isolation.PROCESS)) == {
        **dict.fromkeys(BUILDS, 1), "2.0.0": 3, "2.5.0": 3,
    }  # fmt: skip


def test_a_hang_everywhere_is_not_waited_for_again() -> None:
    assert wanted_repeats(first_pass(answer(["timeout"] * 6), BUILDS, Isolation.PROCESS), BUILDS) == []


def test_a_script_repeats_in_interpreters_of_its_own() -> None:
    observations = first_pass(answer(["ok", "wrong"]), BUILDS[:2], Isolation.PROCESS)
    wanted = wanted_repeats(observations, BUILDS[:2])
    assert [(w.build, w.repeat) for w in wanted] == [("2.0.0", 1), ("2.0.0", 2), ("2.1.0", 1), ("2.1.0", 2)]
    assert {w.isolation for w in wanted} == {Isolation.PROCESS}


@pytest.mark.parametrize("word", ["wrong", "error:RuntimeError", "crash:SIGSEGV"])
def test_what_is_bad_on_the_only_build_is_seen_in_three_processes_one_of_its_own(word: str) -> None:
    observations = confirm(answer([word]), BUILDS[:1])
    assert [(each.repeat, each.isolation) for each in observations] == [(0, "fork"), (1, "fork"), (2, "process")]
    assert repeats(confirm(answer([word]), BUILDS[:1], Isolation.PROCESS)) == {"2.0.0": 3}


@pytest.mark.parametrize("word", ["ok", "skip", "broken"])
def test_what_is_not_bad_on_the_only_build_needs_nothing(word: str) -> None:
    assert wanted_repeats(first_pass(answer([word]), BUILDS[:1]), BUILDS[:1]) == []
    assert wanted_repeats([], []) == []


def test_a_hang_on_the_only_build_is_waited_for_once_more_in_an_interpreter_of_its_own() -> None:
    assert repeats(confirm(answer(["timeout"]), BUILDS[:1])) == {"2.0.0": 2}


def test_the_only_build_of_a_part_is_no_end() -> None:
    """The machine that has the first or the last one sees to it."""
    part = Confirmation(edges=(False, False))
    assert wanted_repeats(first_pass(answer(["wrong"]), BUILDS[:1]), BUILDS[:1], confirmation=part) == []


def test_a_test_of_a_suite_on_the_only_build_does_not_run_by_itself() -> None:
    observations = first_pass(answer(["wrong"]), BUILDS[:1], isolation=Isolation.SESSION)
    assert wanted_repeats(observations, BUILDS[:1]) == []


def test_what_is_confirmed_is_not_asked_for_again() -> None:
    observations = confirm(answer(["ok", "wrong", "ok"]), BUILDS[:3])
    assert repeats(observations) == {"2.0.0": 3, "2.1.0": 3, "2.2.0": 3}
    (series,) = build_series(observations, BUILDS[:3])
    assert [each.confirmed for each in transitions(series)] == [True, True]


def test_timeouts_are_repeated_three_times_and_no_more() -> None:
    def give(wanted: Wanted) -> Observation:
        if wanted.build == "2.0.0":
            return run(wanted, ["ok", "wrong"][wanted.repeat % 2])
        return run(wanted, "timeout" if wanted.build in ("2.1.0", "2.2.0") else "ok")

    counts = repeats(confirm(give, BUILDS[:4]))
    assert counts["2.1.0"] == counts["2.2.0"] == 3
    assert counts["2.3.0"] > 3


def test_a_case_that_crashes_at_exit_everywhere_is_seen_to_do_so() -> None:
    """Forks that leave at once hide it: each end of an apparent transition moves on to the next build."""

    def give(wanted: Wanted) -> Observation:
        if wanted.isolation is Isolation.PROCESS:
            return run(wanted, "crash:SIGSEGV", phase="exit")
        return run(wanted, "ok")

    (series,) = build_series(confirm(give, BUILDS), BUILDS)
    assert signatures(series) == ["crash:SIGSEGV"] * 6
    assert transitions(series) == []


def test_an_own_interpreter_that_differs_from_the_forks_is_asked_until_it_is_clear() -> None:
    first = [observe("ok", build, isolation="fork") for build in BUILDS[:2]]
    odd = observe("api_absent", BUILDS[1], 1, isolation="process")
    wanted = [w for w in wanted_repeats([*first, odd], BUILDS[:2]) if w.build == BUILDS[1]]
    assert [(w.repeat, w.isolation) for w in wanted] == [(2, Isolation.PROCESS), (3, Isolation.PROCESS)]
    other = observe("ok", BUILDS[1], 2, isolation="process")
    assert [w for w in wanted_repeats([*first, odd, other], BUILDS[:2]) if w.build == BUILDS[1]] == []


def test_a_name_that_only_warm_workers_have_is_absent_everywhere() -> None:
    """The truth is what ``python file.py`` says, on the builds between the edges too."""

    def give(wanted: Wanted) -> Observation:
        there = wanted.isolation is Isolation.FORK or wanted.build >= "2.4.0"
        return run(wanted, "ok" if there else "api_absent")

    (series,) = build_series(confirm(give, BUILDS), BUILDS)
    assert signatures(series) == ["error:AttributeError"] * 4 + ["ok"] * 2
    assert [(each.kind.value, each.after.build) for each in transitions(series)] == [("appeared", "2.4.0")]


def test_once_a_cell_is_flaky_the_others_are_repeated_until_they_are_too_or_enough() -> None:
    def give(wanted: Wanted) -> Observation:
        steady = wanted.build in BUILDS[:4]
        return run(wanted, "ok" if steady or wanted.repeat % 2 else "wrong")

    observations = confirm(give, BUILDS)
    counts = repeats(observations)
    most = flaky_repeats(6, Confirmation().false_transition)
    assert [counts[build] for build in BUILDS[:4]] == [most] * 4
    (series,) = build_series(observations, BUILDS)
    assert signatures(series) == ["ok"] * 4 + ["flaky"] * 2


def test_where_most_builds_are_flaky_the_rest_is_repeated_twice_as_often() -> None:
    def give(wanted: Wanted) -> Observation:
        return run(wanted, "ok" if wanted.build == BUILDS[0] or wanted.repeat % 2 else "wrong")

    assert repeats(confirm(give, BUILDS))[BUILDS[0]] == 2 * flaky_repeats(6, Confirmation().false_transition)


def test_what_stands_between_flaky_builds_runs_no_more_once_there_is_no_transition_to_be_told() -> None:
    """Most builds are flaky and all others agree: more repeats could make no transition, nor take one back."""

    def give(wanted: Wanted, odd: str = "ok") -> Observation:
        if wanted.build in (BUILDS[0], BUILDS[2], BUILDS[3], BUILDS[5]):
            return run(wanted, "ok" if wanted.repeat % 2 else "wrong")
        return run(wanted, odd if wanted.build == BUILDS[4] else "ok")

    most = flaky_repeats(6, Confirmation().false_transition)
    counts = repeats(confirm(give, BUILDS))
    assert (counts[BUILDS[1]], counts[BUILDS[4]]) == (3, 3)
    counts = repeats(confirm(lambda wanted: give(wanted, "wrong"), BUILDS))
    assert (counts[BUILDS[1]], counts[BUILDS[4]]) == (2 * most, 2 * most), "they would be the ends of a transition"


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.7])
def test_a_flaky_case_gives_no_false_transition(rate: float) -> None:
    """In 100 runs over 15 builds with one pass each nearly all would; here none does."""
    builds = tuple(f"2.{number}.0" for number in range(15))
    dice = random.Random(11)
    convincing = 0
    for _ in range(100):
        results = confirm(lambda wanted: run(wanted, "wrong" if dice.random() < rate else "ok"), builds)
        (once,) = build_series([each for each in results if each.repeat == 0], builds)
        convincing += bool(transitions(once))
        (series,) = build_series(results, builds)
        assert transitions(series) == []
    assert convincing > 95


def test_the_number_of_repeats_follows_from_the_accepted_probability() -> None:
    assert flaky_repeats(15, 1e-4) == 10
    for builds in (2, 15, 200):
        for probability in (1e-2, 1e-4, 1e-6):
            number = flaky_repeats(builds, probability)
            assert number >= 3
            assert 2 * (builds - 1) * 4.0**-number <= probability


def test_a_worker_that_is_lost_again_and_again_ends_unconfirmed() -> None:
    def give(wanted: Wanted) -> Observation:
        return run(wanted, "infra" if wanted.repeat else ("ok" if wanted.build == "2.0.0" else "wrong"))

    observations = confirm(give, BUILDS[:2])
    (series,) = build_series(observations, BUILDS[:2])
    assert [each.confirmed for each in transitions(series)] == [False]
    assert max(repeats(observations).values()) <= 7


def test_a_lost_repeat_is_made_up_for_by_another() -> None:
    def give(wanted: Wanted) -> Observation:
        return run(wanted, "infra" if wanted.repeat == 1 else ("ok" if wanted.build == "2.0.0" else "wrong"))

    (series,) = build_series(confirm(give, BUILDS[:2]), BUILDS[:2])
    assert [each.confirmed for each in transitions(series)] == [True]


def test_a_budget_bounds_the_time_and_prefers_ends_of_transitions() -> None:
    def give(wanted: Wanted) -> Observation:
        word = "wrong" if wanted.build == "2.3.0" else "ok"
        return run(wanted, word, elapsed_s=10.0)

    for budget in (0.0, 25.0, 60.0, 1000.0):
        observations = confirm(give, BUILDS, confirmation=Confirmation(budget_s=budget, own_process_s=0.0))
        spent = sum(each.elapsed_s or 0.0 for each in observations if each.repeat)
        assert spent <= budget
    wanted = wanted_repeats(
        first_pass(give, BUILDS), BUILDS, confirmation=Confirmation(budget_s=60.0, own_process_s=0.0)
    )
    assert {each.build for each in wanted} == {"2.2.0", "2.3.0", "2.4.0"}


def test_a_budget_counts_what_an_interpreter_of_its_own_costs() -> None:
    """A case of a millisecond takes seconds there: importing torch and taking the interpreter down."""
    observations = first_pass(lambda wanted: run(wanted, "ok", elapsed_s=0.001), BUILDS)
    assert len(wanted_repeats(observations, BUILDS, confirmation=Confirmation(budget_s=6.0))) == 2
    assert len(wanted_repeats(observations, BUILDS, confirmation=Confirmation(budget_s=5.0))) == 1
    assert wanted_repeats(observations, BUILDS, confirmation=Confirmation(budget_s=1.0)) == []


def test_more_repeats_in_the_first_pass_do_not_hinder_the_confirmation() -> None:
    observations = [
        observe("ok" if build == "2.0.0" else "wrong", build, repeat) for build in BUILDS[:2] for repeat in range(40)
    ]
    wanted = wanted_repeats(observations, BUILDS[:2], confirmation=Confirmation(base_repeats=40))
    assert [(w.build, w.repeat, w.isolation) for w in wanted] == [
        ("2.0.0", 40, Isolation.PROCESS),
        ("2.1.0", 40, Isolation.PROCESS),
    ]


def test_a_flaky_build_whose_further_repeats_come_to_nothing_counts_as_flaky_for_the_others() -> None:
    """It gave one answer in a fork and another in an interpreter of its own, and no more interpreters can tell."""
    seen: Counter[str] = Counter()

    def give(wanted: Wanted) -> Observation:
        seen[wanted.build] += 1
        words = {"2.0.0": "ok", "2.1.0": {1: "ok", 2: "wrong"}.get(seen["2.1.0"], "skip"), "2.2.0": "wrong"}
        return run(wanted, words[wanted.build])

    first = first_pass(give, BUILDS[:3])
    first.append(give(Wanted("cases.py", "case", "cpu", "2.1.0", 1, Isolation.PROCESS, "")))
    observations = confirm(give, BUILDS[:3], first=first)
    (series,) = build_series(observations, BUILDS[:3])
    assert [each.confirmed for each in transitions(series)] == [True]
    assert repeats(observations)["2.0.0"] == flaky_repeats(3)


WORDS = ["ok", "wrong", "error:A", "crash:SIGSEGV", "timeout", "oom", "skip", "broken", "infra", "api_absent"]


@given(st.data(), st.integers(0, 6), st.sampled_from([None, 0.0, 5.0]))
@settings(max_examples=150, deadline=None)
def test_it_comes_to_an_end_whatever_happens(data: st.DataObject, length: int, budget: float | None) -> None:
    """Also when the engine gives the wrong isolation, or one worker for everything."""
    dice = data.draw(st.randoms(use_true_random=False))
    pool = data.draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
    honest = data.draw(st.booleans())

    def give(wanted: Wanted) -> Observation:
        observation = run(wanted, dice.choice(pool), elapsed_s=1.0)
        if honest:
            return observation
        return observe(dice.choice(pool), wanted.build, wanted.repeat, isolation="fork", worker="same")

    builds = BUILDS[:length]
    observations = confirm(give, builds, confirmation=Confirmation(budget_s=budget))
    if not honest or budget is not None:
        return
    for series in build_series(observations, builds):
        for each in transitions(series):
            lost = [
                sum(o.build_name == end.build for o in observations) - sum(end.counts.values())
                for end in (each.before, each.after)
            ]
            assert each.confirmed or max(lost) > Confirmation().lost_repeats

"""The search against brute force: what it may claim, and how many builds it takes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.analysis.question import Finished, Probe, Question, Reading, RemarkKind, State, reading_of
from bisect_torch.analysis.search import ahead, step
from bisect_torch.analysis.series import build_series
from bisect_torch.model import Boundary
from tests.analysis.made import observe

READINGS = {
    "o": Reading(State.OK, "ok"),
    "b": Reading(State.BAD, "wrong"),
    "x": Reading(State.BAD, "error:RuntimeError"),
    "a": Reading(State.ABSENT, "error:AttributeError"),
    "u": Reading(State.UNJUDGED, reason="broken"),
}
LETTERS = "obux"
History = Sequence[str]


def names(number: int) -> tuple[str, ...]:
    return tuple(f"2.{place}.0" for place in range(number))


def ask(history: History, question: Question, known: Mapping[str, Reading] | None = None) -> tuple[Finished, list[str]]:
    """Search with a probe that looks letters up. Gives the end and the builds that were judged for it, in order."""
    readings = dict(known or {})
    judged: list[str] = []
    while True:
        answer = step(question, readings)
        if isinstance(answer, Finished):
            return answer, judged
        assert answer.builds, "a probe names a build"
        for build in answer.builds:
            assert build not in readings, "what is known is not asked for again"
            readings[build] = READINGS[history[question.builds.index(build)]]
            judged.append(build)


def brute_force(history: History) -> list[tuple[int, int]]:
    """Every two neighbouring judged places that differ."""
    judged = [place for place, letter in enumerate(history) if letter != "u"]
    return [(older, newer) for older, newer in pairwise(judged) if history[older] != history[newer]]


def places(boundaries: Sequence[Boundary], builds: Sequence[str]) -> list[tuple[int, int]]:
    return [(builds.index(each.last_good), builds.index(each.first_bad)) for each in boundaries]


def check(history: History, finished: Finished, judged: Sequence[str], builds: Sequence[str]) -> None:
    """What every search over a whole history with both ends named must satisfy."""
    found = places(finished.boundaries, builds)
    every = brute_force(history)
    assert set(found) <= set(every), "a boundary that the full matrix has not"
    assert len(found) == len(every) or len(every) > 1, "the only boundary was missed"
    for boundary, (older, newer) in zip(finished.boundaries, found, strict=True):
        assert boundary.between == tuple((name, "broken") for name in builds[older + 1 : newer])
    seen = [letter for letter in history if letter != "u"]
    if seen and seen[0] != seen[-1]:
        assert found, "the ends differ, so something changed"
    unjudged = sum(history[builds.index(name)] == "u" for name in judged)
    most = 2 + max(1, len(found)) * math.ceil(math.log2(len(builds))) + unjudged
    assert len(judged) <= most


@pytest.mark.parametrize("length", [*range(2, 7), *(pytest.param(n, marks=pytest.mark.slow) for n in range(7, 11))])
def test_every_history_against_brute_force(length: int) -> None:
    builds = names(length)
    question = Question(builds, good=builds[0], bad=builds[-1])
    for history in itertools.product(LETTERS, repeat=length):
        finished, judged = ask(history, question)
        check(history, finished, judged, builds)


def leaves(question: Question, readings: dict[str, Reading]) -> Iterator[tuple[Finished, dict[str, Reading]]]:
    """Every way in which a search can go."""
    answer = step(question, readings)
    if isinstance(answer, Finished):
        yield answer, readings
        return
    for outcomes in itertools.product(LETTERS, repeat=len(answer.builds)):
        more = {name: READINGS[letter] for name, letter in zip(answer.builds, outcomes, strict=True)}
        yield from leaves(question, {**readings, **more})


@pytest.mark.parametrize("length", range(2, 11))
def test_every_way_that_a_search_can_go_covers_every_history(length: int) -> None:
    """A leaf stands for all histories that agree on what was judged, so that all ``4**length`` are covered."""
    builds = names(length)
    question = Question(builds, good=builds[0], bad=builds[-1])
    covered = 0
    for finished, readings in leaves(question, {}):
        covered += len(LETTERS) ** (length - len(readings))
        judged = [place for place, name in enumerate(builds) if name in readings and readings[name].judged]
        changes = [
            (older, newer)
            for older, newer in pairwise(judged)
            if readings[builds[older]].signature != readings[builds[newer]].signature
        ]
        assert places(finished.boundaries, builds) == changes
        for older, newer in changes:
            assert all(name in readings for name in builds[older:newer]), "a build between was left out"
        unjudged = len(readings) - len(judged)
        assert len(readings) <= 2 + max(1, len(changes)) * math.ceil(math.log2(length)) + unjudged
    assert covered == len(LETTERS) ** length


@pytest.mark.parametrize("number", [*range(2, 34), 64, 65, 66, 199, 200])
def test_one_change_takes_at_most_the_stated_number_of_builds(number: int) -> None:
    builds = names(number)
    question = Question(builds, good=builds[0], bad=builds[-1])
    for first_bad in range(1, number):
        history = "o" * first_bad + "b" * (number - first_bad)
        finished, judged = ask(history, question)
        assert places(finished.boundaries, builds) == [(first_bad - 1, first_bad)]
        assert finished.boundaries[0].tight
        assert len(judged) <= math.ceil(math.log2(number)) + 2


histories = st.lists(st.sampled_from("obuxa"), min_size=2, max_size=200)


@given(histories)
def test_long_histories_against_brute_force(history: list[str]) -> None:
    builds = names(len(history))
    finished, judged = ask(history, Question(builds, good=builds[-1], bad=builds[0]))
    check(history, finished, judged, builds)


@given(st.integers(2, 200), st.data())
def test_few_changes_with_holes_are_found_where_they_are(number: int, data: st.DataObject) -> None:
    first_bad = data.draw(st.integers(1, number - 1))
    history = ["o"] * first_bad + ["b"] * (number - first_bad)
    for hole in data.draw(st.sets(st.integers(1, number - 1), max_size=number // 2)):
        history[hole] = "u"
    builds = names(number)
    finished, judged = ask(history, Question(builds, good=builds[0], bad=builds[-1]))
    check(history, finished, judged, builds)
    assert places(finished.boundaries, builds) == brute_force(history)


@given(histories, st.data())
def test_what_is_known_is_used_first_and_costs_nothing(history: list[str], data: st.DataObject) -> None:
    builds = names(len(history))
    known_places = data.draw(st.sets(st.integers(0, len(history) - 1)))
    known = {builds[place]: READINGS[history[place]] for place in known_places}
    finished, judged = ask(history, Question(builds, good=builds[0], bad=builds[-1]), known)
    assert not set(judged) & set(known)
    found = places(finished.boundaries, builds)
    assert set(found) <= set(brute_force(history))


@given(histories)
def test_a_full_matrix_makes_the_search_free_and_complete(history: list[str]) -> None:
    builds = names(len(history))
    known = {name: READINGS[letter] for name, letter in zip(builds, history, strict=True)}
    finished, judged = ask(history, Question(builds, good=builds[0], bad=builds[-1]), known)
    assert judged == []
    assert places(finished.boundaries, builds) == brute_force(history)


@given(histories, st.booleans(), st.booleans(), st.data())
def test_a_walk_from_one_end_claims_only_what_is_true(
    history: list[str], from_good: bool, find_fix: bool, data: st.DataObject
) -> None:
    builds = names(len(history))
    start = data.draw(st.sampled_from(builds))
    question = Question(builds, good=start if from_good else None, bad=None if from_good else start, find_fix=find_fix)
    finished, judged = ask(history, question)
    assert set(places(finished.boundaries, builds)) <= set(brute_force(history))
    assert len(judged) == len(set(judged))
    no_opposite = any(remark.kind is RemarkKind.NO_OPPOSITE for remark in finished.remarks)
    states = {READINGS[history[builds.index(name)]].state for name in judged} - {State.UNJUDGED}
    assert no_opposite == (len(states) == 1)


def test_a_walk_grows_its_steps_and_stops_at_the_floor() -> None:
    builds = names(40)
    finished, judged = ask("o" * 40, Question(builds, bad=builds[-1]))
    assert [39 - builds.index(name) for name in judged] == [0, 1, 8, 24, 32, 36, 38, 39]
    assert [remark.kind for remark in finished.remarks] == [RemarkKind.NO_OPPOSITE, RemarkKind.BAD_IS_NOT]


@pytest.mark.parametrize("number", [*range(2, 34), 64, 65, 66, 199, 200])
def test_a_walk_to_one_change_takes_at_most_the_stated_number_of_builds(number: int) -> None:
    builds = names(number)
    question = Question(builds, good=builds[0])
    for first_bad in range(1, number + 1):  # the last: there is none
        history = "o" * first_bad + "b" * (number - first_bad)
        readings: dict[str, Reading] = {}
        estimates = []
        while isinstance(answer := step(question, readings), Probe):
            estimates.append(len(readings) + answer.at_most)
            readings |= {name: READINGS[history[builds.index(name)]] for name in answer.builds}
        assert places(answer.boundaries, builds) == ([(first_bad - 1, first_bad)] if first_bad < number else [])
        assert len(readings) <= min(estimates)
        assert max(estimates) <= math.ceil(math.log2(number)) + 2


@pytest.mark.parametrize(
    ("question", "boundary"),
    [
        (Question(names(16), bad="2.12.0"), ("2.4.0", "2.5.0")),  # back to where it broke
        (Question(names(16), bad="2.6.0", find_fix=True), ("2.12.0", "2.13.0")),  # on to where it was fixed
        (Question(names(16), good="2.2.0"), ("2.4.0", "2.5.0")),  # on to where it broke
        (Question(names(16), good="2.15.0", find_fix=True), ("2.12.0", "2.13.0")),  # back to where it was fixed
    ],
)
def test_one_end_is_enough(question: Question, boundary: tuple[str, str]) -> None:
    finished, _ = ask("ooooobbbbbbbbooo", question)
    assert [(each.last_good, each.first_bad) for each in finished.boundaries] == [boundary]
    assert finished.remarks == ()


SCENARIOS: dict[str, tuple[str, list[tuple[int, int]], list[RemarkKind]]] = {
    "broke once": ("oooobbbb", [(3, 4)], []),
    "fixed once, ends named the usual way": (
        "bbbbbooo", [(4, 5)], [RemarkKind.GOOD_IS_NOT, RemarkKind.BAD_IS_NOT],
    ),
    "first release cannot be installed": ("uooobbbb", [(3, 4)], [RemarkKind.END_NOT_JUDGED]),
    "last releases cannot be judged": ("ooobbbuu", [(2, 3)], [RemarkKind.END_NOT_JUDGED]),
    "three releases beside the boundary cannot be judged": ("oouuubbb", [(1, 5)], []),
    "fails differently": ("bbbbxxxx", [(3, 4)], [RemarkKind.GOOD_IS_NOT]),
    "another signature inside": ("ooobbxxx", [(2, 3), (4, 5)], []),
    "never worked": ("bbbbbbbb", [], [RemarkKind.GOOD_IS_NOT, RemarkKind.ALIKE]),
    "always worked": ("oooooooo", [], [RemarkKind.BAD_IS_NOT, RemarkKind.ALIKE]),
    "first available, then right": ("aaaaaaob", [(5, 6), (6, 7)], [RemarkKind.GOOD_IS_NOT]),
    "gone": ("oooooaaa", [(4, 5)], []),
    "nothing can be judged": ("uuuuuuuu", [], [RemarkKind.END_NOT_JUDGED] * 2 + [RemarkKind.NOTHING_JUDGED]),
    "one release can be judged": ("uuuuouuu", [], [RemarkKind.END_NOT_JUDGED] * 2 + [RemarkKind.NOTHING_JUDGED]),
    "only the ends can be judged": ("ouuuuuub", [(0, 7)], []),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_named_history(name: str) -> None:
    history, expected, remarks = SCENARIOS[name]
    builds = names(len(history))
    finished, _ = ask(history, Question(builds, good=builds[0], bad=builds[-1]))
    assert places(finished.boundaries, builds) == expected
    assert [remark.kind for remark in finished.remarks] == remarks
    for boundary, (older, newer) in zip(finished.boundaries, expected, strict=True):
        assert boundary.tight == (newer == older + 1)


def test_a_stand_in_for_an_end_is_named_with_the_reason() -> None:
    builds = names(8)
    finished, _ = ask("uuoobbbb", Question(builds, good=builds[0], bad=builds[-1]))
    assert [(remark.build, remark.other, remark.reason) for remark in finished.remarks] == [
        ("2.0.0", "2.2.0", "broken")
    ]
    assert finished.searched == ("2.2.0", "2.7.0")


def test_good_may_be_the_newer_end() -> None:
    builds = names(8)
    finished, _ = ask("bbbbbooo", Question(builds, good=builds[-1], bad=builds[0]))
    assert places(finished.boundaries, builds) == [(4, 5)]
    assert finished.remarks == ()


def test_builds_that_the_search_took_for_granted_are_named() -> None:
    builds = names(10)
    finished, judged = ask("ooobobbbbb", Question(builds, good=builds[0], bad=builds[-1]))
    assert set(finished.not_run) == set(builds) - set(judged)
    assert len(finished.boundaries) == 1


def test_the_estimate_is_an_upper_bound_and_shrinks() -> None:
    builds = names(33)
    question = Question(builds, good=builds[0], bad=builds[-1])
    for first_bad in range(1, 33):
        history = "o" * first_bad + "b" * (33 - first_bad)
        readings: dict[str, Reading] = {}
        estimates = []
        while isinstance(answer := step(question, readings), Probe):
            estimates.append((len(readings), answer.at_most))
            readings |= {name: READINGS[history[builds.index(name)]] for name in answer.builds}
        assert all(len(readings) <= done + at_most for done, at_most in estimates)
        assert estimates[0] == (0, 2 + 5)


@given(st.integers(3, 200), st.data())
def test_builds_that_are_there_are_preferred_and_never_cost_a_further_one(number: int, data: st.DataObject) -> None:
    builds = names(number)
    present = data.draw(st.sets(st.sampled_from(builds)))
    first_bad = data.draw(st.integers(1, number - 1))
    question = Question(builds, good=builds[0], bad=builds[-1])
    readings: dict[str, Reading] = {}
    while isinstance(answer := step(question, readings, present=present), Probe):
        for name in answer.builds:
            readings[name] = READINGS["o" if builds.index(name) < first_bad else "b"]
    assert places(answer.boundaries, builds) == [(first_bad - 1, first_bad)]
    assert len(set(readings) - present) <= math.ceil(math.log2(number)) + 2


def test_what_is_installed_ahead_is_what_may_be_asked_for_next() -> None:
    builds = names(17)
    question = Question(builds, good=builds[0], bad=builds[-1])
    both = step(question, {})
    assert isinstance(both, Probe)
    assert ahead(question, {}, both, 3) == ("2.8.0", "2.12.0", "2.4.0")
    readings = {builds[0]: READINGS["o"], builds[-1]: READINGS["b"]}
    middle = step(question, readings)
    assert isinstance(middle, Probe)
    assert middle.builds == ("2.8.0",)
    guesses = ahead(question, readings, middle, 2)
    for letter in "ob":
        following = step(question, {**readings, "2.8.0": READINGS[letter]})
        assert isinstance(following, Probe)
        assert following.builds[0] in guesses


def test_points_are_read_as_the_design_says() -> None:
    words = ["ok", "error:TypeError", "api_absent", "broken", "skip"]
    observations = [observe(word, build=f"2.{place}.0") for place, word in enumerate(words)]
    observations += [observe("ok", build="2.5.0"), observe("wrong", build="2.5.0", repeat=1)]
    (series,) = build_series(observations, names(7))
    states = [reading_of(point).state.value for point in series.points]
    assert states == ["ok", "bad", *["unjudged"] * 5]
    assert [reading_of(point).absent for point in series.points] == [False, False, True, *[False] * 4]
    searched_for = [reading_of(point, judge_absent=True).state.value for point in series.points]
    assert searched_for == ["ok", "bad", "absent", *["unjudged"] * 4]
    assert reading_of(series.points[5]).reason == "flaky: ok 1, wrong 1"
    assert reading_of(series.points[6]).reason == "not run"


@pytest.mark.parametrize(("good", "bad"), [(None, None), ("2.0.0", "2.0.0"), ("2.0.0", "9.9.9")])
def test_a_question_without_two_ends_of_a_range_is_refused(good: str | None, bad: str | None) -> None:
    with pytest.raises(ValueError, match="ends"):
        Question(names(3), good=good, bad=bad)

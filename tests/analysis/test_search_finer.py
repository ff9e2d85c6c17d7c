"""Fine builds between coarse ones, and builds whose torch lacks the name: what is claimed, and what it costs."""

from __future__ import annotations

import itertools
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.analysis.question import Finished, Probe, Question, Reading, RemarkKind, State
from bisect_torch.analysis.search import most_probes, step

READINGS = {
    "o": Reading(State.OK, "ok"),
    "b": Reading(State.BAD, "wrong"),
    "x": Reading(State.BAD, "error:RuntimeError"),
    "u": Reading(State.UNJUDGED, reason="broken"),
    "m": Reading(State.UNJUDGED, reason="API absent", absent=True),
}


def ask(history: str, question: Question) -> tuple[Finished, list[int]]:
    """Search with a probe that looks letters up; upper case letters are fine builds. Gives the end and the places."""
    readings: dict[str, Reading] = {}
    judged: list[int] = []
    while isinstance(answer := step(question, readings), Probe):
        assert answer.builds
        for build in answer.builds:
            assert build not in readings, "what is known is not asked for again"
            place = question.builds.index(build)
            readings[build] = READINGS[history[place].lower()]
            judged.append(place)
    return answer, judged


def question(history: str, *, good: int | None = 0, bad: int | None = -1, find_fix: bool = False) -> Question:
    builds = tuple(map(str, range(len(history))))
    fine = frozenset(name for name, letter in zip(builds, history, strict=True) if letter.isupper())
    ends = [None if end is None else builds[end] for end in (good, bad)]
    return Question(builds, good=ends[0], bad=ends[1], find_fix=find_fix, fine=fine)


def boundaries(finished: Finished) -> list[tuple[int, int]]:
    return [(int(each.last_good), int(each.first_bad)) for each in finished.boundaries]


def brute_force(history: str) -> list[tuple[int, int]]:
    """Every two neighbouring judged places that differ."""
    judged = [place for place, letter in enumerate(history.lower()) if letter not in "um"]
    return [(older, newer) for older, newer in pairwise(judged) if history[older].lower() != history[newer].lower()]


# --- fine builds


@given(st.lists(st.integers(0, 40), min_size=1, max_size=15), st.data())
def test_the_gap_between_two_releases_is_searched_and_no_other(inside: list[int], data: st.DataObject) -> None:
    """One change, so many fine builds in each gap: it is found where it is, for the stated number of builds."""
    shape = "r" + "".join("F" * number + "r" for number in inside)
    first_bad = data.draw(st.integers(1, len(shape) - 1))
    letters = "o" * first_bad + "b" * (len(shape) - first_bad)
    history = "".join(a.upper() if form == "F" else a for a, form in zip(letters, shape, strict=True))
    asked = question(history)
    finished, judged = ask(history, asked)
    assert boundaries(finished) == [(first_bad - 1, first_bad)]
    most = 2 + math.ceil(math.log2(len(inside))) + math.ceil(math.log2(max(inside) + 1))
    assert len(judged) <= most_probes(asked) <= most
    coarse = [place for place, form in enumerate(shape) if form == "r"]
    older, newer = next((a, b) for a, b in pairwise(coarse) if a < first_bad <= b)
    assert all(older < place < newer for place in judged if place not in coarse)
    assert {int(name) for name in finished.not_run} <= {*coarse, *range(older, newer)}


@pytest.mark.parametrize("length", [2, 3, 4, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (6, 7))])
def test_every_history_of_releases_and_nightlies_claims_only_what_is_true(length: int) -> None:
    for letters in itertools.product("obuOBU", repeat=length):
        history = "".join(letters)
        finished, judged = ask(history, question(history))
        every = brute_force(history)
        assert set(boundaries(finished)) <= set(every) or any(letter.isupper() for letter in history)
        for older, newer in boundaries(finished):
            between = history[older + 1 : newer].lower()
            assert set(between) <= {"u"}, (history, older, newer)
            assert history[older].lower() != history[newer].lower()
        assert len(judged) == len(set(judged))


def test_nightlies_do_not_stand_in_for_a_release() -> None:
    """Else a release that cannot be installed would cost every nightly beside it."""
    finished, judged = ask("uOOOOOOobb", question("uOOOOOOobb"))
    assert boundaries(finished) == [(7, 8)]
    assert not {1, 2, 3, 4, 5, 6} & set(judged)
    assert finished.searched == ("7", "9")


def test_a_nightly_that_is_an_end_is_replaced_by_the_nearest_nightly() -> None:
    finished, _ = ask("ooOOOBBUU", question("ooOOOBBUU"))
    assert boundaries(finished) == [(4, 5)]
    assert finished.searched == ("0", "6")


def test_a_walk_steps_on_releases_and_at_last_on_the_newest_nightly_that_can_be_judged() -> None:
    history = "oooOOOOOOOOBBBU"
    finished, judged = ask(history, question(history, good=0, bad=None))
    assert boundaries(finished) == [(10, 11)]
    assert judged[:4] == [0, 1, 14, 13]
    assert finished.remarks == ()


def test_a_walk_back_from_a_nightly_steps_on_releases() -> None:
    history = "ooooOOOOOBBBB"
    finished, judged = ask(history, question(history, good=None, bad=-1))
    assert boundaries(finished) == [(8, 9)]
    assert judged[:2] == [12, 3]


def test_gaps_without_a_nightly_that_can_be_judged_stay_as_they_are() -> None:
    finished, _ = ask("ooUUUbb", question("ooUUUbb"))
    assert boundaries(finished) == [(1, 5)]
    assert not finished.boundaries[0].tight


# --- names that a torch lacks


SCENARIOS: dict[str, tuple[str, list[tuple[int, int]], list[RemarkKind], tuple[str, str] | None]] = {
    "first available, then right": ("mmmmmoo", [], [RemarkKind.END_NOT_JUDGED, RemarkKind.BAD_IS_NOT, RemarkKind.ALIKE],
                                    ("5", "6")),
    "first available, later broken": ("mmmooobb", [(5, 6)], [RemarkKind.END_NOT_JUDGED], ("3", "7")),
    "wrong since it is available": ("mmmmbbbb", [],
                                    [RemarkKind.END_NOT_JUDGED, RemarkKind.GOOD_IS_NOT, RemarkKind.ALIKE], ("4", "7")),
    "absent between right and wrong": ("ooommmbb", [(2, 6)], [], ("0", "7")),
    "gone": ("ooooommm", [], [RemarkKind.END_NOT_JUDGED, RemarkKind.BAD_IS_NOT, RemarkKind.ALIKE], ("0", "4")),
    "never there": ("mmmmmmmm", [], [RemarkKind.END_NOT_JUDGED] * 2 + [RemarkKind.NOTHING_JUDGED], None),
    "there in the newest only": ("mo", [], [RemarkKind.END_NOT_JUDGED, RemarkKind.NOTHING_JUDGED], ("1", "1")),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_name_that_is_missing_is_neither_good_nor_bad(name: str) -> None:
    history, expected, remarks, searched = SCENARIOS[name]
    finished, _ = ask(history, question(history))
    assert boundaries(finished) == expected
    assert [remark.kind for remark in finished.remarks] == remarks
    assert finished.searched == searched


@pytest.mark.parametrize("number", [*range(3, 34), 64])
def test_where_a_name_appears_is_found_by_halving(number: int) -> None:
    """On the way to the oldest build that can stand in for an end; the last that lacks it was judged too."""
    for first in range(1, number):
        history = "m" * first + "o" * (number - first)
        finished, judged = ask(history, question(history))
        assert finished.searched == (str(first), str(number - 1))
        assert first - 1 in judged
        assert len(judged) <= math.ceil(math.log2(number)) + 2


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60))
def test_a_boundary_after_the_first_release_that_has_the_name_is_found(lack: int, good: int, bad: int) -> None:
    history = "m" * lack + "o" * good + "b" * bad
    finished, judged = ask(history, question(history))
    assert boundaries(finished) == [(lack + good - 1, lack + good)]
    assert len(judged) <= 2 * math.ceil(math.log2(len(history))) + 2


@given(st.lists(st.sampled_from("obxum"), min_size=2, max_size=80))
def test_no_boundary_ends_where_the_name_is_missing(letters: list[str]) -> None:
    history = "".join(letters)
    finished, judged = ask(history, question(history))
    assert set(boundaries(finished)) <= set(brute_force(history))
    assert len(judged) == len(set(judged))

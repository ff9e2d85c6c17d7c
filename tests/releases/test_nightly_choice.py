"""Words for nightly builds are parsed once; a day that has none is said, and the nearest is used."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.errors import UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.nightlies import NEAREST_WITHIN_DAYS, Shelf, choose, named
from bisect_torch.releases.nightly_words import NightlyWord, day_of, named_word, nightly_word
from bisect_torch.releases.selection import Selection, named_among, release_order

START = datetime.date(2026, 11, 1)


def day(number: int) -> datetime.date:
    return START + datetime.timedelta(days=number - 1)


def nightly(number: int, **facts: object) -> Build:
    when = day(number)
    version = f"2.16.0.dev{when:%Y%m%d}"
    return Build(BuildKind.NIGHTLY, version, version, day=when, pythons=("3.11", "3.12"), **facts)  # type: ignore[arg-type]


def shelf(*builds: Build, python: str | None = None, installed: frozenset[str] = frozenset()) -> Shelf:
    return Shelf(builds, "nightly/cpu", python, lambda build: build.version in installed)


def days(word: str, on: Shelf) -> list[int]:
    return [(build.day - START).days + 1 for build in choose(nightly_word(word), on).builds if build.day is not None]


# --- words


def test_each_word_means_one_thing() -> None:
    assert nightly_word("latest") == NightlyWord("latest")
    assert nightly_word("test").channel == "test"
    one, some, open_end = (nightly_word(text) for text in ("2026-11-20", "2026-11-01..2026-11-28", "2026-11-01.."))
    assert (one.first, one.last, one.span) == (day(20), None, False)
    assert (some.first, some.last, some.span) == (day(1), day(28), True)
    assert (open_end.first, open_end.last, open_end.span) == (day(1), None, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("yesterday", "does not name a nightly build"),
        ("2026-13-01", "there is no day 2026-13-01"),
        ("2026-02-30..2026-03-02", "there is no day 2026-02-30"),
        ("2026-11-28..2026-11-01", "the days are reversed"),
        ("2.16.0", "does not name a nightly build"),
        ("20261120", "does not name a nightly build"),
    ],
)
def test_a_word_that_means_nothing_is_refused_with_those_that_do(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        nightly_word(text)
    assert "2026-11-01..2026-11-28" in str(refused.value.hint)


def test_names_of_builds_may_be_such_words_and_versions_are_not_taken_for_them() -> None:
    assert named_word("nightly") == NightlyWord("nightly")
    assert [named_word(name) for name in ("2.9.0", "2.16.0.dev20261128", "/opt/python", "latest")] == [None] * 4
    selection = Selection(first="2.14.0", versions=("nightly", "2.9.0", "2.16.0.dev20261120", "./2026-11-20"))
    assert selection.unreleased == ("nightly", "2.16.0.dev20261120")
    assert not Selection(versions=("nightly", "/opt/python")).needs_listing
    assert not Selection(nightly=(nightly_word("latest"),)).has_range


def test_the_day_stands_in_the_version() -> None:
    assert day_of("2.16.0.dev20261128") == day(28)
    assert day_of("2.16.0.dev20261128+cpu") == day(28)
    assert [day_of(version) for version in ("2.16.0", "2.16.0.dev7", "2.16.0.dev20261345")] == [None] * 3


def test_release_order_of_nightlies_between_releases() -> None:
    names = ["2.14.1", "2.15.0.dev20261001", "2.15.0", "2.16.0.dev20261012", "2.16.0.dev20261128", "2.16.0"]
    builds = [Build(BuildKind.RELEASE, name, name) for name in names]
    candidate = Build(BuildKind.CANDIDATE, "2.16.0", "2.16.0 (test)")
    local = Build(BuildKind.LOCAL, "2.16.0", "/opt/python")
    expected = [*builds[:-1], candidate, builds[-1], local]
    assert sorted([local, *reversed(builds), candidate], key=release_order) == expected


def test_a_name_is_found_among_builds_that_were_chosen() -> None:
    release = Build(BuildKind.RELEASE, "2.16.0", "2.16.0")
    candidate = Build(BuildKind.CANDIDATE, "2.16.0", "2.16.0 (test)")
    local = Build(BuildKind.LOCAL, "2.16.0", "/opt/python")
    builds = (local, nightly(1), nightly(4), release, candidate)
    meant = {
        "nightly": nightly(4),
        "test": candidate,
        "2026-11-01": nightly(1),
        "2026-11-03": nightly(4),
        "2.16.0.dev20261101": nightly(1),
        "2.16": release,
        "/opt/python": local,
        "2.15.0": None,
        "newest": None,
    }
    assert {name: named_among(name, builds) for name in meant} == meant
    assert named_among("nightly", (release,)) is None
    assert named_among("2026-11-01", (release,)) is None


# --- which build


def test_a_day_without_a_build_is_answered_with_the_nearest_and_says_why() -> None:
    there = shelf(nightly(1), nightly(2, yanked=True), nightly(5), nightly(6, gone=True))
    for wanted, got, why in ((2, 1, " (withdrawn)"), (3, 1, ""), (4, 5, ""), (6, 5, " (it has left the index)")):
        chosen = choose(nightly_word(f"{day(wanted)}"), there)
        assert [build.day for build in chosen.builds] == [day(got)]
        assert chosen.notes == (
            f"nightly/cpu has no nightly of {day(wanted)}{why}; the nearest, of {day(got)}, is used",
        )
    assert choose(nightly_word(f"{day(5)}"), there).notes == ()


def test_a_day_too_far_from_any_build_is_refused() -> None:
    there = shelf(nightly(10), nightly(12))
    assert days("2026-11-05", there) == [10]
    with pytest.raises(UsageError, match=r"no nightly of 2026-10-20; those there are of 2026-11-10 to 2026-11-12"):
        choose(nightly_word("2026-10-20"), there)


def test_days_of_a_range_that_have_none_are_named_together() -> None:
    there = shelf(nightly(1), nightly(4), nightly(5, yanked=True), nightly(6), nightly(8))
    chosen = choose(nightly_word("2026-11-01..2026-11-08"), there)
    assert [build.day for build in chosen.builds] == [day(1), day(4), day(6), day(8)]
    assert chosen.notes == (
        "nightly/cpu has no nightly of 2026-11-02 to 2026-11-03, 2026-11-05 (withdrawn), 2026-11-07",
    )
    with pytest.raises(UsageError, match="no nightly from 2026-11-02 to 2026-11-03"):
        choose(nightly_word("2026-11-02..2026-11-03"), there)


def test_a_nightly_that_left_the_index_takes_part_while_it_is_installed() -> None:
    gone = nightly(1, gone=True)
    assert days("2026-11-01", shelf(gone, nightly(3), installed=frozenset({gone.version}))) == [1]
    assert days("2026-11-01", shelf(gone, nightly(3))) == [3]


def test_the_latest_is_the_newest_that_fits_and_says_which_does_not() -> None:
    there = shelf(nightly(1), nightly(2), nightly(3, yanked=True))
    chosen = choose(nightly_word("latest"), there)
    assert [build.day for build in chosen.builds] == [day(2)]
    assert chosen.notes == ("the latest nightly that fits is 2.16.0.dev20261102; 2.16.0.dev20261103: withdrawn",)
    with pytest.raises(UsageError, match=r"no build that fits Python 3\.9"):
        choose(nightly_word("latest"), shelf(nightly(1), python="3.9"))


def test_a_named_version_is_meant_whatever_is_wrong_with_it() -> None:
    there = shelf(nightly(1), nightly(2, yanked=True), nightly(3, gone=True), python="3.11")
    assert named("2.16.0.dev20261102", there).yanked
    assert named("2.16.0.dev20261103", there).gone
    with pytest.raises(UsageError, match=r"is not on nightly/cpu; the nearest that are: 2\.16\.0\.dev20261101$"):
        named("2.16.0.dev20261109", there)
    with pytest.raises(UsageError, match=r"has no wheel for Python 3\.9"):
        named("2.16.0.dev20261101", shelf(nightly(1), python="3.9"))


@given(
    st.dictionaries(st.integers(1, 40), st.sampled_from(["fine", "yanked", "gone"]), min_size=1),
    st.integers(1, 40),
    st.integers(0, 12),
)
def test_choices_are_what_brute_force_says(states: dict[int, str], first: int, length: int) -> None:
    builds = [
        nightly(number, yanked=state == "yanked", gone=state == "gone") for number, state in sorted(states.items())
    ]
    there = shelf(*builds)
    fine = [number for number, state in states.items() if state == "fine"]
    inside = sorted(number for number in fine if first <= number <= first + length)
    near = sorted(fine, key=lambda number: (abs(number - first), number))[:1]
    near = [number for number in near if abs(number - first) <= NEAREST_WITHIN_DAYS]
    for word, expected in ((f"{day(first)}", near), (f"{day(first)}..{day(first + length)}", inside)):
        if expected:
            assert days(word, there) == expected
        else:
            with pytest.raises(UsageError):
                choose(nightly_word(word), there)

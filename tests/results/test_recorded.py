"""Records stay findable while they become columns."""

from __future__ import annotations

import pytest

from bisect_torch.results import recorded
from bisect_torch.results.recorded import Recorded
from bisect_torch.results.values import in_columns
from tests.results.made import observation

KEYS = 40


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_PENDING", 3), ("_TABLES", 4), ("_BLOCK", 2), ("_BLOCKS_KEPT", 2)):
        monkeypatch.setattr(recorded, name, value)


@pytest.mark.parametrize("stored", [0, 7])
@pytest.mark.parametrize("looked_at_first", [False, True])
def test_every_record_is_found_at_every_moment_the_newest_in_the_place_of_the_oldest(
    stored: int, looked_at_first: bool
) -> None:
    made = [observation(number % KEYS, repeat=number % 3 % 2, elapsed_s=float(number)) for number in range(3 * KEYS)]
    found = Recorded(in_columns(made[:stored]) if stored else None)
    if looked_at_first:
        assert found.lookup("nothing") == []
    known = {recorded.identity(each): each for each in made[:stored]}
    for each in made[stored:]:
        found.add(each)
        known[recorded.identity(each)] = each
        assert found.lookup(each.key) == [one for one in known.values() if one.key == each.key]
    assert found.rows() == list(known.values())
    assert [one for number in range(KEYS) for one in found.lookup(f"{number:064x}")] == [
        one for number in range(KEYS) for one in known.values() if one.key == f"{number:064x}"
    ]


def test_tables_that_are_added_come_after_what_was_there() -> None:
    first, second = Recorded(None), Recorded(None)
    for number in range(5):
        first.add(observation(number))
        second.add(observation(number + 3, elapsed_s=1.0))
    assert len(first.lookup(observation(4).key)) == 1
    first.extend(second.added)
    assert first.rows() == [*map(observation, range(3)), *(observation(n, elapsed_s=1.0) for n in range(3, 8))]
    assert first.lookup(observation(4).key) == [observation(4, elapsed_s=1.0)]


@pytest.mark.parametrize("different", [126, 127, 128, 129])
def test_a_value_that_is_missing_is_told_from_as_many_as_a_byte_can_number(different: int) -> None:
    made = [
        observation(number, message=f"m{number}" if number < different else None) for number in range(different + 2)
    ]
    rows = Recorded(in_columns(made)).rows()
    codes = rows.codes(("message",))
    assert (list(codes.of), list(rows.first(("message",)))) == (
        [*range(different), different, different],
        list(range(different + 1)),
    )
    assert rows == made
    assert rows.distinct("message") == [*(f"m{number}" for number in range(different)), None]


def test_what_is_looked_at_once_is_the_same_and_not_kept() -> None:
    made = [observation(number // 2, repeat=number % 2) for number in range(6)]
    rows = Recorded(in_columns(made)).rows()
    assert list(rows.codes(("key",)).of) == [0, 0, 1, 1, 2, 2]
    assert "key" not in rows.held._columns
    assert rows.listed("key") == [each.key for each in made]
    assert rows.held.once("key") is rows.held.column("key")


def test_of_many_texts_few_are_found_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [observation(number, message=f"m{number}" if number % 3 else None) for number in range(200)]
    rows = Recorded(in_columns(made)).rows()
    places = [199, 3, 0, 100, 7, 199, 5, 8, 10, 11]
    expected = ["m199", None, None, "m100", "m7", "m199", "m5", "m8", "m10", "m11"]
    assert rows.take(places).listed("message") == expected
    assert list(rows.take(places)) == [made[place] for place in places]
    monkeypatch.setattr("bisect_torch.results.rows._TIMES_AS_LONG", 10**9)
    assert rows.take(places).listed("message") == expected

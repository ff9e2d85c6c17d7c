"""Delta debugging against brute force, and what the answers of hybrids mean."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_torch.analysis.attribution import Answer, Cause, Hybrid, Side, answer_of, attribute, ddmin
from bisect_torch.model import Judgement, Point, Verdict

ITEMS = tuple("abcdefg")


def parts(items: Sequence[str]) -> list[tuple[str, ...]]:
    return [part for size in range(len(items) + 1) for part in itertools.combinations(items, size)]


@settings(deadline=None)
@given(st.sets(st.frozensets(st.sampled_from(ITEMS), min_size=1), min_size=1, max_size=4), st.integers(1, len(ITEMS)))
def test_of_what_shows_with_more_too_ddmin_finds_a_smallest_part(causes: set[frozenset[str]], count: int) -> None:
    items = ITEMS[:count]
    causes = {cause for cause in causes if cause <= set(items)}
    if not causes:
        causes = {frozenset(items)}
    smallest = {cause for cause in causes if not any(other < cause for other in causes)}  # brute force
    asked: list[tuple[str, ...]] = []

    def shows(part: tuple[str, ...]) -> bool:
        asked.append(part)
        return any(cause <= set(part) for cause in causes)

    found = ddmin(items, shows)

    assert frozenset(found) in smallest
    assert found == tuple(item for item in items if item in found)
    assert len(asked) == len(set(asked)) <= len(items) ** 2 + 3 * len(items)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(1, 5))
def test_of_any_answers_ddmin_finds_a_part_that_shows_and_from_which_nothing_can_go(
    data: st.DataObject, n: int
) -> None:
    items = ITEMS[:n]
    table: dict[tuple[str, ...], bool | None] = {
        part: data.draw(st.sampled_from([True, False, None]), label=str(part)) for part in parts(items)
    }
    table[items], table[()] = True, False

    found = ddmin(items, table.__getitem__)

    assert table[found] is True
    for item in found:
        assert table[tuple(each for each in found if each != item)] is not True


def test_one_cause_of_eight_takes_no_more_than_two_questions_for_each_halving() -> None:
    items = tuple("abcdefgh")
    for cause in items:
        asked: list[tuple[str, ...]] = []

        def shows(part: tuple[str, ...], cause: str = cause, asked: list[tuple[str, ...]] = asked) -> bool:
            asked.append(part)
            return cause in part

        assert ddmin(items, shows) == (cause,)
        assert len(asked) <= 6


# --- torch or a dependency


class World:
    """A case that changes when the new torch and new packages of one of the causes are there."""

    def __init__(
        self, causes: Sequence[frozenset[str]], packages: Sequence[str], unknown: Sequence[Hybrid] = ()
    ) -> None:
        self.causes, self.packages, self.unknown = causes, tuple(packages), unknown
        self.asked: list[Hybrid] = []

    def changed(self, new: set[str]) -> bool:
        return any(cause <= new for cause in self.causes)

    def judge(self, hybrids: Sequence[Hybrid]) -> list[Answer]:
        self.asked += hybrids
        return [self.answer(hybrid) for hybrid in hybrids]

    def answer(self, hybrid: Hybrid) -> Answer:
        assert hybrid.swapped == tuple(sorted(hybrid.swapped)) != ()
        if hybrid in self.unknown:
            return Answer(None, "uninstallable: no")
        swapped = set(hybrid.swapped)
        new = {"torch"} | (set(self.packages) - swapped) if hybrid.torch is Side.NEW else swapped
        return Answer(Side.NEW if self.changed(new) else Side.OLD)


WORLDS = [
    ([{"torch"}], Cause.TORCH, ()),
    ([{"numpy"}], Cause.DEPENDENCY, ("numpy",)),
    ([{"numpy", "sympy"}], Cause.DEPENDENCY, ("numpy", "sympy")),
    ([{"torch", "sympy"}], Cause.TOGETHER, ("sympy",)),
    ([{"torch", "numpy", "sympy"}], Cause.TOGETHER, ("numpy", "sympy")),
    ([{"torch"}, {"setuptools"}], Cause.EITHER, ("setuptools",)),
]  # fmt: skip
PACKAGES = ("filelock", "fsspec", "numpy", "setuptools", "sympy")


@pytest.mark.parametrize(("causes", "cause", "packages"), WORLDS)
def test_every_cause_is_told(causes: list[set[str]], cause: Cause, packages: tuple[str, ...]) -> None:
    world = World([frozenset(each) for each in causes], PACKAGES)

    found = attribute(PACKAGES, {side: PACKAGES for side in Side}, world.judge)

    assert (found.cause, found.packages, found.bound) == (cause, packages, ())
    whole = [Hybrid(Side.NEW, PACKAGES), Hybrid(Side.OLD, PACKAGES)]
    assert world.asked[:2] == whole
    assert [trial.hybrid for trial in found.trials] == world.asked
    assert len(set(world.asked)) == len(world.asked)
    if cause is Cause.TORCH:
        assert world.asked == whole
    if cause is Cause.DEPENDENCY:
        assert (found.alone, found.reverses) == (True, True)


def test_what_torch_pins_belongs_to_torch() -> None:
    world = World([frozenset({"triton"})], (*PACKAGES, "triton"))

    found = attribute((*PACKAGES, "triton"), {side: PACKAGES for side in Side}, world.judge)

    assert (found.cause, found.bound) == (Cause.TORCH, ("triton",))


def test_where_nothing_can_be_taken_apart_nothing_is_claimed() -> None:
    world = World([frozenset({"triton"})], ("triton",))

    found = attribute(("triton",), {side: () for side in Side}, world.judge)

    assert (found.cause, world.asked) == (Cause.INSEPARABLE, [])


def test_where_nothing_else_differs_it_is_torch() -> None:
    assert attribute((), {side: () for side in Side}, World([frozenset({"torch"})], ()).judge).cause is Cause.TORCH


@pytest.mark.parametrize("causes", [[{"torch"}], [{"numpy"}], [{"torch", "numpy"}], [{"torch"}, {"numpy"}]])
def test_hybrids_that_cannot_be_made_are_never_good_or_bad(causes: list[set[str]]) -> None:
    unknown = [Hybrid(side, ("numpy",)) for side in Side]
    world = World([frozenset(each) for each in causes], ("numpy",), unknown)

    found = attribute(("numpy",), {side: ("numpy",) for side in Side}, world.judge)

    assert (found.cause, found.packages) == (Cause.INSEPARABLE, ())
    assert len(found.why) == 2
    assert all("uninstallable" in why for why in found.why)


@settings(deadline=None)
@given(st.data())
def test_whatever_hybrids_cannot_be_made_a_cause_that_is_named_is_true(data: st.DataObject) -> None:
    """Against every way in which torch and three packages can be the cause, with any hybrids missing."""
    packages = ("a", "b", "c")
    names = ("torch", *packages)
    drawn = data.draw(st.sets(st.frozensets(st.sampled_from(names), min_size=1), min_size=1, max_size=3))
    hybrids = [Hybrid(side, part) for side in Side for part in parts(packages) if part]
    world = World(sorted(drawn, key=sorted), packages, data.draw(st.lists(st.sampled_from(hybrids), unique=True)))
    separable = {side: data.draw(st.sets(st.sampled_from(packages)).map(lambda s: tuple(sorted(s)))) for side in Side}

    found = attribute(packages, separable, world.judge)

    with_packages = set(found.packages)
    if found.cause is Cause.TORCH:
        assert world.changed({"torch", *found.bound})
    if found.alone:
        assert world.changed(with_packages)
    if found.cause is Cause.DEPENDENCY:
        assert with_packages
        assert found.alone
    if found.cause is Cause.TOGETHER:
        assert with_packages
        assert not world.changed(with_packages)
        assert world.changed({"torch", *found.bound} | with_packages)
        assert not world.changed({"torch", *packages} - set(separable[Side.NEW]))
    if found.cause is Cause.EITHER:
        assert world.changed(with_packages)
        assert world.changed({"torch", *found.bound})
    if found.reverses:
        assert not world.changed({"torch", *packages} - with_packages)


# --- one hybrid's answer


def point(signature: str, *, flaky: bool = False, api_absent: bool = False, reason: str = "") -> Point:
    verdict = Verdict(signature.partition(":")[0])
    judgement = Judgement(verdict, signature, api_absent=api_absent, reason=reason)
    return Point("2.7.0", judgement, flaky=flaky, counts={signature: 2, "ok": 1} if flaky else {signature: 3})


def test_an_answer_is_that_of_the_end_with_the_same_signature() -> None:
    old, new = point("ok"), point("error:AttributeError", api_absent=True)

    assert answer_of(point("ok"), old, new) == Answer(Side.OLD)
    assert answer_of(point("error:AttributeError", api_absent=True), old, new) == Answer(Side.NEW)
    assert answer_of(point("error:AttributeError"), old, new) == Answer(None, "a third answer: error:AttributeError")
    assert answer_of(point("wrong"), old, new) == Answer(None, "a third answer: wrong")
    assert answer_of(None, old, new) == Answer(None, "not run")
    assert answer_of(point("broken", reason="no compiler"), old, new) == Answer(None, "broken: no compiler")
    assert answer_of(point("uninstallable", reason="x"), old, new) == Answer(None, "uninstallable: x")
    assert answer_of(point("wrong", flaky=True), old, new) == Answer(None, "flaky: wrong 2, ok 1")

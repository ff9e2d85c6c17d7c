"""The flaky part of a search on made-up observations: what is run next, what is named, when it stops."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from bisect_torch.analysis.question import Question
from bisect_torch.engine.search.probing import Memory
from bisect_torch.engine.search.weighing import PROCESS_S, Weighed, Weighing, Wish
from bisect_torch.model import Judgement, Observation, Point, Verdict
from tests.analysis.made import observe

BUILDS = tuple(f"2.{minor}.0" for minor in range(1, 10))
KEY = ("cases.py", "case", "cpu")


def weighing(question: Question, **options: object) -> Weighing:
    spent_s = float(str(options.pop("spent_s", 0.0)))
    request = SimpleNamespace(run=SimpleNamespace(jobs=2), **{"confidence": 0.95, "flaky_budget_s": 1e6, **options})
    return Weighing(KEY, question, request, 20.0, spent_s=spent_s)


def weigh(
    question: Question,
    word: Callable[[str], str],
    unjudged: tuple[str, ...] = (),
    elapsed_s: float = 0.1,
    **options: object,
) -> tuple[Weighed, list[Wish], list[Observation]]:
    """Answer every wish by ``word`` of the build. Repeats of a process are alike."""
    weighs, seen, wishes = weighing(question, **options), list[Observation](), list[Wish]()
    points = {(KEY, name): Point(name, Judgement(Verdict.BROKEN, "broken", reason="no library")) for name in unjudged}
    while True:
        weighed, wish = weighs.step(Memory((), {}, tuple(seen)), points, {}, {each.build_name for each in seen})
        if wish is None:
            return weighed, wishes, seen
        wishes.append(wish)
        if wish.build in unjudged:
            continue
        taken = sum(each.build_name == wish.build for each in seen)
        for process in range(wish.processes):
            answer = word(wish.build)
            for repeat in range(wish.each):
                number = taken + process * wish.each + repeat
                worker = f"{wish.build} {taken} {process}"
                seen.append(observe(answer, build=wish.build, repeat=number, worker=worker, elapsed_s=elapsed_s))
        assert len(wishes) < 300


def by_chance(first_bad: str, shows: float, seed: int) -> Callable[[str], str]:
    rng = random.Random(seed)
    place = BUILDS.index(first_bad)
    return lambda build: "wrong" if BUILDS.index(build) >= place and rng.random() < shows else "ok"


def test_a_flaky_bug_gets_its_boundary_and_few_builds_are_installed() -> None:
    right = 0
    for seed in range(3):
        weighed, _, seen = weigh(Question(BUILDS, good="2.1.0", bad="2.9.0"), by_chance("2.5.0", 0.5, seed))
        named = weighed.named
        assert named is not None
        assert named.confidence >= 0.95
        assert not weighed.fixed
        assert weighed.exit_code == 1
        assert len({each.build_name for each in seen}) <= 7
        right += (named.last_good, named.first_bad) == ("2.4.0", "2.5.0")
    assert right >= 2


def test_a_flaky_bug_that_was_fixed_is_found_from_the_other_side() -> None:
    def word(build: str) -> str:
        return "wrong" if BUILDS.index(build) < 3 and rng.random() < 0.6 else "ok"

    rng = random.Random(2)
    weighed, _, _ = weigh(Question(BUILDS, good="2.1.0", bad="2.9.0"), word)
    assert weighed.fixed
    assert weighed.named is not None
    assert (weighed.named.last_good, weighed.named.first_bad) == ("2.3.0", "2.4.0")
    assert weighed.exit_code == 0


def test_builds_that_cannot_be_judged_lie_between() -> None:
    weighed, wishes, _ = weigh(
        Question(BUILDS, good="2.1.0", bad="2.9.0"), by_chance("2.5.0", 0.9, 4), unjudged=("2.4.0", "2.5.0")
    )
    assert weighed.named is not None
    assert (weighed.named.last_good, weighed.named.first_bad) == ("2.3.0", "2.6.0")
    assert weighed.named.between == (("2.4.0", "no library"), ("2.5.0", "no library"))
    assert not {wish.build for wish in wishes} & {"2.4.0", "2.5.0"}


def test_what_is_bad_in_both_ends_now_and_then_gets_no_boundary() -> None:
    weighed, _, _ = weigh(Question(BUILDS, good="2.1.0", bad="2.9.0"), by_chance("2.1.0", 0.5, 1))
    assert weighed.named is None
    assert weighed.everywhere >= 0.95
    assert weighed.exit_code == 1


def test_the_budget_ends_it_and_that_is_said() -> None:
    weighed, _, _ = weigh(Question(BUILDS, good="2.1.0", bad="2.9.0"), by_chance("2.5.0", 0.1, 1), flaky_budget_s=60.0)
    assert weighed.named is None
    assert weighed.stopped == "the runs of flaky cases have used 60 s"
    assert weighed.exit_code == 3


def test_a_script_is_run_once_in_each_process() -> None:
    weighs = weighing(Question(BUILDS, good="2.1.0", bad="2.9.0"))
    seen = [
        observe(
            "wrong" if build == "2.9.0" else "ok", build=build, repeat=n, worker=f"{build} {n}", isolation="process"
        )
        for build in ("2.1.0", "2.9.0")
        for n in range(3)
    ]
    _, wish = weighs.step(Memory((), {}, tuple(seen)), {}, {}, set())
    assert wish is not None
    assert wish.each == 1


def test_wished_repeats_are_new_ones() -> None:
    """Repeats 0 and 2 are known: the third process of an end runs repeat 1."""
    weighs = weighing(Question(BUILDS, good="2.1.0", bad="2.9.0"))
    seen = [observe("ok", build="2.1.0", repeat=n, worker=f"w{n}") for n in (0, 2)]
    _, wish = weighs.step(Memory((), {}, tuple(seen)), {}, {}, set())
    assert wish == Wish("2.1.0", processes=1, each=1, repeats=2)


def test_builds_without_the_name_take_no_part() -> None:
    def word(build: str) -> str:
        return "api_absent" if BUILDS.index(build) < 2 else answer(build)

    answer = by_chance("2.6.0", 0.9, 3)
    weighs = weighing(Question(BUILDS, good="2.1.0", bad="2.9.0"))
    seen = [observe(word(build), build=build, worker=build) for build in ("2.1.0", "2.2.0", "2.9.0")]
    weighed, wish = weighs.step(Memory((), {}, tuple(seen)), {}, {}, set())
    assert wish is not None
    assert wish.build == "2.9.0"
    assert "2.1.0" not in weighed.counts


def test_hangs_share_the_budget_of_all_flaky_cases() -> None:
    """Each hang counts with the time that it was given; a row that comes later has what is left."""

    def hangs(build: str) -> str:
        return "timeout" if BUILDS.index(build) >= 4 and rng.random() < 0.2 else "ok"

    rng = random.Random(3)
    question = Question(BUILDS, good="2.1.0", bad="2.9.0")
    weighed, _, seen = weigh(question, hangs, elapsed_s=60.0, flaky_budget_s=1200.0)
    longest_step = 2 * (60.0 + PROCESS_S)  # two at once
    assert weighed.seconds == len(seen) * (60.0 + PROCESS_S)
    assert weighed.seconds <= 1200.0 + longest_step
    assert weighed.stopped == "the runs of flaky cases have used 1200 s"

    later, wishes, _ = weigh(question, hangs, elapsed_s=60.0, flaky_budget_s=1200.0, spent_s=weighed.seconds)
    assert wishes == []
    assert later.stopped == weighed.stopped


def test_a_process_gets_no_more_repeats_than_the_budget_has_time_for() -> None:
    weighs = weighing(Question(BUILDS, good="2.1.0", bad="2.9.0"), flaky_budget_s=300.0)
    seen = [
        observe("timeout" if n == 0 and build == "2.9.0" else "ok", build=build, repeat=n, worker=f"{build} {n}",
                elapsed_s=100.0 if n == 0 and build == "2.9.0" else 0.1)
        for build in ("2.1.0", "2.9.0")
        for n in range(3)
    ]  # fmt: skip
    _, wish = weighs.step(Memory((), {}, tuple(seen)), {}, {}, set(BUILDS))
    assert wish is not None
    assert wish.each * wish.processes * 100.0 <= 300.0


def test_nightlies_share_what_a_boundary_between_two_releases_is_held_to_be_worth() -> None:
    builds = ("2.1.0", "2.2.0", "n1", "n2", "n3", "2.3.0")
    question = Question(builds, good="2.1.0", bad="2.3.0", fine=frozenset(("n1", "n2", "n3")))
    weighed, _ = weighing(question).step(Memory((), {}, ()), {}, {}, set())
    held = {(each.last_good, each.first_bad): each.confidence for each in weighed.boundaries}
    assert held["2.1.0", "2.2.0"] == pytest.approx(4 * held["n1", "n2"])
    assert held["2.2.0", "n1"] == pytest.approx(held["n3", "2.3.0"])

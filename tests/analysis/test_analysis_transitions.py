"""Series and transitions: exhaustive over short histories, and the scenarios by name."""

from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_torch.analysis import Tolerances, build_series, counted, fold, judge, transitions
from bisect_torch.analysis.cells import _answer_of_several, answer_of
from bisect_torch.model import Isolation, Judgement, Observation, Point, Series, Transition, TransitionKind, Verdict
from tests.analysis.made import observe, signatures

ABSENT = "error:AttributeError"


def point(word: str, build: str) -> Point | None:
    if word == "not run":
        return None
    if word == "flaky":
        return Point(build, Judgement(Verdict.WRONG, "wrong"), flaky=True, counts={"ok": 1, "wrong": 2})
    if word == "unjudged":
        return Point(build, Judgement(Verdict.BROKEN, "broken", reason="control case failed"))
    if word == "api_absent":
        return Point(build, Judgement(Verdict.ERROR, ABSENT, api_absent=True))
    return Point(build, Judgement(Verdict(word.partition(":")[0]), word), processes=3, own_process=True)


def series(*words: str) -> Series:
    builds = tuple(f"2.{number}.0" for number in range(len(words)))
    return Series("f.py", "case", "cpu", builds, tuple(point(w, b) for w, b in zip(words, builds, strict=True)))


def ran(of: Series, processes: int) -> Series:
    points = (None if each is None else dataclasses.replace(each, processes=processes) for each in of.points)
    return dataclasses.replace(of, points=tuple(points))


@pytest.mark.parametrize(
    ("words", "enough"),
    [
        (("ok", "wrong", "wrong", "ok"), 3),
        (("ok", "flaky", "wrong", "wrong"), 8),  # 2 * 3 * 4**-8 <= 1e-4
        (("ok", "flaky", "wrong", "flaky", "flaky"), 18),  # most are flaky
        (("ok", "timeout", "flaky", "ok"), 8),
        (("timeout", "timeout", "flaky", "error:A"), 8),
    ],
)
def test_beside_flaky_builds_more_processes_confirm_a_transition(words: tuple[str, ...], enough: int) -> None:
    """Of a case that is random on one build, three and three that agree may be chance on others."""
    row = series(*words)
    assert not any(each.confirmed for each in transitions(ran(row, enough - 1)))
    found = transitions(ran(row, enough))
    assert found
    assert all(each.confirmed for each in found)


def test_a_timeout_is_not_waited_for_more_often_beside_flaky_builds() -> None:
    row = series("timeout", "flaky", "ok")
    points = (row.points[0], row.points[1], dataclasses.replace(row.points[2], processes=8))
    (found,) = transitions(dataclasses.replace(row, points=points))
    assert (found.before.processes, found.confirmed) == (3, True)


def shortened(found: list[Transition]) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [(t.kind.value, t.before.build, t.after.build, tuple(build for build, _ in t.between)) for t in found]


def brute_force(words: tuple[str, ...]) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """By the definition: two solid ends, nothing solid between, and different words."""
    names = [f"2.{number}.0" for number in range(len(words))]
    ends = [number for number, word in enumerate(words) if word not in ("unjudged", "flaky", "not run")]
    found = []
    for i, j in itertools.pairwise(ends):
        old, new = words[i], words[j]
        if old == new:
            continue
        if old == "api_absent":
            kind = "appeared"
        elif new == "api_absent":
            kind = "disappeared"
        elif old == "ok":
            kind = "broke"
        elif new == "ok":
            kind = "fixed"
        elif new == "wrong":
            kind = "became silent"
        else:
            kind = "changed"
        found.append((kind, names[i], names[j], tuple(names[i + 1 : j])))
    return found


WORDS = ("ok", "wrong", "error:A", "error:B", "api_absent", "unjudged", "flaky", "not run")


@pytest.mark.parametrize("length", range(7))
def test_every_history_up_to_six_builds_agrees_with_brute_force(length: int) -> None:
    pool = {(word, number): point(word, f"2.{number}.0") for word in WORDS for number in range(length)}
    builds = tuple(f"2.{number}.0" for number in range(length))
    for words in itertools.product(WORDS, repeat=length):
        row = Series("f.py", "case", "cpu", builds, tuple(pool[word, number] for number, word in enumerate(words)))
        assert shortened(transitions(row)) == brute_force(words), words


SCENARIOS = {
    "first release cannot be installed": (["unjudged", "ok", "wrong"], ["broke 2.1.0 2.2.0"]),
    "three releases beside the boundary cannot be judged": (
        ["ok", "unjudged", "unjudged", "unjudged", "wrong"],
        ["broke 2.0.0 2.4.0 between 2.1.0 2.2.0 2.3.0"],
    ),
    "fails differently": (["error:A", "error:B"], ["changed 2.0.0 2.1.0"]),
    "broken again": (["ok", "wrong", "ok", "wrong"], ["broke 2.0.0 2.1.0", "fixed 2.1.0 2.2.0", "broke 2.2.0 2.3.0"]),
    "never worked": (["error:A", "error:A", "error:A"], []),
    "always broken environment": (["unjudged", "unjudged"], []),
    "always ok": (["ok", "ok"], []),
    "an explicit error became silent": (["error:A", "wrong"], ["became silent 2.0.0 2.1.0"]),
    "silent became explicit": (["wrong", "error:A"], ["changed 2.0.0 2.1.0"]),
    "a hang became silent": (["timeout", "wrong"], ["became silent 2.0.0 2.1.0"]),
    "a crash became an error": (["crash:SIGFPE", "error:A"], ["changed 2.0.0 2.1.0"]),
    "another signal": (["crash:SIGFPE", "crash:SIGSEGV"], ["changed 2.0.0 2.1.0"]),
    "new api": (["api_absent", "api_absent", "ok"], ["appeared 2.1.0 2.2.0"]),
    "new api that is wrong": (["api_absent", "wrong"], ["appeared 2.0.0 2.1.0"]),
    "removed api": (["ok", "api_absent"], ["disappeared 2.0.0 2.1.0"]),
    "a flaky end": (["ok", "flaky"], []),
    "a flaky release between": (["ok", "flaky", "wrong"], ["broke 2.0.0 2.2.0 between 2.1.0"]),
    "disk full on the third": (["ok", "ok", "not run", "not run"], []),
    "flaky everywhere": (["flaky"] * 5, []),
    "no builds": ([], []),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    words, expected = SCENARIOS[name]
    told = [
        f"{kind} {before} {after}" + (f" between {' '.join(between)}" if between else "")
        for kind, before, after, between in shortened(transitions(series(*words)))
    ]
    assert told == expected


def test_what_lies_between_is_told_with_its_reason() -> None:
    (found,) = transitions(series("ok", "unjudged", "flaky", "not run", "wrong"))
    assert found.between == (
        ("2.1.0", "broken: control case failed"),
        ("2.2.0", "flaky: ok 1, wrong 2"),
        ("2.3.0", "not run"),
    )


def test_a_change_of_detail_alone_is_no_transition() -> None:
    old, new = (Point(b, Judgement(Verdict.ERROR, "error:A", detail=b)) for b in ("1", "2"))
    assert transitions(Series("f", "c", "cpu", ("1", "2"), (old, new))) == []


@pytest.mark.parametrize(("processes", "own", "expected"), [(3, True, True), (2, True, False), (3, False, False)])
def test_a_transition_is_confirmed_by_three_processes_one_its_own_at_both_ends(
    processes: int, own: bool, expected: bool
) -> None:
    solid = point("ok", "1")
    other = Point("2", Judgement(Verdict.WRONG, "wrong"), processes=processes, own_process=own)
    for points in ((solid, other), (other, solid)):
        (found,) = transitions(Series("f", "c", "cpu", ("1", "2"), points))
        assert found.confirmed is expected


EXPECTED: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent.parent / "data" / "real_series.json").read_text(encoding="utf-8")
)
REAL_BUILDS = EXPECTED.pop("builds")
TRANSITIONS = EXPECTED.pop("transitions")


def real_observations(name: str) -> list[Observation]:
    observations = []
    for build, word in zip(REAL_BUILDS, unrolled(name), strict=True):
        words = ["ok", "wrong", "wrong"] if word == "flaky" else [word] * 3
        if word == "absent":
            words = ["api_absent"] * 3
        observations += [
            observe(each, build, repeat, isolation="process", instance=name) for repeat, each in enumerate(words)
        ]
    return observations


def unrolled(name: str) -> list[str]:
    """``["ok 8", "wrong 5", …]``: a word and on how many builds in a row."""
    words = []
    for stretch in EXPECTED[name]:
        word, _, number = stretch.rpartition(" ")
        words += [word] * int(number)
    return words


@pytest.mark.parametrize("name", EXPECTED)
def test_real_public_bugs_give_the_transitions_that_their_series_imply(name: str) -> None:
    (row,) = build_series(real_observations(name), REAL_BUILDS)
    words = [ABSENT if word == "absent" else word for word in unrolled(name)]
    assert signatures(row) == words
    found = transitions(row)
    assert all(each.confirmed and not each.between for each in found)
    assert [f"{t.kind.value} in {t.after.build}" for t in found] == TRANSITIONS.get(name, [])


# --- series


def only(observations: list[Observation], **options: object) -> Point | None:
    (row,) = build_series(observations, ["2.4.1"], **options)  # type: ignore[arg-type]
    return row.points[0]


def test_repeats_that_differ_make_the_cell_flaky_and_bad_stands_before_ok() -> None:
    found = only([observe("ok", repeat=0), observe("wrong", repeat=1), observe("ok", repeat=2)])
    assert found is not None
    assert found.flaky
    assert not found.solid
    assert found.judgement.verdict is Verdict.WRONG
    assert found.counts == {"ok": 2, "wrong": 1}


@pytest.mark.parametrize("unjudged", ["infra", "broken", "skip", "uninstallable"])
def test_unjudged_repeats_do_not_count_beside_judged_ones(unjudged: str) -> None:
    found = only([observe(unjudged, repeat=0), observe("ok", repeat=1), observe(unjudged, repeat=2)])
    assert found is not None
    assert found.solid
    assert found.counts == {"ok": 1}
    assert found.processes == 1


def test_a_cell_with_no_judged_repeat_has_the_most_telling_reason() -> None:
    found = only([observe("infra", repeat=0), observe("broken", repeat=1)])
    assert found is not None
    assert (found.judgement.signature, found.judgement.reason) == ("broken", "control case failed")
    assert found.counts == {}


def test_forks_of_one_worker_count_as_one_process() -> None:
    found = only([observe("ok", repeat=number, worker="same") for number in range(5)])
    assert found is not None
    assert found.processes == 1


def test_the_newest_run_of_a_repeat_counts() -> None:
    old = observe("wrong", run_id="a", started_at="2026-11-29T00:00:00+00:00")
    new = observe("ok", run_id="b", started_at="2026-11-30T00:00:00+00:00")
    for order in ([old, new], [new, old]):
        found = only(order)
        assert found is not None
        assert found.counts == {"ok": 1}


def test_an_edited_case_file_does_not_share_a_series_with_what_it_was() -> None:
    """Else the edit would read as a change of torch."""
    old = [observe("wrong", build, case_file_hash="old") for build in ("2.4.1", "2.5.0")]
    new = observe("ok", "2.5.0", case_file_hash="new", key="other key")
    (row,) = build_series([*old, new], ["2.4.1", "2.5.0"])
    assert signatures(row) == [None, "ok"]
    assert counted([*old, new]) == [new]


@pytest.mark.parametrize("name", ["machine", "device_name", "driver"])
def test_two_machines_or_devices_do_not_share_a_series(name: str) -> None:
    old = [observe("wrong", build, **{name: "old"}) for build in ("2.4.1", "2.5.0")]
    new = observe("ok", "2.5.0", key="other key", **{name: "new"})
    (row,) = build_series([*old, new], ["2.4.1", "2.5.0"])
    assert signatures(row) == [None, "ok"]


def test_only_cells_with_the_given_keys_count() -> None:
    (row,) = build_series([observe("wrong", key="a"), observe("ok", "2.5.0", key="b")], ["2.4.1", "2.5.0"], keys={"b"})
    assert signatures(row) == [None, "ok"]


def test_rows_may_be_given_and_then_appear_without_observations_too() -> None:
    rows = [("cases.py", "unseen", "cpu"), ("cases.py", "case", "cpu")]
    found = build_series([observe("ok")], ["2.4.1"], rows=rows)
    assert [(row.instance, signatures(row)) for row in found] == [("unseen", [None]), ("case", ["ok"])]


@pytest.mark.parametrize("other", ["crash:SIGSEGV", "api_absent", "wrong", "timeout"])
def test_what_every_own_interpreter_says_counts_against_what_every_fork_says(other: str) -> None:
    """A crash at exit that forks hide; a name in torch that only a worker with the compiler loaded has."""
    answers = [observe("ok", repeat=0), observe("ok", repeat=1)]
    for repeat in (2, 3, 4):
        answers.append(observe(other, repeat=repeat, isolation="process"))
        found = only(answers)
        assert found is not None
        assert found.flaky == (repeat < 4)  # three by chance are as unlikely as any end of a transition
    assert found.judgement == judge(answers[-1])
    assert found.in_forks == "ok"
    assert found.solid
    for repeat, isolation in ((5, "process"), (6, "fork")):
        word = "ok" if isolation == "process" else other
        mixed = only([*answers, observe(word, repeat=repeat, isolation=isolation)])
        assert mixed is not None
        assert mixed.flaky
        assert mixed.in_forks is None


def test_an_undecidable_repeat_makes_no_solid_point() -> None:
    facts = {"error_bins": "[[0, 1, 0.0015]]", "checks": 1}
    observations = [observe("ok", repeat=0, **facts), observe("ok", repeat=1)]
    found = only(observations, tolerances=Tolerances(rtol=1e-3))
    assert found is not None
    assert found.judgement.verdict is Verdict.UNDECIDABLE
    assert not found.solid


def test_a_point_has_the_median_time_the_largest_error_and_all_digests() -> None:
    numbers = [(1.0, 0.1, "b"), (9.0, None, None), (2.0, 0.3, "a")]
    found = only([
        observe("ok", repeat=i, elapsed_s=s, rel_error=e, digest=d) for i, (s, e, d) in enumerate(numbers)
    ])  # fmt: skip
    assert found is not None
    assert (found.elapsed_s, found.rel_error, found.digests) == (2.0, 0.3, ("a", "b"))


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=9))
def test_the_time_of_a_point_is_the_median_of_all_its_repeats(times: list[float]) -> None:
    found = only([observe("ok", repeat=number, elapsed_s=each) for number, each in enumerate(times)])
    assert found is not None
    assert found.elapsed_s == statistics.median(times)


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("isolation", [None, *(each.value for each in Isolation)])
def test_one_repeat_alone_means_what_it_means_among_several(verdict: Verdict, isolation: str | None) -> None:
    judgement = Judgement(verdict, f"{verdict.value}:A", reason="why")
    assert answer_of([(isolation, judgement)]) == _answer_of_several([(isolation, judgement)])


words = st.sampled_from(["ok", "wrong", "error:A", "crash:SIGSEGV", "timeout", "infra", "broken", "api_absent"])


@given(st.permutations(range(6)), st.lists(words, min_size=6, max_size=6))
@settings(max_examples=50)
def test_the_order_of_different_repeats_does_not_matter(order: list[int], each: list[str]) -> None:
    observations = [observe(word, repeat=number) for number, word in enumerate(each)]
    first, then = only(observations), only([observations[number] for number in order])
    assert first is not None
    assert then is not None
    assert (first.judgement.signature, first.flaky, first.counts) == (then.judgement.signature, then.flaky, then.counts)


@given(st.lists(st.tuples(words, st.sampled_from(["fork", "process"])), min_size=1, max_size=8))
@settings(max_examples=200)
def test_a_point_is_flaky_when_judged_repeats_differ_unless_the_isolation_tells_them_apart(
    each: list[tuple[str, str]],
) -> None:
    observations = [observe(word, repeat=n, isolation=isolation) for n, (word, isolation) in enumerate(each)]
    said = {"fork": set[str](), "process": set[str]()}
    own = 0
    for (_, isolation), observation in zip(each, observations, strict=True):
        judgement = judge(observation)
        if judgement.verdict.judged:
            said[isolation].add(judgement.signature)
            own += isolation == "process"
    told_apart = len(said["fork"]) == len(said["process"]) == 1 and own >= 3
    found = only(observations)
    assert found is not None
    assert found.flaky == (len(said["fork"] | said["process"]) > 1 and not told_apart)
    if told_apart:
        assert {found.judgement.signature} == said["process"]
    assert (found.in_forks is not None) == (told_apart and said["fork"] != said["process"])


# --- folding


def test_rows_that_went_alike_are_folded_in_order() -> None:
    one, two, three = series("ok", "wrong"), series("ok", "ok"), series("ok", "wrong")
    assert fold([one, two, three]) == [(one, three), (two,)]


def test_rows_with_a_flaky_or_absent_point_are_not_alike() -> None:
    rows = [series("ok", word) for word in ("wrong", "flaky", "api_absent", ABSENT, "not run")]
    assert [len(group) for group in fold(rows)] == [1] * 5


def test_kinds_are_those_of_the_model() -> None:
    assert {kind.value for kind in TransitionKind} == {
        "broke", "fixed", "became silent", "changed", "appeared", "disappeared"
    }  # fmt: skip


def test_a_search_looks_over_builds_that_lack_the_name() -> None:
    """Their absence is told by a transition of its own; the change behind it is not lost in it."""
    words = ["ok", "api_absent", "api_absent", "error:AttributeError"]
    builds = [f"2.{place}.0" for place in range(4)]
    (series,) = build_series([observe(word, build=build) for word, build in zip(words, builds, strict=True)], builds)
    every = [(each.kind, each.before.build, each.after.build) for each in transitions(series)]
    # The same signature on both sides: that the name is there by now is a change all the same.
    assert every == [
        (TransitionKind.DISAPPEARED, "2.0.0", "2.1.0"),
        (TransitionKind.APPEARED, "2.2.0", "2.3.0"),
    ]
    (found,) = transitions(series, over_absent=True)
    assert (found.kind, found.before.build, found.after.build) == (TransitionKind.BROKE, "2.0.0", "2.3.0")
    assert found.between == (("2.1.0", "API absent"), ("2.2.0", "API absent"))

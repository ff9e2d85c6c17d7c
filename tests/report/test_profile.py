"""A profile from hand-made events: what is a span, where it lies, what idle slots waited for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.engine.events import (
    BuildProgress,
    CellFinished,
    CellLost,
    CellStarted,
    EnvironmentReady,
    Loading,
    RunPlanned,
    Step,
    Working,
)
from bisect_torch.model import Build, BuildKind
from bisect_torch.report.profile import Collector, Profile, Span, summary_lines
from bisect_torch.report.profile.idle import NOTHING_LEFT, Interval, idle_time, total, without
from bisect_torch.report.profile.spans import own_lengths
from tests.report.histories import build, environment, instance, judgement, observation

OLD, NEW = build("2.4.1"), build("2.5.0")
SECOND = 10**9


def spans_of(*events: object, jobs: int = 1, repeats: int = 1) -> list[tuple[str, str, str, int, int]]:
    """Track, kind, name, begin and end in whole seconds."""
    collector = Collector()
    collector(RunPlanned((OLD, NEW), (), ("cpu",), 0, 0, jobs, repeats=repeats))
    for event in events:
        collector(event)
    return [
        (each.track, each.kind, each.name, each.begin // SECOND, each.end // SECOND)
        for each in collector.profile().spans
    ]


def finished(name: str, at: float, repeat: int = 0) -> CellFinished:
    of = instance("bmm", n=repeat)
    return CellFinished(of, observation(of, name, repeat=repeat), judgement("ok"), slot=0, at=at)


def started(at: float, repeat: int = 0) -> CellStarted:
    return CellStarted(OLD, instance("bmm", n=repeat), "cpu", repeat, slot=0, at=at)


def test_a_slot_works_loads_and_runs_cells() -> None:
    found = spans_of(
        Working(OLD, 2, 0, at=1),
        Loading(OLD, "loading torch", 0, at=2),
        Loading(OLD, "loading torch", 0, ended=True, at=4),
        started(4),
        finished("2.4.1", 5),
        started(5, repeat=1),
        Loading(OLD, "checking that compile works", 0, at=6),
        Loading(OLD, "checking that compile works", 0, ended=True, at=7),
        finished("2.4.1", 8, repeat=1),
        Working(OLD, 2, 0, ended=True, at=9),
    )
    assert found == [
        ("slot 1", "work", "2.4.1", 1, 9),
        ("slot 1", "loading torch", "loading torch", 2, 4),
        ("slot 1", "cell", "bmm[n=0]", 4, 5),
        ("slot 1", "confirmation", "bmm[n=1]", 5, 8),
        ("slot 1", "checking that compile works", "checking that compile works", 6, 7),
    ]


def test_repeats_that_were_asked_for_confirm_nothing() -> None:
    events = [started(4, repeat=1), finished("2.4.1", 5, repeat=1), started(5, repeat=2), finished("2.4.1", 6, 2)]
    assert [kind for _, kind, *_ in spans_of(*events, repeats=2)] == ["cell", "confirmation"]


def test_a_cell_whose_worker_was_lost_is_there_twice() -> None:
    lost = CellLost(OLD, instance("bmm", n=0), "cpu", 0, 0, at=5)
    found = spans_of(started(4), lost, started(6), finished("2.4.1", 7))
    assert [each[3:] for each in found] == [(4, 5), (6, 7)]


def test_what_never_ran_has_no_span() -> None:
    of = instance("bmm")
    refused = CellFinished(of, observation(of, "2.4.1"), judgement("skip"), slot=0, at=5)
    kept = CellFinished(of, observation(of, "2.4.1"), judgement("ok"), kept=True)
    assert spans_of(refused, kept) == []


def test_what_is_cut_off_ends_with_the_profile() -> None:
    collector = Collector(jobs=1)
    collector(Working(OLD, 1, 0))
    collector(CellStarted(OLD, instance("bmm"), "cpu", 0, slot=0))
    profile = collector.profile()
    assert [(span.kind, span.end, span.details.get("unfinished")) for span in profile.spans] == [
        ("work", profile.end, "cut off"),
        ("cell", profile.end, "cut off"),
    ]


def test_an_environment_has_its_phases() -> None:
    found = spans_of(
        BuildProgress(OLD, "locking", at=1),
        BuildProgress(OLD, "waiting", at=2),
        BuildProgress(OLD, "installing", at=3),
        BuildProgress(OLD, "downloading", done_bytes=1, total_bytes=2, at=4),
        BuildProgress(OLD, "downloading", done_bytes=2, total_bytes=2, at=5),
        BuildProgress(OLD, "installing", at=7),
        BuildProgress(OLD, "ready", at=8),
        EnvironmentReady(OLD, environment("2.4.1"), 7.0, reused=False, at=8),
        BuildProgress(NEW, "locking", at=8),
        BuildProgress(NEW, "failed", message="no wheel", at=9),
    )
    assert found == [
        ("installer", "environment", "2.4.1", 1, 8),
        ("installer", "locking", "locking", 1, 2),
        ("installer", "waiting", "waiting", 2, 3),
        ("installer", "installing", "installing", 3, 4),
        ("installer", "downloading", "downloading", 4, 7),
        ("installer", "installing", "installing", 7, 8),
        ("installer", "environment", "2.5.0", 8, 9),
        ("installer", "locking", "locking", 8, 9),
    ]


def test_an_environment_that_fails_later_cuts_off_no_other() -> None:
    """It changed during the run; by then the next one is made."""
    found = spans_of(
        BuildProgress(OLD, "locking", at=1),
        BuildProgress(OLD, "ready", at=2),
        BuildProgress(NEW, "locking", at=3),
        BuildProgress(OLD, "failed", message="changed", at=4),
        BuildProgress(NEW, "ready", at=5),
    )
    assert [each[2:] for each in found if each[1] == "environment"] == [("2.4.1", 1, 2), ("2.5.0", 3, 5)]


def test_a_late_word_of_the_download_makes_no_span_of_negative_length() -> None:
    found = spans_of(
        BuildProgress(OLD, "locking", at=1),
        BuildProgress(OLD, "installing", at=4),
        BuildProgress(OLD, "downloading", at=3),
        BuildProgress(OLD, "ready", at=5),
    )
    assert [each[3:] for each in found if each[1] == "downloading"] == [(4, 5)]


def test_an_interpreter_of_ones_own_takes_its_check() -> None:
    local = Build(BuildKind.LOCAL, "2.9.1", "/opt/python")
    found = spans_of(EnvironmentReady(local, environment("2.4.1"), 2.0, reused=True, at=9))
    assert found == [("installer", "environment", "/opt/python", 7, 9)]


def a_profile(*spans: tuple[str, str, int, int], slots: int = 2, seconds: int = 100) -> Profile:
    made = [Span(kind, kind, track, begin * SECOND, end * SECOND) for track, kind, begin, end in spans]
    made.sort(key=lambda span: (span.begin, -span.end))
    return Profile(0, seconds * SECOND, slots, tuple(made))


A_RUN = a_profile(
    ("bisect-torch", "planning", 0, 10),
    ("installer", "environment", 10, 50),
    ("installer", "downloading", 12, 40),
    ("installer", "checking", 40, 50),
    ("bisect-torch", "sweeping environments", 45, 55),
    ("bisect-torch", "results file", 95, 100),
    ("slot 1", "work", 20, 90),
    ("slot 1", "cell", 25, 90),
    ("slot 2", "work", 50, 52),
    ("slot 2", "work", 60, 70),
)


def test_idle_slots_wait_for_what_goes_on_meanwhile() -> None:
    """Slot 1: planning 0-10, the environment 10-12, downloading 12-20, nothing left 90-100. Slot 2: planning 0-10, the
    environment 10-12, downloading 12-40, checking 40-50, sweeping 52-55, nothing left 55-60 and 70-100."""
    assert {kind: length / SECOND for kind, length in idle_time(A_RUN).items()} == {
        "planning": 20,
        "environment": 4,
        "downloading": 36,
        "checking": 10,
        "sweeping environments": 3,
        NOTHING_LEFT: 45,
    }


def test_the_summary_adds_up_to_slots_times_wall() -> None:
    lines = summary_lines(A_RUN)
    assert lines[0] == "profile: 100.0 s, 2 slots: 200.0 s of slots"
    assert lines[1:] == [
        "  cells                      65.0 s  1, 0.0 s of it the cases themselves",
        "  between cells              17.0 s",
        "  idle, cells waiting        73.0 s  36.5 % of slots × time, for downloading 36.0 s, planning 20.0 s, "
        "checking 10.0 s, environment 4.0 s, sweeping environments 3.0 s",
        "  idle, nothing left to run  45.0 s",
        "  installer meanwhile: downloading 28.0 s, checking 10.0 s, environment 2.0 s",
        "  bisect-torch meanwhile: planning 10.0 s, sweeping environments 10.0 s, results file 5.0 s",
    ]


def test_a_profile_without_a_run_can_be_summed_up() -> None:
    """The line was refused, or everything was known."""
    assert summary_lines(Profile(0, 0, 0, ())) == ["profile: 0.0 s, 0 slots: 0.0 s of slots"]


def test_steps_are_the_tools_own_and_what_is_installed_ahead_has_a_track() -> None:
    found = spans_of(Step("journal", 1, 2), Step("installing ahead", 1, 3, OLD))
    assert found == [
        ("installing ahead", "installing ahead", "installing ahead", 1, 3),
        ("bisect-torch", "journal", "journal", 1, 2),
    ]


TIMES = st.lists(st.integers(0, 60), max_size=12, unique=True).map(
    lambda times: [(a, b) for a, b in zip(sorted(times)[::2], sorted(times)[1::2], strict=False)]
)


@given(TIMES, TIMES)
def test_intervals_are_taken_out_like_their_points(intervals: list[Interval], taken: list[Interval]) -> None:
    def points(of: list[Interval]) -> set[int]:
        return {point for begin, end in of for point in range(begin, end)}

    left = without(intervals, taken)
    assert points(left) == points(intervals) - points(taken)
    assert total(left) == len(points(left))
    assert left == sorted(left)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20), st.integers(0, 3)), max_size=8))
def test_own_lengths_add_up(parts: list[tuple[int, int, int]]) -> None:
    """Outer spans one after the other, each with some children of one second."""
    spans, now = [], 0
    for gap, length, children in parts:
        begin = now + gap
        inner = min(length, children)
        spans.append(Span("outer", "", "slot 1", begin, begin + length))
        spans += [Span("inner", "", "slot 1", begin + n, begin + n + 1) for n in range(inner)]
        now = begin + length
    own = own_lengths(spans)
    assert sum(own) == sum(span.length for span in spans if span.kind == "outer")
    assert min(own, default=0) >= 0

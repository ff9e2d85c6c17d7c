"""The time that a search says it will take follows what its builds have taken."""

from __future__ import annotations

import pytest

from bisect_torch.engine.search.pace import Pace
from bisect_torch.engine.search.request import Judging
from bisect_torch.engine.search.weighing import PROCESS_S
from bisect_torch.report.bisection import _event_words


class Clock:
    """Seconds that go on when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def left_s(pace: Pace, builds: int, installs: int, elapsed_s: float | None = None, rows: int = 1) -> float | None:
    """With six places, where what confirms one row takes as long as one build."""
    return pace.left_s(builds, installs, elapsed_s, rows=rows, jobs=6)


def test_before_anything_was_measured_it_rests_on_earlier_runs_or_is_not_said(clock: Clock) -> None:
    pace = Pace(20.0, list, clock)
    assert left_s(pace, 3, 2) is None, "the first cell may compile for minutes"
    assert left_s(pace, 3, 2, 1.0) == 2 * 20.0 + (3 + 1) * (1.0 + PROCESS_S)


def test_what_confirms_is_counted_by_rows_and_places(clock: Clock) -> None:
    pace = Pace(20.0, list, clock)
    with pace.measuring(1, lambda: 1, jobs=1):
        clock.now += 10.0
    assert pace.left_s(1, 0, None, rows=1, jobs=1) == 10.0 + 6 * 10.0
    assert pace.left_s(1, 0, None, rows=1, jobs=4) == 10.0 + 15.0
    assert pace.left_s(1, 0, None, rows=1, jobs=16) == 10.0 + 10.0
    assert pace.left_s(1, 0, None, rows=100, jobs=4) == 10.0 + 60.0


def test_installing_and_running_are_measured_apart(clock: Clock) -> None:
    made: list[float] = []
    pace = Pace(20.0, lambda: made, clock)
    with pace.measuring(1, lambda: 1, jobs=4):
        clock.now += 37.0
        made.append(30.0)
    assert left_s(pace, 3, 2, 1.0) == 2 * 30.0 + (3 + 1) * 7.0
    with pace.measuring(1, lambda: 1, jobs=4):  # one that is there
        clock.now += 9.0
    assert left_s(pace, 3, 2, 1.0) == 2 * 30.0 + (3 + 1) * 8.0


@pytest.mark.parametrize(
    ("rows", "jobs", "alone_s"),
    [
        (1, 4, 10.0),  # both ran side by side: one alone takes as long
        (1, 1, 5.0),  # one after the other
        (100, 4, 5.0),  # every place was busy
        (3, 4, 10.0 * 4 / 6),  # three places of four would be
    ],
)
def test_two_ends_that_were_judged_together_are_no_half_each(
    clock: Clock, rows: int, jobs: int, alone_s: float
) -> None:
    made: list[float] = []
    pace = Pace(20.0, lambda: made, clock)
    with pace.measuring(2, lambda: rows, jobs):
        clock.now += 50.0
        made += [15.0, 25.0]
    assert pace.run_s(99.0) == pytest.approx(alone_s)
    assert pace.install_s == 20.0


def test_what_was_cut_off_or_did_not_run_does_not_count(clock: Clock) -> None:
    pace = Pace(20.0, list, clock)

    def cut_off() -> None:
        with pace.measuring(1, lambda: 1, jobs=1):
            clock.now += 1.0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut_off()
    with pace.measuring(1, lambda: 0, jobs=1):  # its environment could not be made
        clock.now += 1.0
    assert pace.run_s(1.0) == 1.0 + PROCESS_S
    assert pace.run_s(None) is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "5 s"), (5.1, "10 s"), (58, "60 s"), (61, "65 s"), (90, "90 s"), (91, "2 min"), (121, "3 min")],
)
def test_the_time_is_rounded_up(seconds: float, said: str) -> None:
    judging = Judging(("2.6.0",), None, None, at_most=1, installs=0, seconds=seconds)
    assert _event_words(judging).endswith(f"about {said} with confirming")


def test_a_time_that_is_not_known_is_not_said() -> None:
    judging = Judging(("2.6.0",), None, None, at_most=1, installs=0, seconds=None)
    assert _event_words(judging) == "judging 2.6.0: at most 1 build to go"

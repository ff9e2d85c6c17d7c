"""A line now and then while nothing else is told: a log that stands still looks like a run that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from bisect_torch.report.progress import ACTIVE_PHASES, BuildState, RunProgress
from bisect_torch.report.text import bytes_words, clean, plural, seconds_words, shorten_middle

QUIET_S = 30.0
"""Seconds without a line after which there is one."""

LONGEST_QUIET_S = 240.0
"""What they grow to, doubled each time, where nothing has moved in between. Services that watch logs end a job that is
silent for 10 minutes."""

_LOOK_S = 1.0
_MOST = 3
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Still:
    """What is being done.

    Args:
        text: One line.
        moves: Equal as long as nothing has moved, whatever the clock says.
    """

    text: str
    moves: Hashable


def still(progress: RunProgress, now: float) -> Still | None:
    """What a run is doing; None before it is planned and after it has ended.

    Args:
        now: Monotonic seconds, by the clock that ``progress`` uses.
    """
    if not progress.builds or progress.finished is not None:
        return None
    if progress.confirming:
        head = f"confirmed {progress.repeats_done:,} of {progress.repeats_wanted:,}"
    else:
        head = f"{progress.cells_done:,} of {plural(progress.cells, 'cell')}"
    made = [state for state in progress.builds.values() if state.phase in ACTIVE_PHASES]
    activities = progress.activities
    doing = [f"{_name(state.build.name)}: {_making(state, now)}" for state in made]
    doing += [f"{_name(each.build)}: {_name(each.what)}{_for(now - each.began)}" for each in activities]
    more = [f"{len(doing) - _MOST} more"] if len(doing) > _MOST else []
    left = progress.seconds_left()
    about = [f"about {seconds_words(left)} left{then_confirming(progress)}"] if left else []
    bytes_done = sum(state.done_bytes or 0 for state in made)
    moves = (head, bytes_done, tuple((state.build.name, state.phase) for state in made), tuple(activities))
    return Still("; ".join([head, *doing[:_MOST], *more, *about]), moves)


def then_confirming(progress: RunProgress) -> str:
    """What comes after the time that is told: nobody knows yet how much."""
    return ", then confirming" if progress.confirms and not progress.confirming else ""


def _name(text: str) -> str:
    return shorten_middle(clean(text), _LONGEST_NAME)


def _making(state: BuildState, now: float) -> str:
    words = state.phase
    if state.phase == "downloading" and state.total_bytes:
        words += f" {bytes_words(state.done_bytes or 0)} of {bytes_words(state.total_bytes)}"
    return words + _for(now - state.phase_began)


def _for(seconds: float) -> str:
    return f" for {seconds_words(int(seconds))}" if seconds >= 1 else ""


class Heartbeat:
    """Looks every second, in a thread of its own, whether a line is due; a context manager.

    Args:
        beat: Called each time.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _tick(self) -> None:
        while not self._stop.wait(_LOOK_S):
            self._beat()

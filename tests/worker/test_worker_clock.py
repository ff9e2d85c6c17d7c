"""Only the time that a cell can have used counts: no clock that is set and no machine that sleeps makes a timeout."""

from __future__ import annotations

import ast
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bisect_torch.worker import launch, supervise
from bisect_torch.worker.clock import MOST_FORGIVEN
from bisect_torch.worker.ending import Ending
from tests.worker.support import REPOSITORY


@dataclass
class Clock:
    """A monotonic clock that moves only while the supervisor waits: a fake of what surrounds it.

    Args:
        ends_after: Seconds of its own time that the cell takes.
        sleeps_at: Seconds of waiting at which the machine goes to sleep.
        sleeps: For how long; nothing runs meanwhile.
    """

    ends_after: float
    sleeps_at: tuple[float, ...] = ()
    sleeps: float = 0.0
    now: float = 1000.0
    ran: float = 0.0
    killed: list[int] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def wait(self, milliseconds: int) -> list[Any]:
        seconds = min(milliseconds / 1000, max(self.ends_after - self.ran, 0.0))
        asleep = sum(self.sleeps for moment in self.sleeps_at if self.ran <= moment < self.ran + seconds)
        self.ran += seconds
        self.now += seconds + asleep
        return []


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Ending]]:
    """Watches a cell in fake time."""
    ours, theirs = socket.socketpair()
    requests, orchestrator = socket.socketpair()
    ours.setblocking(False)
    pipes = [os.pipe() for _ in range(3)]
    child = launch.Child(os.getpid(), ours, pipes[0][0], pipes[1][0], pipes[2][1], str(tmp_path), 0)

    def watched(clock: Clock, limit_s: float) -> Ending:
        wakeup = pipes[2][0]
        made = supervise.Watch(child, supervise.Limits(1.0, limit_s), bytes(16), requests, wakeup, lambda: None)
        made._enter("run")
        monkeypatch.setattr(supervise.time, "monotonic", clock.monotonic)
        monkeypatch.setattr(made, "_poll", type("Poll", (), {"poll": staticmethod(clock.wait)}))
        monkeypatch.setattr(made, "_reap", lambda: clock.ran >= clock.ends_after)
        monkeypatch.setattr(made, "_kill", lambda: None)
        monkeypatch.setattr(made, "_finish", lambda: None)
        monkeypatch.setattr(made._clock, "forgive_waiting", lambda: False)
        return made.to_the_end()

    yield watched
    for connection in (ours, theirs, requests, orchestrator):
        connection.close()
    for pair in pipes:
        for end in pair:
            os.close(end)


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.2, 2.0, 2.4, 2.85])
@pytest.mark.parametrize("sleeps", [0.3, 5.0, 3600.0])
def test_a_machine_that_sleeps_at_any_moment_makes_no_timeout(
    watch: Callable[..., Ending], moment: float, sleeps: float
) -> None:
    """Near its limit too: it has what is left."""
    limit = 3.0 if sleeps > 1 else 3.5
    assert not watch(Clock(2.9, (moment,), sleeps), limit).timed_out


def test_a_machine_that_sleeps_every_second_makes_no_timeout(watch: Callable[..., Ending]) -> None:
    assert not watch(Clock(2.9, tuple(moment / 2 for moment in range(6)), 60.0), 3.0).timed_out


@pytest.mark.parametrize("sleeps_at", [(), (1.5,), tuple(range(1000))])
def test_what_never_ends_is_a_timeout_all_the_same(watch: Callable[..., Ending], sleeps_at: tuple[float, ...]) -> None:
    clock = Clock(1e9, sleeps_at, 10.0)
    assert watch(clock, 3.0).timed_out
    assert clock.ran < 3.0 * (MOST_FORGIVEN + 1) + 2


def calls_of_the_wall_clock(path: Path) -> list[str]:
    """Lines that ask what time it is by the clock on the wall, which may be set at any moment."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in ("time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "time.localtime"):
                found.append(f"{path.name}:{node.lineno} {name}")
    return found


def test_no_limit_is_measured_by_the_clock_on_the_wall() -> None:
    folders = [REPOSITORY / "bisect_torch" / name for name in ("worker", "engine")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    files += [REPOSITORY / "bisect_torch" / name for name in ("child_processes.py", "interruption.py")]
    assert len(files) > 40
    assert [call for path in files for call in calls_of_the_wall_clock(path)] == []

"""Cells that have ended by the time the loop comes to them are written together; a Ctrl-C meanwhile loses none."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bisect_torch.engine import events
from bisect_torch.engine.plan import CellRun, Task
from bisect_torch.engine.run import Run
from bisect_torch.engine.slot_messages import CellBegan, CellDone, Expanded
from bisect_torch.engine.telling import Telling
from bisect_torch.engine.under_way import UnderWay
from bisect_torch.model import Build, BuildKind, Case, CaseFile, CaseKind, Environment, Instance, Isolation
from tests.results.made import observation

BUILD = Build(BuildKind.RELEASE, "2.9.1", "2.9.1")
FILE = CaseFile(Path("/cases.py"), "0" * 64, CaseKind.CASE)
ENVIRONMENT = Environment(BUILD, Path(), Path(), "3.11.7", "", {}, "2.9.1", None, None, "pypi")


class Ledger:
    """Remembers what was recorded at once."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []
        self.interrupt = False
        self.file = self
        self.private = self

    def hide_secrets(self, text: str) -> str:
        return text

    def record(self, cells: Sequence[tuple[CellRun, Environment | None, Mapping[str, object]]]) -> list[Any]:
        if self.interrupt:
            self.interrupt = False
            raise KeyboardInterrupt
        self.written.append([run.instance.name for run, _, _ in cells])
        return [(observation(instance=run.instance.name), None) for run, _, _ in cells]


class Place(Run):
    """A run of which only the loop's own parts are there."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.ledger = Ledger()
        self._ledger: Any = self.ledger
        self._inbox = queue.Queue()
        self._came = deque()
        as_any: Any = self
        self._tell = Telling(self._observed, self._ledger)
        self._under_way = UnderWay(as_any, {BUILD.name: ENVIRONMENT}, self._tell)
        self._second_look = as_any

    slots = 1

    def submit(self, task: Task) -> None:
        """As a site does."""
        self.told.append(f"again {task.runs[0].instance.name}")

    def ran(self, run: CellRun) -> None:
        """As a second look does."""
        self.told.append(f"ran {run.instance.name}")

    def _observed(self, event: object) -> None:
        if not isinstance(event, events.Step):
            self.told.append(type(event).__name__)

    def _on_expanded(self, message: Expanded) -> None:
        self.told.append("expanded")

    def came(self, *messages: Any) -> None:
        for message in messages:
            self._inbox.put(message)

    def handle(self) -> None:
        self._handle_what_came()

    def stopped(self) -> None:
        self._keep_what_ended()


def cell(name: str) -> CellRun:
    return CellRun(Instance(Case(FILE, name), ()), BUILD, "cpu", 0, Isolation.FORK)


def done(name: str, outcome: str = "returned") -> CellDone:
    return CellDone(Task(ENVIRONMENT, (cell(name),), forked=True), cell(name), {"outcome": outcome}, 0, 0.0)


def test_cells_that_ended_together_are_written_together_and_told_in_order() -> None:
    place = Place()
    place.came(done("a"), CellBegan(cell("b"), 0, 0.0), done("b"), Expanded(FILE, ENVIRONMENT, ()), done("c"))
    place.handle()
    assert place.ledger.written == [["a", "b"]]
    assert place.told == ["CellFinished", "ran a", "CellStarted", "CellFinished", "ran b", "expanded"]
    place.handle()
    assert place.ledger.written == [["a", "b"], ["c"]]


def test_a_cell_that_is_lost_among_them_is_run_again_once() -> None:
    place = Place()
    place.came(done("a", "lost"), done("b"))
    place.handle()
    assert (place.ledger.written, place.told[-3:]) == ([["b"]], ["again a", "CellFinished", "ran b"])
    place.came(done("a", "lost"))
    place.handle()
    assert (place.ledger.written, place.told[-2:]) == ([["b"], ["a"]], ["CellFinished", "ran a"])


def test_an_interruption_while_they_are_written_loses_none() -> None:
    place = Place()
    place.came(done("a"), done("b"), done("x", "lost"))
    place.ledger.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        place.handle()
    place.came(done("c"))
    place.stopped()
    assert place.ledger.written == [["a", "b", "c"]]
    assert place.told == ["CellFinished"] * 3

"""What has happened so far in a run, kept from its events. The live screen and the plain lines both read it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bisect_torch.engine.events import (
    LOADING_COMPILER,
    LOADING_TORCH,
    BuildProgress,
    CellFinished,
    CellStarted,
    Confirming,
    EnvironmentReady,
    Event,
    Loading,
    RowsAdded,
    RunFinished,
    RunPlanned,
)
from bisect_torch.model import Build, Instance, Judgement, Verdict
from bisect_torch.report.marks import MARK_PENDING, MARK_RUNNING, Mark, mark_of
from bisect_torch.report.matrix import Row

RowKey = tuple[str, str, str]
"""Case file, instance, device."""

_SETTLED = ("ready", "failed")

ACTIVE_PHASES = ("downloading", "installing", "checking", "locking")
"""Of an environment that is being made; what is nearest to its end first."""

WHAT_CONFIRMING_IS = "then what is told of them runs again in more processes"
"""Before anything tells how long that takes."""

LONG_S = 60.0
"""What is worth a word on how to do without it."""

ENOUGH = 5
"""Cells or repeats after which their pace says something about the rest."""


@dataclass(frozen=True)
class Activity:
    """What one of the places that run cells is doing.

    Args:
        began: By the clock of the progress.
    """

    build: str
    what: str
    began: float


class CellState:
    """One place of the matrix: the repeats that have ended and those that run, and its mark (kept, since it is drawn
    far more often than it changes)."""

    __slots__ = ("flaky", "judgement", "mark", "running")

    def __init__(self) -> None:
        self.judgement: Judgement | None = None
        self.flaky = False
        self.running = 0
        self.mark: Mark = MARK_PENDING

    def started(self) -> None:
        """A repeat of it runs."""
        self.running += 1
        if self.judgement is None:
            self.mark = MARK_RUNNING

    def add(self, judgement: Judgement) -> None:
        """Take another repeat in. A bad one outweighs ``ok``; a judged one outweighs what could not be judged."""
        seen = self.judgement
        if seen is None or (judgement.verdict.judged and not seen.verdict.judged):
            self.judgement = judgement
        elif judgement.verdict.judged and judgement.signature != seen.signature:
            self.flaky = True
            if judgement.verdict.bad and not seen.verdict.bad:
                self.judgement = judgement
        self.mark = mark_of(self.judgement or judgement, flaky=self.flaky)


def _activity_key(instance: Instance, device: str, build: str, repeat: int) -> tuple[object, ...]:
    return instance.case.file.path, instance.name, device, build, repeat


@dataclass
class BuildState:
    """How far the environment of one build has come, and its cells."""

    build: Build
    phase: str = "waiting"
    done_bytes: int | None = None
    total_bytes: int | None = None
    message: str = ""
    phase_began: float = 0.0
    made_since: float = 0.0
    cells_done: int = 0

    @property
    def settled(self) -> bool:
        """Whether its environment is there or never will be."""
        return self.phase in _SETTLED


class RunProgress:
    """The state of a run; :meth:`apply` takes each event in, in constant time.

    Args:
        clock: Monotonic seconds.
        confirming_hint: What the user can do about confirming that takes long; empty where there is nothing.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, confirming_hint: str = "") -> None:
        self._clock = clock
        self._confirming_hint = confirming_hint
        self.builds: dict[str, BuildState] = {}
        self.rows: dict[RowKey, list[CellState]] = {}
        self.devices: tuple[str, ...] = ()
        self.counts: Counter[Verdict] = Counter()
        self.cells = 0
        self.cells_done = 0
        self.cells_kept = 0
        self.repeats_wanted = 0
        self.repeats_done = 0
        self.confirming = ""
        self.confirms = True
        self._jobs = 1
        self._loads = 0
        self._load_s = 0.0
        self._confirming_s = 0.0
        self.running = 0
        self.finished: RunFinished | None = None
        self.began = clock()
        self.to_make = 0
        self._make_s = 0.0
        self._made: list[float] = []
        self._columns: dict[str, int] = {}
        self._activities: dict[object, Activity] = {}
        self._busy_s = 0.0
        self._busy_since: float | None = None
        self._confirming_began = 0.0
        self._bytes_began: float | None = None
        self._bytes_at_start = 0

    def apply(self, event: Event) -> None:
        """Take one event in."""
        if isinstance(event, CellFinished):
            self._finished(event)
        elif isinstance(event, CellStarted):
            cell = self._cell(event.instance, event.device, event.build.name)
            cell.started()
            self.running += 1
            key = _activity_key(event.instance, event.device, event.build.name, event.repeat)
            self._begin(key, event.build.name, event.instance.name)
        elif isinstance(event, Loading):
            self._loading(event)
        elif isinstance(event, BuildProgress):
            self._build_progress(event)
        elif isinstance(event, EnvironmentReady):
            self._settle(event.build, "ready")
            if not event.reused:
                self._made.append(event.seconds)
        elif isinstance(event, RunPlanned):
            self.builds = {build.name: BuildState(build) for build in event.builds}
            self._columns = {name: place for place, name in enumerate(self.builds)}
            self.devices = event.devices
            self.to_make, self._make_s = event.to_make, event.make_s
            self.confirms, self._jobs = event.confirm, event.jobs
            self.cells = event.cells
            self._add_rows(event.instances)
        elif isinstance(event, RowsAdded):
            self.cells = event.cells
            self._add_rows(event.instances)
        elif isinstance(event, Confirming):
            self._confirming_began = self._confirming_began or self._clock()
            self.repeats_wanted += event.repeats
            if self._loads:
                each_s = self._load_s / self._loads
                self._confirming_s += (event.loads * each_s + event.cells_s) / max(1, self._jobs)
            self.confirming = event.reason
        elif isinstance(event, RunFinished):
            self.finished = event
            self.running = 0
            self._activities.clear()

    @property
    def activities(self) -> list[Activity]:
        """What is being done now, the longest first."""
        return sorted(self._activities.values(), key=lambda each: each.began)

    def _loading(self, event: Loading) -> None:
        key = ("loading", event.slot)
        if event.ended:
            loading = self._activities.get(key)
            if loading is not None and event.what in (LOADING_TORCH, LOADING_COMPILER):
                self._load_s += self._clock() - loading.began
                self._loads += event.what == LOADING_TORCH
            self._end(key)
        else:
            self._begin(key, event.build.name, event.what)

    def _begin(self, key: object, build: str, what: str) -> None:
        now = self._clock()
        self._activities[key] = Activity(build, what, now)
        if self._busy_since is None:
            self._busy_since = now

    def _end(self, key: object) -> None:
        if self._activities.pop(key, None) and not self._activities and self._busy_since is not None:
            self._busy_s += self._clock() - self._busy_since
            self._busy_since = None

    @property
    def ready(self) -> int:
        """Builds whose environment is there."""
        return sum(state.phase == "ready" for state in self.builds.values())

    @property
    def cells_per_build(self) -> int:
        """Cells of one column."""
        return self.cells // max(1, len(self.builds))

    def download_rate(self) -> float | None:
        """Bytes a second since the downloads began; None before there is anything to measure."""
        if self._bytes_began is None:
            return None
        seconds = self._clock() - self._bytes_began
        done = sum(state.done_bytes or 0 for state in self.builds.values()) - self._bytes_at_start
        return done / seconds if seconds > 1 and done > 0 else None

    def seconds_left(self) -> float | None:
        """A guess at what is left of the phase that is under way: the first pass with its environments, or confirming.

        None when it is too early for one. Made from what environments, cells and repeats have taken so far, in times
        when there was something to run; environments are made one after another, and while one is made others run.
        Before a few repeats have ended, confirming is reckoned by what loading torch and the cells took before.
        """
        if self.confirming:
            left = max(0, self.repeats_wanted - self.repeats_done)
            took = self._clock() - self._confirming_began
            if self.repeats_done >= ENOUGH:
                return took / self.repeats_done * left
            return self._confirming_s - took if self._confirming_s > took else None
        fresh = self.cells_done - self.cells_kept
        pace = self._busy() / fresh if fresh >= ENOUGH else None
        missing = max(0, self.cells - self.cells_done)
        making = self._making_left()
        if making is None:
            return None if pace is None else pace * missing
        # The cells of the environment that comes last can only begin when it is there.
        return max(making + (pace or 0.0) * min(missing, self.cells_per_build), (pace or 0.0) * missing)

    @property
    def confirming_hint(self) -> str:
        """What the user can do about it, where confirming will still take long."""
        left = self.seconds_left() if self.confirming and self._confirming_hint else None
        return self._confirming_hint if left is not None and left >= LONG_S else ""

    def _busy(self) -> float:
        return self._busy_s + (self._clock() - self._busy_since if self._busy_since is not None else 0.0)

    def _making_left(self) -> float | None:
        """Seconds until the last environment is there; None when none is missing."""
        failed = sum(state.phase == "failed" for state in self.builds.values())
        missing = self.to_make - len(self._made) - failed
        if missing <= 0:
            return None
        one = sum(self._made) / len(self._made) if self._made else self._make_s / self.to_make
        active = [state for state in self.builds.values() if state.phase not in (*_SETTLED, "waiting")]
        spent = min(one, self._clock() - min(state.made_since for state in active)) if active else 0.0
        left = one * missing - spent
        rate = self.download_rate()
        if rate:
            left = max(left, sum((state.total_bytes or 0) - (state.done_bytes or 0) for state in active) / rate)
        return left

    def matrix_rows(self) -> list[Row]:
        """Every row with its marks as they stand now."""
        several = len(self.devices) > 1
        return [
            Row(file, instance, device if several else "", tuple(cell.mark for cell in cells))
            for (file, instance, device), cells in self.rows.items()
        ]

    def _add_rows(self, instances: Iterable[Instance]) -> None:
        for instance in instances:
            wanted = instance.case.devices
            for device in self.devices:
                if not wanted or device.partition(":")[0] in wanted:
                    self._row((str(instance.case.file.path), instance.name, device))

    def _row(self, key: RowKey) -> list[CellState]:
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = [CellState() for _ in self.builds]
        return row

    def _cell(self, instance: Instance, device: str, build: str) -> CellState:
        return self._row((str(instance.case.file.path), instance.name, device))[self._columns[build]]

    def _finished(self, event: CellFinished) -> None:
        observation = event.observation
        cell = self._cell(event.instance, observation.device, observation.build_name)
        if cell.running:
            cell.running -= 1
            self.running -= 1
        self._end(_activity_key(event.instance, observation.device, observation.build_name, observation.repeat))
        if cell.judgement is None:
            self.cells_done += 1
            self.cells_kept += event.kept
            self.builds[observation.build_name].cells_done += 1
        else:
            self.counts[cell.judgement.verdict] -= 1
            self.repeats_done += bool(self.confirming) and not event.kept
        cell.add(event.judgement)
        assert cell.judgement is not None
        self.counts[cell.judgement.verdict] += 1

    def _build_progress(self, event: BuildProgress) -> None:
        state = self.builds[event.build.name]
        if event.phase != state.phase:
            if state.phase == "waiting":
                state.made_since = self._clock()
            state.phase = event.phase
            state.phase_began = self._clock()
        if event.done_bytes is not None:
            if self._bytes_began is None and event.phase == "downloading":
                self._bytes_began = self._clock()
                self._bytes_at_start = event.done_bytes
            state.done_bytes = event.done_bytes
        if event.total_bytes is not None:
            state.total_bytes = event.total_bytes
        state.message = event.message

    def _settle(self, build: Build, phase: str) -> None:
        state = self.builds[build.name]
        state.phase = phase
        state.phase_began = self._clock()

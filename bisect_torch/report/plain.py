"""Progress as plain lines on stderr: for a pipe, a log, a dumb terminal and ``--quiet``."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO, TypeVar

from bisect_torch.engine.events import (
    BuildProgress,
    CellFinished,
    Confirming,
    EnvironmentReady,
    Event,
    Note,
    RowsAdded,
    RunFinished,
    RunPlanned,
)
from bisect_torch.model import Verdict
from bisect_torch.report.heartbeat import LONGEST_QUIET_S, QUIET_S, Heartbeat, still
from bisect_torch.report.progress import WHAT_CONFIRMING_IS, RunProgress
from bisect_torch.report.text import bytes_words, clean, for_encoding, plural, seconds_words, wrap

PIPE_WIDTH = 120
"""Columns of text that goes to a pipe or a file."""


def width_for(stream: TextIO) -> int:
    """Columns of the terminal; :data:`PIPE_WIDTH` (or ``COLUMNS``) where there is none."""
    if stream.isatty():
        try:
            return max(20, os.get_terminal_size(stream.fileno()).columns)
        except (OSError, ValueError):
            pass
    return max(20, shutil.get_terminal_size((PIPE_WIDTH, 24)).columns)


_Report = TypeVar("_Report", bound="LineReport")


class LineReport:
    """What observers that write lines have in common: while they are entered, they say now and then what goes on.

    Args:
        stream: Where to, usually stderr.
        quiet: Only notes and failures.
        clock: Monotonic seconds.
        confirming_hint: What the user can do about confirming that takes long.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
        confirming_hint: str = "",
    ) -> None:
        self._stream = stream
        self._quiet = quiet
        self._clock = clock
        self._confirming_hint = confirming_hint
        self._progress = self._new_progress()
        self._lock = threading.Lock()
        self._heartbeat = Heartbeat(self.beat)
        self._wrote = clock()
        self._quiet_s = QUIET_S
        self._moves: object = None

    def _new_progress(self) -> RunProgress:
        return RunProgress(self._clock, confirming_hint=self._confirming_hint)

    def __enter__(self: _Report) -> _Report:
        if not self._quiet:
            self._heartbeat.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._quiet:
            self._heartbeat.__exit__()
        with suppress(OSError):
            self._stream.flush()

    def beat(self) -> None:
        """Say what is being done, where no line has come for a while."""
        with self._lock:
            now = self._clock()
            doing = still(self._progress, now) if now - self._wrote >= self._quiet_s else None
            if doing is None:
                return
            quiet_s = min(2 * self._quiet_s, LONGEST_QUIET_S) if doing.moves == self._moves else QUIET_S
            self._moves = doing.moves
            self._write(doing.text + self._hint())
            self._quiet_s = quiet_s

    def _hint(self) -> str:
        """What the user can do about confirming, once, where it will take long."""
        hint = self._progress.confirming_hint
        if not hint or not self._confirming_hint:
            return ""
        self._confirming_hint = ""
        return f"; {hint}"

    def _note(self, event: Note) -> None:
        self._write((f"{clean(event.build.name)}: " if event.build else "note: ") + clean(event.text), always=True)

    def _failed(self, event: BuildProgress) -> None:
        self._write(f"{clean(event.build.name)}: no environment: {clean(event.message)}", always=True)

    def _write(self, text: str, *, always: bool = False) -> None:
        if self._quiet and not always:
            return
        self._wrote, self._quiet_s = self._clock(), QUIET_S
        if self._stream.isatty():  # a terminal would part its words
            text = "\n".join(wrap(text.split(" "), width_for(self._stream), indent="  "))
        with suppress(OSError):  # nobody reads any more: the work goes on
            self._stream.write(for_encoding(text, getattr(self._stream, "encoding", None)) + "\n")
            self._stream.flush()


class PlainReport(LineReport):
    """An observer that writes one line per environment, per finished build and per note.

    Args:
        stream: Where to, usually stderr.
        quiet: Only notes and failures.
        clock: Monotonic seconds.
        confirming_hint: What the user can do about confirming that takes long.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
        confirming_hint: str = "",
    ) -> None:
        super().__init__(stream, quiet=quiet, clock=clock, confirming_hint=confirming_hint)
        self._verdicts: dict[str, Counter[Verdict]] = {}
        self._told: set[str] = set()
        self._phases: dict[str, tuple[str, int]] = {}
        self._tenths = 0
        self._told_repeats = 0

    def __call__(self, event: Event) -> None:
        """Print a line for an event, where it is worth one."""
        with self._lock:
            self._take(event)

    def _take(self, event: Event) -> None:
        before = self._progress.cells_done
        self._progress.apply(event)
        if isinstance(event, CellFinished):
            if self._progress.cells_done > before:  # not a further repeat
                self._cell(event)
            elif not event.kept:
                self._confirmed()
        elif isinstance(event, BuildProgress):
            self._phase(event)
        elif isinstance(event, Note):
            self._note(event)
        else:
            self._other(event)

    def _other(self, event: Event) -> None:
        if isinstance(event, EnvironmentReady):
            how = "already there" if event.reused else f"built in {seconds_words(event.seconds)}"
            python = event.environment.python_version
            self._write(f"{clean(event.build.name)}: environment ready, Python {clean(python)} ({how})")
        elif isinstance(event, RunPlanned):
            rows = plural(len(event.instances), "instance")
            kept = f", {event.kept:,} known from before" if event.kept else ""
            then = f"; {WHAT_CONFIRMING_IS}" if event.confirm and event.kept < event.cells else ""
            self._write(f"{rows} on {plural(len(event.builds), 'build')}: {plural(event.cells, 'cell')}{kept}{then}")
        elif isinstance(event, RowsAdded):
            if event.instances:  # a file may have none that are asked for
                more = plural(len(event.instances), "more instance")
                self._write(f"{more} after expansion: {plural(event.cells, 'cell')}")
        elif isinstance(event, Confirming):
            runs = plural(event.repeats, "more run", "more runs")
            left = self._progress.seconds_left()
            about = f", about {seconds_words(left)}" if left else ""
            self._write(f"confirming, {runs}{about}: {clean(event.reason)}")
            self._tenths = self._tenth()  # of all that is wanted by now
        elif isinstance(event, RunFinished):
            self._finish(event)

    def _cell(self, event: CellFinished) -> None:
        name = event.observation.build_name
        self._verdicts.setdefault(name, Counter())[event.judgement.verdict] += 1
        if self._progress.builds[name].cells_done == self._progress.cells_per_build:
            self._row(name)

    def _confirmed(self) -> None:
        """At each tenth, so that a log shows that it goes on."""
        tenth = self._tenth()
        if tenth > self._tenths:
            self._tenths = tenth
            left = self._progress.seconds_left()
            self._tell_confirmed((f", about {seconds_words(left)} left" if left else "") + self._hint())

    def _tenth(self) -> int:
        return 10 * self._progress.repeats_done // max(1, self._progress.repeats_wanted)

    def _tell_confirmed(self, more: str = "") -> None:
        self._told_repeats = self._progress.repeats_done
        self._write(f"confirmed {self._told_repeats:,} of {self._progress.repeats_wanted:,}{more}")

    def _row(self, name: str) -> None:
        self._told.add(name)
        counts = self._verdicts.get(name, Counter())
        done, wanted = counts.total(), self._progress.cells_per_build
        cells = plural(done, "cell") if done >= wanted else f"{done:,} of {plural(wanted, 'cell')}"
        words = ", ".join(f"{counts[verdict]:,} {verdict.value}" for verdict in Verdict if counts[verdict])
        self._write(f"{clean(name)}: {cells}" + (f": {words}" if words else ""))

    def _phase(self, event: BuildProgress) -> None:
        """Each phase when it begins; of a download also each quarter."""
        name, total, done = event.build.name, event.total_bytes or 0, event.done_bytes or 0
        quarter = 4 * done // total if total and event.phase == "downloading" else 0
        before, last = self._phases.get(name, ("", 0))
        if before == event.phase and quarter <= last:
            return
        self._phases[name] = (event.phase, quarter)
        if event.phase == "failed":
            self._failed(event)
        elif event.phase in ("downloading", "installing"):
            so_far = f"{bytes_words(done)} of " if quarter else ""
            self._write(f"{clean(name)}: {event.phase}" + (f" {so_far}{bytes_words(total)}" if total else ""))

    def _finish(self, event: RunFinished) -> None:
        if self._told_repeats < self._progress.repeats_done:
            self._tell_confirmed()
        for name in self._progress.builds:
            if name not in self._told:
                self._row(name)
        how = "interrupted" if event.interrupted else "finished"
        done, cells = self._progress.cells_done, self._progress.cells
        self._write(f"{how} after {seconds_words(event.seconds)}: {done:,} of {plural(cells, 'cell')}")

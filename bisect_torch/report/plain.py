"""Progress as plain lines on stderr: for a pipe, a log, a dumb terminal, ``NO_COLOR`` and ``--quiet``."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TextIO

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
from bisect_torch.report.progress import RunProgress
from bisect_torch.report.text import bytes_words, clean, for_encoding, plural, seconds_words


class PlainReport:
    """An observer that writes one line per environment, per finished build and per note.

    Args:
        stream: Where to, usually stderr.
        quiet: Only notes and failures.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self._progress = RunProgress()
        self._verdicts: dict[str, Counter[Verdict]] = {}
        self._told: set[str] = set()
        self._phases: dict[str, str] = {}

    def __enter__(self) -> PlainReport:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __call__(self, event: Event) -> None:
        before = self._progress.cells_done
        self._progress.apply(event)
        if isinstance(event, CellFinished):
            if self._progress.cells_done > before:  # not a further repeat
                self._cell(event)
        elif isinstance(event, BuildProgress):
            self._phase(event)
        elif isinstance(event, Note):
            self._write((f"{clean(event.build.name)}: " if event.build else "note: ") + clean(event.text), always=True)
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
            self._write(f"{rows} on {plural(len(event.builds), 'build')}: {plural(event.cells, 'cell')}{kept}")
        elif isinstance(event, RowsAdded):
            more = plural(len(event.instances), "more instance")
            self._write(f"{more} after expansion: {plural(event.cells, 'cell')}")
        elif isinstance(event, Confirming):
            self._write(f"{plural(event.repeats, 'repeat')} in other processes to confirm: {clean(event.reason)}")
        elif isinstance(event, RunFinished):
            self._finish(event)

    def _cell(self, event: CellFinished) -> None:
        name = event.observation.build_name
        self._verdicts.setdefault(name, Counter())[event.judgement.verdict] += 1
        if self._progress.builds[name].cells_done == self._progress.cells_per_build:
            self._row(name)

    def _row(self, name: str) -> None:
        self._told.add(name)
        counts = self._verdicts.get(name, Counter())
        done, wanted = counts.total(), self._progress.cells_per_build
        cells = plural(done, "cell") if done >= wanted else f"{done:,} of {plural(wanted, 'cell')}"
        words = ", ".join(f"{counts[verdict]:,} {verdict.value}" for verdict in Verdict if counts[verdict])
        self._write(f"{clean(name)}: {cells}" + (f": {words}" if words else ""))

    def _phase(self, event: BuildProgress) -> None:
        name = event.build.name
        if self._phases.get(name) == event.phase:
            return
        self._phases[name] = event.phase
        if event.phase == "failed":
            self._write(f"{clean(name)}: no environment: {clean(event.message)}", always=True)
        elif event.phase in ("downloading", "installing", "locking"):
            size = f" {bytes_words(event.total_bytes)}" if event.total_bytes else ""
            self._write(f"{clean(name)}: {event.phase}{size}")

    def _finish(self, event: RunFinished) -> None:
        for name in self._progress.builds:
            if name not in self._told:
                self._row(name)
        how = "interrupted" if event.interrupted else "finished"
        done, cells = self._progress.cells_done, self._progress.cells
        self._write(f"{how} after {seconds_words(event.seconds)}: {done:,} of {plural(cells, 'cell')}")

    def _write(self, text: str, *, always: bool = False) -> None:
        if self._quiet and not always:
            return
        with suppress(OSError):  # nobody reads any more: the run goes on
            self._stream.write(for_encoding(text, getattr(self._stream, "encoding", None)) + "\n")
            self._stream.flush()

"""The observer that makes spans of a run's events."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

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
from bisect_torch.model import BuildKind
from bisect_torch.report.profile.spans import (
    AHEAD,
    CELL,
    CONFIRMATION,
    ENVIRONMENT,
    INSTALLER,
    MAIN,
    WORK,
    Details,
    Profile,
    Span,
    slot_track,
)

_SETTLED = ("ready", "failed")
_CELLS = (CELL, CONFIRMATION)


@dataclass
class _Open:
    """A span that has begun."""

    kind: str
    name: str
    begin: int
    details: Details = field(default_factory=dict)


class Collector:
    """An observer of one command, of all the runs that it makes. What it does for an event takes constant time.

    Args:
        jobs: Cells that can run at once, where no run has told yet.
    """

    def __init__(self, jobs: int = 0) -> None:
        self._begin = _ns(time.monotonic())
        self._slots = jobs
        self._repeats = 1
        self._spans: list[Span] = []
        self._working: defaultdict[str, list[_Open]] = defaultdict(list)

    def __call__(self, event: object) -> None:
        """Take in an event; others than those that take time are passed over."""
        if isinstance(event, CellStarted):
            kind = CELL if event.repeat < self._repeats else CONFIRMATION
            details: Details = {"build": event.build.name, "device": event.device, "repeat": event.repeat}
            self._push(slot_track(event.slot), _Open(kind, event.instance.name, _ns(event.at), details))
        elif isinstance(event, CellFinished):
            if event.slot is not None:
                self._cell_ended(event)
        elif isinstance(event, Step):
            self._step(event)
        elif isinstance(event, Loading):
            self._begun_or_ended(event, _Open(event.what, event.what, _ns(event.at), {"build": event.build.name}))
        elif isinstance(event, Working):
            self._begun_or_ended(event, _Open(WORK, event.build.name, _ns(event.at), {"cells": event.cells}))
        elif isinstance(event, CellLost):
            self._pop(slot_track(event.slot), _CELLS, _ns(event.at), {"lost": "runs again"})
        elif isinstance(event, BuildProgress):
            self._build_progress(event)
        elif isinstance(event, EnvironmentReady):
            self._environment_ready(event)
        elif isinstance(event, RunPlanned):
            self._slots = max(self._slots, event.jobs)
            self._repeats = event.repeats

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Work of the command before or after its runs."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self._step(Step(what, begin, time.monotonic()))

    def profile(self) -> Profile:
        """Everything so far; what has begun and not ended ends now."""
        end = _ns(time.monotonic())
        spans = list(self._spans)
        for track, working in self._working.items():
            spans += [_closed(each, track, end, {"unfinished": "cut off"}) for each in reversed(working)]
        # Of two that begin together the longer one lies around the other; of two that also end together, the later one.
        spans.reverse()
        spans.sort(key=lambda span: (span.begin, -span.end))
        return Profile(self._begin, end, self._slots, tuple(spans))

    # --- tracks

    def _push(self, track: str, begun: _Open) -> None:
        self._working[track].append(begun)

    def _pop(self, track: str, kinds: tuple[str, ...], end: int, details: Details | None = None) -> None:
        """End the innermost span of one of these kinds; what is still open inside it ends with it."""
        working = self._working[track]
        if not any(each.kind in kinds for each in working):
            return  # a cell that was refused before it started
        while True:
            last = working.pop()
            found = last.kind in kinds
            self._spans.append(_closed(last, track, end, (details or {}) if found else {"unfinished": "cut off"}))
            if found:
                return

    def _begun_or_ended(self, event: Loading | Working, begun: _Open) -> None:
        if event.ended:
            self._pop(slot_track(event.slot), (begun.kind,), begun.begin)
        else:
            self._push(slot_track(event.slot), begun)

    def _cell_ended(self, event: CellFinished) -> None:
        observation = event.observation
        details: Details = {"verdict": event.judgement.verdict.value}
        if observation.elapsed_s is not None:
            details["own seconds"] = observation.elapsed_s
        assert event.slot is not None
        self._pop(slot_track(event.slot), _CELLS, _ns(event.at), details)

    def _step(self, event: Step) -> None:
        track = AHEAD if event.what == AHEAD else MAIN
        details: Details = {} if event.build is None else {"build": event.build.name}
        self._spans.append(Span(event.what, event.what, track, _ns(event.begin), _ns(event.end), details))

    # --- environments

    def _build_progress(self, event: BuildProgress) -> None:
        """One environment is made after the other: a span for it, and inside it one for each phase."""
        working = self._working[INSTALLER]
        own = bool(working) and working[0].name == event.build.name
        if not own and event.phase in _SETTLED:
            return  # it failed before anything was begun, or long after it had been made
        # A download is measured in a thread of its own, whose word may come a little late.
        at = max([_ns(event.at), *(each.begin for each in working)])
        if event.phase in _SETTLED or not own:
            details: Details = {"failed": event.message} if event.phase == "failed" else {}
            while working:
                self._spans.append(_closed(working.pop(), INSTALLER, at, details if len(working) == 0 else {}))
        if event.phase in _SETTLED:
            return
        if not working:
            self._push(INSTALLER, _Open(ENVIRONMENT, event.build.name, at))
        if len(working) > 1 and working[1].kind != event.phase:
            self._spans.append(_closed(working.pop(), INSTALLER, at, {}))
        if len(working) == 1:
            self._push(INSTALLER, _Open(event.phase, event.phase, at, {"build": event.build.name}))
        if event.total_bytes is not None:
            working[1].details["bytes"] = event.total_bytes

    def _environment_ready(self, event: EnvironmentReady) -> None:
        """An interpreter that is not ours has no phases, and its span is told here."""
        if event.build.kind is BuildKind.LOCAL:
            end = _ns(event.at)
            self._spans.append(Span(ENVIRONMENT, event.build.name, INSTALLER, end - _ns(event.seconds), end))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _closed(begun: _Open, track: str, end: int, details: Details) -> Span:
    return Span(begun.kind, begun.name, track, begun.begin, max(end, begun.begin), {**begun.details, **details})

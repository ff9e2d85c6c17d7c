"""What a run says to its observer: without secrets, and once where once is enough."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator

from bisect_torch import analysis
from bisect_torch.engine import events
from bisect_torch.engine.plan import CellRun
from bisect_torch.engine.slot_messages import CellDone
from bisect_torch.model import Judgement, Observation
from bisect_torch.redaction import Private


class Telling:
    """Tells the observer of a run what happens, in the order in which this is called.

    Args:
        observer: Told everything.
        private: What others have written may quote credentials: it knows them.
    """

    def __init__(self, observer: events.Observer, private: Private) -> None:
        self._observer = observer
        self._private = private
        self._noted: set[events.Note] = set()

    def __call__(self, event: events.Event) -> None:
        """Tell an event."""
        if isinstance(event, events.Note):
            event = dataclasses.replace(event, text=self._private.hide_secrets(event.text))
        elif isinstance(event, events.BuildProgress) and event.message:
            event = dataclasses.replace(event, message=self._private.hide_secrets(event.message))
        self._observer(event)

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Tell how long work of this thread has taken.

        Args:
            what: See :class:`~bisect_torch.engine.events.Step`.
        """
        begin = time.monotonic()
        try:
            yield
        finally:
            self._observer(events.Step(what, begin, time.monotonic()))

    def known(self, kept: Iterable[tuple[CellRun, Observation]]) -> None:
        """Tell of cells that are known from earlier runs."""
        for run, observation in kept:
            self(events.CellFinished(run.instance, observation, analysis.judge(observation), kept=True))

    def observed(self, run: CellRun, observation: Observation, judgement: Judgement, done: CellDone | None) -> None:
        """Tell of a cell of this run.

        Args:
            done: Where and when it ended; None for one that did not run.
        """
        if done is None:
            self(events.CellFinished(run.instance, observation, judgement))
        else:
            self(events.CellFinished(run.instance, observation, judgement, slot=done.slot, at=done.at))

    def unkept(self, what: str, why: str | None) -> None:
        """Say once that something is not kept that would have saved time another day.

        Args:
            what: The beginning of that sentence.
            why: None where it is kept: then nothing is said.
        """
        note = events.Note(f"{what} not kept: {why}")
        if why is not None and note not in self._noted:
            self._noted.add(note)
            self(note)

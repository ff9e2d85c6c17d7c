"""Environments that a search may ask for next, made while it still runs cells on another build."""

from __future__ import annotations

import threading
import time
from collections.abc import Container, Sequence

from bisect_torch import environments
from bisect_torch.engine.events import Step
from bisect_torch.environments import EnvironmentOptions, PlannedEnvironment
from bisect_torch.errors import BisectTorchError


class InstallAhead:
    """One thread that makes environments, one after another, until told to stop.

    ``made`` names those that it has made, ``steps`` tells how long each attempt took.
    """

    def __init__(self, planned: Sequence[PlannedEnvironment], options: EnvironmentOptions) -> None:
        self._planned = {each.build.name: each for each in planned}
        self._options = options
        self._changed = threading.Condition()
        self._waiting: list[str] = []
        self._current: str | None = None
        self._cancel = threading.Event()
        self._tried: set[str] = set()
        self._thread: threading.Thread | None = None
        self.made: list[str] = []
        self.steps: list[Step] = []

    def want(self, names: Sequence[str]) -> None:
        """Make these, in this order, instead of what was wanted before. The one that is being made is finished."""
        with self._changed:
            self._waiting = [name for name in names if self._missing(name)]
            self._changed.notify_all()
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="installing ahead", daemon=True)
                self._thread.start()

    def settle(self, names: Container[str]) -> None:
        """Leave these to the run that needs them now; one that is being made is waited for."""
        with self._changed:
            self._waiting = [name for name in self._waiting if name not in names]
            self._changed.wait_for(lambda: self._current not in names)

    def stop(self) -> None:
        """End the thread. What is half made is removed by the room that makes it."""
        self._cancel.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _missing(self, name: str) -> bool:
        planned = self._planned[name]
        return planned.present is None and not planned.impossible and name not in self._tried and name != self._current

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._cancel.is_set())
                if self._cancel.is_set():
                    return
                name = self._current = self._waiting.pop(0)
            begin = time.monotonic()
            self._make(self._planned[name])
            self.steps.append(Step("installing ahead", begin, time.monotonic(), self._planned[name].build))
            with self._changed:
                self._tried.add(name)
                self._current = None
                self._changed.notify_all()

    def _make(self, planned: PlannedEnvironment) -> None:
        try:
            _, reused = environments.ensure(planned.build, self._options, cancel=self._cancel, python=planned.request)
        except BisectTorchError:
            return  # should the search come to this build, its own attempt says what is wrong
        if not reused:
            self.made.append(planned.build.name)

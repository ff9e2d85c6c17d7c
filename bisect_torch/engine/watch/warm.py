"""Workers that stay: one for each build, torch imported, ready to fork; of too many the oldest is dropped."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from bisect_torch.model import Environment

ASSUMED_BYTES = 300_000_000
"""Of one worker where the system does not tell. Measured on Linux, without its cells: 110 to 250 MB."""

_STOP_S = 3.0


class Worker(Protocol):
    """As much of :class:`~bisect_torch.engine.worker_process.WorkerProcess` as is needed here."""

    @property
    def process_id(self) -> int:
        """Whose memory is measured."""

    def kill(self) -> None:
        """End it at once, from any thread."""


W = TypeVar("W", bound=Worker)


class WarmWorkers(Generic[W]):
    """Lends workers, one borrower at a time each; safe from several threads.

    Args:
        start: Starts a worker; told what to call as soon as there is a process, so that it can be killed meanwhile.
        budget_bytes: What idle and busy workers may take together. One is always allowed.
        measure: Memory of a worker in bytes.
    """

    def __init__(
        self,
        start: Callable[[Environment, Callable[[W], None]], W],
        budget_bytes: int,
        measure: Callable[[Worker], int] | None = None,
    ) -> None:
        self._start = start
        self._budget = budget_bytes
        self._measure = measure or memory_of
        self._idle: dict[str, tuple[W, float]] = {}
        self._all: set[W] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.dropped = 0

    @contextlib.contextmanager
    def lend(self, environment: Environment) -> Iterator[W]:
        """A worker of the environment, started where none is warm. It stays, unless :meth:`discard` is called."""
        with self._lock:
            worker = self._idle.pop(environment.build.name, (None, 0.0))[0]
        if worker is None:
            worker = self._start(environment, self._started)
        try:
            yield worker
        finally:
            with self._lock:
                kept = worker in self._all and not self._closed
                if kept:
                    self._idle[environment.build.name] = worker, time.monotonic()
            if kept:
                self._keep_to_the_budget()

    def _started(self, worker: W) -> None:
        with self._lock:
            self._all.add(worker)
            closed = self._closed
        if closed:
            worker.kill()

    def discard(self, worker: W) -> None:
        """Kill a worker; the next borrower gets a new one."""
        with self._lock:
            self._all.discard(worker)
            for name in [name for name, (idle, _) in self._idle.items() if idle is worker]:
                del self._idle[name]
        worker.kill()

    def forget(self) -> None:
        """Drop all that are idle."""
        with self._lock:
            idle = [worker for worker, _ in self._idle.values()]
        for worker in idle:
            threading.Thread(target=self.discard, args=(worker,), daemon=True).start()

    def warm(self) -> frozenset[str]:
        """Names of the builds whose worker is idle."""
        with self._lock:
            return frozenset(self._idle)

    def _keep_to_the_budget(self) -> None:
        while True:
            with self._lock:
                everyone = list(self._all)
                oldest = min(self._idle.items(), key=lambda item: item[1][1], default=None)
            if oldest is None or len(everyone) < 2 or sum(map(self._measure, everyone)) <= self._budget:
                return
            self.dropped += 1
            self.discard(oldest[1][0])

    def close(self) -> None:
        """End all, at once; returns within a few seconds."""
        with self._lock:
            self._closed = True
            workers = list(self._all)
            self._all.clear()
            self._idle.clear()
        threads = [threading.Thread(target=worker.kill, daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + _STOP_S
        for thread in threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))


def memory_of(worker: Worker) -> int:
    """Bytes that only this process has; pages of files, which the system can take back at any time, do not count."""
    try:
        words = Path(f"/proc/{worker.process_id}/statm").read_text().split()
    except OSError:
        return ASSUMED_BYTES if not Path("/proc/self/statm").exists() else 0
    return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE")

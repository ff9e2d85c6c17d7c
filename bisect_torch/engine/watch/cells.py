"""Runs cells for ``watch``: slots that borrow warm workers, and drop what a newer save has made stale."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bisect_torch import environments
from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.conditions import Conditions, Facts, blame, cell_request, refusal
from bisect_torch.engine.plan import CellRun, accelerator, needs_compile
from bisect_torch.engine.watch.warm import WarmWorkers
from bisect_torch.engine.worker_process import CaseFileError, WorkerProcess, start_worker
from bisect_torch.errors import BisectTorchError
from bisect_torch.model import CaseFile, Environment, Isolation, Outcome

STALE_S = 0.4
"""How long a cell of an older save may still run before its worker is killed: shorter than starting another (2 s)."""


@dataclass(frozen=True)
class Job:
    """Cells of one build and one save.

    Args:
        number: Of the save.
        runs: Empty for a job that expands ``file``.
        confirming: These run in workers of their own, which import nothing beforehand.
    """

    number: int
    environment: Environment
    runs: tuple[CellRun, ...]
    file: CaseFile | None = None
    confirming: bool = False


@dataclass(frozen=True)
class CellAnswer:
    """What a worker saw of a cell of a job."""

    job: Job
    run: CellRun
    facts: Facts


@dataclass(frozen=True)
class JobEnded:
    """All cells of a job have an answer, or it was dropped.

    Args:
        rows: What a file expanded to.
        problem: Why it could not be expanded.
    """

    job: Job
    rows: tuple[Mapping[str, object], ...] = ()
    problem: str = ""
    failure: BaseException | None = None


class Slots:
    """Threads that work off jobs. What they find goes through ``deliver``, which they call.

    Args:
        count: How many.
        warm: For the first runs of cells.
        conditions: Of all cells.
    """

    def __init__(
        self,
        count: int,
        warm: WarmWorkers[WorkerProcess],
        conditions: Conditions,
        deliver: Callable[[CellAnswer | JobEnded], None],
    ) -> None:
        self._warm = warm
        self._conditions = conditions
        self._deliver = deliver
        self._waiting: queue.Queue[Job | None] = queue.Queue()
        self._lock = threading.Lock()
        self._busy: dict[int, tuple[Job, WorkerProcess, float]] = {}
        self._accelerators: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._current = 0
        self._closed = False
        self._threads = [threading.Thread(target=self._work, name=f"slot-{n}", daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """Run a job once a slot is free; one of an older save is dropped by then."""
        self._waiting.put(job)

    def supersede(self, number: int) -> None:
        """From now on only jobs of this save count."""
        with self._lock:
            self._current = number

    def kill_stale(self) -> None:
        """Kill the workers whose cell belongs to an older save and goes on. To be called now and then."""
        now = time.monotonic()
        with self._lock:
            stale = [
                worker
                for job, worker, began in self._busy.values()
                if job.number != self._current and (job.confirming or now - began > STALE_S)
            ]
        for worker in stale:
            # Its cell may take a moment to die; the next save's cells must not wait for that.
            threading.Thread(target=self._warm.discard, args=(worker,), daemon=True).start()

    def close(self) -> None:
        """Kill what runs, and end."""
        with self._lock:
            self._closed = True
            self._current = -1
            workers = [worker for _, worker, _ in self._busy.values()]
        for _ in self._threads:
            self._waiting.put(None)
        killers = [threading.Thread(target=worker.kill, daemon=True) for worker in workers]
        for killer in killers:
            killer.start()
        deadline = time.monotonic() + 3.0
        for each in (*killers, *self._threads):
            each.join(timeout=max(0.0, deadline - time.monotonic()))

    def _stale(self, job: Job) -> bool:
        with self._lock:
            return self._closed or job.number != self._current

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            try:
                self._deliver(JobEnded(job) if self._stale(job) else self._run(job))
            except BaseException as failure:  # noqa: BLE001
                # Not handled here but handed over: an exception must not vanish with this thread.
                self._deliver(JobEnded(job, failure=failure))

    def _run(self, job: Job) -> JobEnded:
        try:
            if job.confirming:
                return self._confirm(job)
            for _ in range(2):  # a worker may have died since it was used: then once more with a new one
                with self._warm.lend(job.environment) as worker:
                    ended = self._on_worker(job, worker)
                if ended is not None or self._stale(job):
                    break
            return ended or JobEnded(job)
        except BisectTorchError as error:
            for run in job.runs:
                self._deliver(CellAnswer(job, run, {"outcome": Outcome.LOST.value, "reason": error.message}))
            return JobEnded(job, problem=error.message if job.file else "")

    def _confirm(self, job: Job) -> JobEnded:
        """Each run in an interpreter of its own, from a worker that has imported nothing and goes at the end."""
        with start_worker(job.environment, self._conditions, stage="none") as worker:
            self._on_worker(job, worker)
        return JobEnded(job)

    def _on_worker(self, job: Job, worker: WorkerProcess) -> JobEnded | None:
        """None where the worker was lost at its first cell: nothing was learnt."""
        if job.file is not None:
            return self._expand(job, worker)
        if any(run.isolation is Isolation.FORK for run in job.runs):
            compiled = any(needs_compile(run.instance.case) for run in job.runs)
            with _Busy(self, job, worker):
                worker.prepare("compile" if compiled else "eager")
        for place, run in enumerate(job.runs):
            if self._stale(job):
                break
            facts = self._facts(job, run, worker)
            if facts["outcome"] == Outcome.LOST.value:
                self._warm.discard(worker)
                if place == 0 and not job.confirming:
                    return None
            if not self._stale(job):
                self._deliver(CellAnswer(job, run, facts))
        return JobEnded(job)

    def _facts(self, job: Job, run: CellRun, worker: WorkerProcess) -> Facts:
        def capability(name: str) -> str | None:
            return environments.capability(job.environment, name)

        refused = refusal(run, capability)
        if refused is not None:
            return refused
        request: CellRequest = cell_request(run, self._conditions)
        with self._alone(run), _Busy(self, job, worker):
            facts = worker.run(request)
        return blame(facts, capability)

    def _alone(self, run: CellRun) -> contextlib.AbstractContextManager[object]:
        """One cell at a time on an accelerator."""
        held = accelerator(run.device)
        with self._lock:
            return contextlib.nullcontext() if held is None else self._accelerators[held]

    def _expand(self, job: Job, worker: WorkerProcess) -> JobEnded | None:
        assert job.file is not None
        try:
            with _Busy(self, job, worker):
                rows = worker.expand(job.file.path, thorough=self._conditions.thorough)
        except CaseFileError as error:
            return JobEnded(job, problem=error.message)
        except BisectTorchError:
            self._warm.discard(worker)
            return None
        return JobEnded(job, tuple(rows))


class _Busy:
    """While a worker does something for a job, it can be killed for it."""

    def __init__(self, slots: Slots, job: Job, worker: WorkerProcess) -> None:
        self._slots = slots
        self._entry = (job, worker, time.monotonic())

    def __enter__(self) -> None:
        with self._slots._lock:
            self._slots._busy[threading.get_ident()] = self._entry

    def __exit__(self, *_: object) -> None:
        with self._slots._lock:
            self._slots._busy.pop(threading.get_ident(), None)

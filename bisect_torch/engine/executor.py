"""Runs tasks on this machine: a fixed number of slots, each a thread that drives one worker process at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.conditions import Conditions, Facts, blame, capabilities_of, cell_request, refusal
from bisect_torch.engine.events import LOADING_COMPILER, LOADING_TORCH, Loading, Note, Working
from bisect_torch.engine.memory_budget import MemoryBudget
from bisect_torch.engine.plan import CellRun, Task, needs_compile
from bisect_torch.engine.sessions import run_tests
from bisect_torch.engine.slot_messages import CellBegan, CellDone, Expanded, Message, SlotFailed
from bisect_torch.engine.unchanged import Unchanged
from bisect_torch.engine.waiting import Waiting
from bisect_torch.engine.worker_process import CaseFileError, Stage, WorkerProcess, start_worker
from bisect_torch.errors import BisectTorchError
from bisect_torch.model import CaseFile, CaseKind, Environment, Outcome


class LocalExecutor:
    """Runs tasks in ``jobs`` slots and delivers what happens through a callback, called from the slots' threads."""

    def __init__(self, jobs: int, conditions: Conditions, deliver: Callable[[Message], None]) -> None:
        self._conditions = conditions
        self._deliver = deliver
        self._memory = MemoryBudget(conditions.memory_bytes)
        self._unchanged = Unchanged()
        self._waiting: Waiting[Task | tuple[CaseFile, Environment, tuple[str, ...]]] = Waiting()
        self._workers: set[WorkerProcess] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._own = threading.local()
        self._slots = [
            threading.Thread(target=self._slot, args=(n,), name=f"slot-{n}", daemon=True) for n in range(jobs)
        ]
        for slot in self._slots:
            slot.start()

    def submit(self, task: Task) -> None:
        """Run the cells of a task as soon as a slot and its accelerator are free."""
        self._waiting.put(task, task.accelerator)

    def expand(self, file: CaseFile, environment: Environment, words: tuple[str, ...] = ()) -> None:
        """Have a worker of ``environment`` read the instances of a case file that needs torch to be expanded.

        Args:
            words: For pytest, where the file stands for a suite.
        """
        self._waiting.put((file, environment, words))

    def close(self) -> None:
        """End the slots once what was submitted is done."""
        self._waiting.close()
        for slot in self._slots:
            slot.join()

    def stop(self, grace_s: float) -> None:
        """Kill what runs and end the slots; return within about ``grace_s`` seconds."""
        self._stopped.set()
        with self._lock:
            workers = list(self._workers)
        # All at once: each may take its time.
        for worker in workers:
            threading.Thread(target=worker.kill, daemon=True).start()
        self._waiting.close(discard=True)
        deadline = time.monotonic() + grace_s
        for slot in self._slots:
            slot.join(timeout=max(0.0, deadline - time.monotonic()))

    def _slot(self, number: int) -> None:
        self._own.slot = number
        while True:
            with self._waiting.take() as work:
                if work is None:
                    return
                if self._stopped.is_set():
                    continue
                try:
                    self._work_on(work)
                except BaseException as error:  # noqa: BLE001
                    # Not handled here but handed over: an exception must not vanish with this thread.
                    self._deliver(SlotFailed(error))

    def _work_on(self, work: Task | tuple[CaseFile, Environment, tuple[str, ...]]) -> None:
        cells, build = (len(work.runs), work.environment.build) if isinstance(work, Task) else (0, work[1].build)
        self._deliver(Working(build, cells, self._own.slot))
        try:
            if isinstance(work, Task):
                self._run_task(work)
            else:
                self._expand(*work)
        finally:
            self._deliver(Working(build, cells, self._own.slot, ended=True))

    @contextlib.contextmanager
    def _worker(self, environment: Environment, stage: Stage) -> Iterator[WorkerProcess]:
        with self._loading(environment, LOADING_TORCH) if stage != "none" else contextlib.nullcontext():
            worker = start_worker(environment, self._conditions, stage=stage, on_start=self._on_start)
        try:
            yield worker
        finally:
            with self._lock:
                self._workers.discard(worker)
            with self._loading(environment, "ending the worker"):
                worker.close()

    def _on_start(self, worker: WorkerProcess) -> None:
        with self._lock:
            self._workers.add(worker)
        if self._stopped.is_set():
            worker.kill()

    @contextlib.contextmanager
    def _loading(self, environment: Environment, what: str) -> Iterator[None]:
        """Say what keeps the slot of this thread from running cells."""
        slot = self._own.slot
        self._deliver(Loading(environment.build, what, slot))
        try:
            yield
        finally:
            self._deliver(Loading(environment.build, what, slot, ended=True))

    def _expand(self, file: CaseFile, environment: Environment, words: tuple[str, ...]) -> None:
        if file.kind is CaseKind.PYTEST:
            self._collect(file, environment, words)
            return
        try:
            with (
                self._worker(environment, "eager") as worker,
                self._loading(environment, f"reading the cases of {file.path.name}"),
            ):
                rows = tuple(worker.expand(file.path, thorough=self._conditions.thorough))
        except CaseFileError as error:
            self._deliver(Expanded(file, environment, (), error.message, error.detail))
        except BisectTorchError as error:
            self._deliver(Expanded(file, environment, (), f"{file.path}: {error.message}"))
        else:
            self._deliver(Expanded(file, environment, rows))

    def _collect(self, file: CaseFile, environment: Environment, words: tuple[str, ...]) -> None:
        rows: Sequence[Mapping[str, object]]
        conditions = self._conditions
        request = CellRequest(file.path, "pytest", "", argv=words, cwd=conditions.working_directory)
        try:
            with (
                self._worker(environment, "none") as worker,
                self._loading(environment, "asking pytest which tests there are"),
            ):
                rows = worker.collect(request)
        except BisectTorchError as error:
            rows = [{"problem": "", "inside": "", "outcome": Outcome.LOST.value, "reason": error.message}]
        self._deliver(Expanded(file, environment, tuple(rows)))

    def _run_suite(self, task: Task) -> None:
        environment = task.environment
        refusal = self._refusal(environment, task.runs[0])
        if refusal is not None:
            for run in task.runs:
                self._ended(task, run, refusal)
            return
        run_tests(
            task.runs,
            start=lambda: self._worker(environment, "none"),
            request=self._session_request,
            began=self._began,
            ended=lambda run, facts: self._ended(task, run, self._blame(environment, facts)),
            note=lambda text: self._deliver(Note(text, environment.build)),
            stopped=self._stopped.is_set,
        )

    def _session_request(self, runs: Sequence[CellRun]) -> CellRequest:
        """For all of them at once: what the request for one says holds for each."""
        tests = tuple((str(run.instance.case.file.path), run.instance.case.name) for run in runs)
        compiles = any(needs_compile(run.instance.case) for run in runs)
        return dataclasses.replace(self._request(runs[0]), tests=tests, needs_compile=compiles)

    def _run_task(self, task: Task) -> None:
        if task.of_suite:
            self._run_suite(task)
            return
        remaining = deque(task.runs)
        while remaining and not self._stopped.is_set():
            try:
                with self._worker(task.environment, "eager" if task.forked else "none") as worker:
                    self._drive(worker, task, remaining)
            except BisectTorchError as error:
                # The worker did not start, or could not load the compiler stack: nothing was learnt about any cell.
                while remaining:
                    self._finish(task, remaining, {"outcome": Outcome.LOST.value, "reason": error.message})

    def _drive(self, worker: WorkerProcess, task: Task, remaining: deque[CellRun]) -> None:
        """Run the remaining cells, taking each out of the queue when it has an answer, until the worker is lost.

        Where it can be, the next cell is asked for before the end of this one is known: its worker then need not wait
        until that was taken in here. Should the worker be lost meanwhile, the next one is still in the queue.
        """
        compiled = lost = False
        asked: Callable[[], Facts] | None = None
        while remaining and not lost:
            run = remaining[0]
            facts = None if asked is not None else self._refusal(task.environment, run)
            if facts is None:
                if task.forked and not compiled and needs_compile(run.instance.case):
                    with self._loading(task.environment, LOADING_COMPILER):
                        worker.prepare("compile")
                    compiled = True
                waiting = functools.partial(self._loading, task.environment, "waiting for memory")
                with self._memory.reserve(_host_bytes(run), waiting):
                    self._began(run)
                    answer, asked = asked or worker.ask(self._request(run)), None
                    if task.forked and len(remaining) > 1 and _needs_nothing(remaining[1], compiled):
                        asked = worker.ask(self._request(remaining[1]))
                    facts = self._blame(task.environment, answer())
            lost = facts["outcome"] == Outcome.LOST.value
            self._finish(task, remaining, facts)

    def _finish(self, task: Task, remaining: deque[CellRun], facts: Facts) -> None:
        run = remaining.popleft()
        if self._stopped.is_set():
            remaining.clear()  # killed on purpose: what it said is no observation
        else:
            self._ended(task, run, facts)

    def _began(self, run: CellRun) -> None:
        self._deliver(CellBegan(run, self._own.slot, time.monotonic()))

    def _ended(self, task: Task, run: CellRun, facts: Facts) -> None:
        changed = self._unchanged.what_changed(run.instance.case.file)
        if changed is not None:
            facts = {"outcome": Outcome.LOST.value, "reason": f"{changed} has changed since this run began"}
        self._deliver(CellDone(task, run, facts, self._own.slot, time.monotonic()))

    def _refusal(self, environment: Environment, run: CellRun) -> Facts | None:
        return refusal(run, lambda name: self._capability(environment, name))

    def _capability(self, environment: Environment, name: str) -> str | None:
        with self._loading(environment, f"checking that {name} works"):
            return self._conditions.capability(environment, name)

    def _blame(self, environment: Environment, facts: Facts) -> Facts:
        return blame(facts, lambda name: self._capability(environment, name))

    def _request(self, run: CellRun) -> CellRequest:
        return cell_request(run, self._conditions)


def _needs_nothing(run: CellRun, compiled: bool) -> bool:
    """Whether a cell can be begun without anything being looked at, made ready or kept free for it."""
    ready = compiled or not needs_compile(run.instance.case)
    return ready and not capabilities_of(run) and not _host_bytes(run)


def _host_bytes(run: CellRun) -> int:
    """Memory of this machine that a cell declares to need."""
    return run.instance.limits_on(run.device).memory.get("cpu", 0)

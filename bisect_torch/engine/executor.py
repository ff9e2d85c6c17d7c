"""Runs tasks on this machine: a fixed number of slots, each a thread that drives one worker process at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.engine.events import Loading, Note, Working
from bisect_torch.engine.plan import CellRun, Task, accelerator, needs_compile, time_limit_s
from bisect_torch.engine.sessions import run_tests
from bisect_torch.engine.unchanged import Unchanged
from bisect_torch.engine.waiting import Waiting
from bisect_torch.engine.worker_process import CaseFileError, CellRequest, Stage, WorkerProcess
from bisect_torch.errors import BisectTorchError
from bisect_torch.model import CaseFile, CaseKind, Environment, Isolation, Outcome
from bisect_torch.worker.declaration import CAPABILITIES

Facts = Mapping[str, object]


@dataclass(frozen=True)
class CellDone:
    """A cell ended. ``facts`` are what the worker saw; an outcome of ``lost`` says nothing about torch."""

    task: Task
    run: CellRun
    facts: Facts
    slot: int
    at: float


@dataclass(frozen=True)
class CellBegan:
    run: CellRun
    slot: int
    at: float


@dataclass(frozen=True)
class Expanded:
    """A worker expanded the parameters of a case file, or said why it could not."""

    file: CaseFile
    environment: Environment
    rows: tuple[Mapping[str, object], ...]
    error: str | None = None


@dataclass(frozen=True)
class SlotFailed:
    """Something unforeseen ended a slot's work."""

    error: BaseException


Message = CellDone | CellBegan | Expanded | Working | Loading | Note | SlotFailed


@dataclass(frozen=True)
class Conditions:
    """What is the same for every cell of a run.

    Args:
        staged: The folder that holds the staged ``bisect_torch`` package for workers.
        environment_variables: Makes the variables that a child of an environment gets.
        capability: Checks a capability of an environment: None, or the reason why it does not work there.
        timeout_s: Seconds for a cell whose case names none.
        threads: torch's number of threads; None leaves it to torch.
        memory_bytes: What all cells together may use; a single cell is stopped above it.
        seed: Of repeat 0; repeat i is seeded with ``seed + i``.
        working_directory: Of scripts and commands.
        thorough: Cases compare everything that they otherwise sample.
    """

    staged: Path
    environment_variables: Callable[[Environment], Mapping[str, str]]
    capability: Callable[[Environment, str], str | None]
    timeout_s: float
    threads: int | None
    memory_bytes: int
    seed: int
    working_directory: Path
    thorough: bool = False


class MemoryBudget:
    """Admits cells only while their declared sizes fit together. One cell is always admitted."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._used = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def reserve(
        self, size: int, waiting: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    ) -> Iterator[None]:
        """Hold ``size`` bytes, waiting until they are there.

        Args:
            waiting: Entered while that is waited for.
        """
        with self._changed:
            if not self._fits(size):
                with waiting():
                    self._changed.wait_for(lambda: self._fits(size))
            self._used += size
        try:
            yield
        finally:
            with self._changed:
                self._used -= size
                self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._total


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
        with self._loading(environment, "loading torch") if stage != "none" else contextlib.nullcontext():
            worker = WorkerProcess.start(
                environment,
                self._conditions.staged,
                stage=stage,
                threads=self._conditions.threads,
                env=self._conditions.environment_variables(environment),
                on_start=self._on_start,
            )
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
            self._deliver(Expanded(file, environment, (), error.message))
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
        """Run the remaining cells, taking each out of the queue when it has an answer, until the worker is lost."""
        compiled = False
        lost = False
        while remaining and not lost:
            run = remaining[0]
            facts = self._refusal(task.environment, run)
            if facts is None:
                if task.forked and not compiled and needs_compile(run.instance.case):
                    with self._loading(task.environment, "loading the compiler stack"):
                        worker.prepare("compile")
                    compiled = True
                waiting = functools.partial(self._loading, task.environment, "waiting for memory")
                with self._memory.reserve(_host_bytes(run), waiting):
                    self._began(run)
                    facts = self._blame(task.environment, worker.run(self._request(run)))
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


def refusal(run: CellRun, capability: Callable[[str], str | None]) -> Facts | None:
    """The outcome of a cell that needs a capability which does not work in its environment; None where all do.

    Args:
        capability: A capability's name to the reason why it does not work there.
    """
    needed = [name for name in run.instance.case.needs if name in CAPABILITIES]
    for name in ([] if accelerator(run.device) is None else [run.device.partition(":")[0]]) + needed:
        reason = capability(name)
        if reason is not None:
            return {"outcome": Outcome.ENVIRONMENT_BROKEN.value, "reason": f"{name}: {reason}"}
    return None


def blame(facts: Facts, capability: Callable[[str], str | None]) -> Facts:
    """Check the capabilities that a failing traceback passes through: their failure is not torch's."""
    for name in json.loads(str(facts.get("capabilities", "[]"))):
        reason = capability(name)
        if reason is not None:
            return {**facts, "failed_capability": f"{name}: {reason}"}
    return facts


def cell_request(run: CellRun, conditions: Conditions) -> CellRequest:
    """One repeat of a cell as a worker needs it."""
    case = run.instance.case
    return CellRequest(
        file=case.file.path,
        kind=case.file.kind.value,
        case=case.name,
        parameters=dict(run.instance.parameters),
        device=run.device,
        timeout_s=time_limit_s(run.instance, run.device, conditions.timeout_s),
        memory_bytes=conditions.memory_bytes,
        isolation=run.isolation,
        full_teardown=run.isolation is Isolation.PROCESS,
        seed=conditions.seed + run.repeat if case.file.kind is CaseKind.CASE else None,
        argv=case.argv,
        bad_if_output=case.bad_if_output,
        cwd=conditions.working_directory,
        needs_compile=needs_compile(case),
        # Up to ten seconds: worth it once for each cell.
        native_stack=run.repeat == 0,
        thorough=conditions.thorough,
    )


def _host_bytes(run: CellRun) -> int:
    """Memory of this machine that a cell declares to need."""
    return run.instance.limits_on(run.device).memory.get("cpu", 0)

"""``watch``: run a file again on every save. All state lives in the thread that calls :meth:`Watch.execute`."""

from __future__ import annotations

import dataclasses
import os
import queue
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bisect_torch import analysis, cases, environments
from bisect_torch.cases import Discovered
from bisect_torch.engine import host, plan
from bisect_torch.engine.plan import CellRun
from bisect_torch.engine.request import RunRequest
from bisect_torch.engine.unchanged import Unchanged
from bisect_torch.engine.warm import WarmWorkers
from bisect_torch.engine.watch_cells import CellAnswer, Job, JobEnded, Slots, start_worker
from bisect_torch.engine.watch_environments import Installer, Ready
from bisect_torch.engine.watch_file import FileWatch, Look
from bisect_torch.engine.watch_state import WatchState
from bisect_torch.engine.worker_process import Stage, WorkerProcess
from bisect_torch.errors import UsageError
from bisect_torch.interruption import Interruption
from bisect_torch.model import (
    CaseKind,
    Environment,
    Instance,
    Isolation,
    Observation,
    Outcome,
    Series,
)

POLL_S = 0.02
DRAW_S = 0.1
"""Between two drawings of a matrix that still fills up."""

_DOUBT_S = 0.25
"""How long a file that cannot be read may still become another before that is said: it may be half written."""

_CONFIRMING_S = 300.0


Show = Callable[[WatchState], None]


class Watch:
    """Watches one file until it is interrupted.

    Args:
        request: Builds, environments, conditions; its results file and its cases are not used.
        path: The file.
        read: Reads it.
        budget_bytes: For the warm workers together.
        show: Called with every new state, from the thread that calls :meth:`execute`.
    """

    def __init__(
        self,
        request: RunRequest,
        path: Path,
        *,
        read: Callable[[Path], Discovered],
        budget_bytes: int,
        show: Show,
    ) -> None:
        self._request = request
        self._read = read
        self._show = show
        self._file = FileWatch(path)
        self._staged = environments.staged_package(request.environment_options.store)
        self._conditions = request.conditions(self._staged)
        self._inbox: queue.Queue[CellAnswer | JobEnded | Ready | BaseException] = queue.Queue()
        self._warm: WarmWorkers[WorkerProcess] = WarmWorkers(self._start_worker, budget_bytes)
        self._slots = Slots(request.jobs, self._warm, self._conditions, self._inbox.put)
        self._installer = Installer(request, self._inbox.put)
        self._ready: dict[str, Environment] = {}
        self._failed: dict[str, Ready] = {}
        self._state = WatchState(path, tuple(build.name for build in request.builds))
        self._discovered: Discovered | None = None
        self._instances: tuple[Instance, ...] | None = None
        self._observations: dict[tuple[str, str, str, int], Observation] = {}
        self._unchanged = Unchanged()
        self._open: set[str] = set()
        self._saved_at = 0.0
        self._drawn_at = 0.0
        self._fresh = False
        self._doubt: tuple[float, str] | None = None

    def execute(self, interruption: Interruption) -> None:
        """Run the file, and again on every save; returns only by an exception.

        Args:
            interruption: A first signal that comes while everything is being ended is only noted.

        Raises:
            KeyboardInterrupt: The user ended it. Nothing that was started is left.
        """
        self._installer.start()
        try:
            self._begin(time.monotonic())
            while True:
                self._turn()
        finally:
            with interruption.held():
                self._installer.cancel()
                self._slots.close()
                self._warm.close()

    def _turn(self) -> None:
        self._take()
        now = time.monotonic()
        look = self._file.look(now)
        if look is Look.SAVED:
            self._begin(now)
        elif look is Look.GONE:
            self._tell(problem=f"{self._state.path.name} is gone; waiting for it to come back")
        if self._doubt is not None and now >= self._doubt[0]:
            self._tell(problem=self._doubt[1])
            self._doubt = None
        self._slots.kill_stale()
        if self._fresh and now - self._drawn_at >= DRAW_S:
            self._draw()

    # --- a save -----------------------------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        """The file as it is now becomes what runs; where it cannot be read, the last matrix stays."""
        try:
            discovered = self._read(self._state.path)
        except UsageError as problem:
            self._doubt = now + _DOUBT_S, self._short(problem)
            return
        self._doubt = None
        path = discovered.file.path
        self._file.follow(path.parent / name for name in discovered.file.local_modules)
        number = self._state.number + 1
        self._slots.supersede(number)
        before = self._state.series if self._state.ended else self._state.before
        is_script = discovered.file.kind is not CaseKind.CASE
        if is_script != self._state.is_script:
            self._warm.forget()
        self._discovered = discovered
        self._instances = None
        self._observations.clear()
        self._open.clear()
        self._saved_at = now
        self._state = WatchState(
            self._state.path,
            self._state.builds,
            number=number,
            series=self._state.series,  # stays on the screen until there is something newer
            observations=self._state.observations,
            before=before,
            unready=self._state.unready,
            is_script=is_script,
        )
        if discovered.instances is not None:
            self._rows_known(self._selected(discovered.instances))
        elif self._ready:
            self._expand(next(reversed(self._ready.values())))

    def _short(self, problem: UsageError) -> str:
        """The file's name is enough: which folder it is in, who watches knows."""
        return problem.message.replace(f"{self._state.path.resolve().parent}{os.sep}", "")

    def _selected(self, instances: Sequence[Instance]) -> tuple[Instance, ...]:
        chosen = tuple(instances)
        return cases.matching(chosen, self._request.select) if self._request.select else chosen

    def _expand(self, environment: Environment) -> None:
        assert self._discovered is not None
        self._open.add("")
        self._slots.submit(Job(self._state.number, environment, (), file=self._discovered.file))

    def _rows_known(self, instances: tuple[Instance, ...]) -> None:
        if not instances:
            self._tell(problem=f"-k {self._request.select!r} fits no instance")
            return
        self._instances = instances
        for failed in self._failed.values():
            self._record_failure(failed)
        # Those that answer at once come first; the newest and the oldest, which tell most, before what lies between.
        warm = self._warm.warm()
        for environment in sorted(self._ready.values(), key=lambda each: each.build.name not in warm):
            self._start(environment)
        self._close_if_ended()

    def _start(self, environment: Environment) -> None:
        assert self._instances is not None
        wanted = []
        for instance in self._instances:
            isolation = plan.natural_isolation(instance.case, self._request.isolation, sys.platform.startswith("linux"))
            for device in self._request.devices:
                run = CellRun(instance, environment.build, device, 0, isolation)
                reason = self._inapplicable(run, environment)
                if reason is None:
                    wanted.append(run)
                else:
                    self._record(run, environment, {"outcome": Outcome.SKIPPED.value, "reason": reason})
        self._open.add(environment.build.name)
        self._slots.submit(Job(self._state.number, environment, tuple(wanted)))

    def _inapplicable(self, run: CellRun, environment: Environment) -> str | None:
        unmet = cases.unmet(run.instance.case, run.build.version, environment.packages)
        memory = host.device_memory(run.device)
        return plan.why_not(run.instance, run.device, self._request.memory_bytes, memory, unmet)

    # --- what comes in ----------------------------------------------------------------------------------------

    def _take(self) -> None:
        """What has come in, or for a moment nothing."""
        try:
            message = self._inbox.get(timeout=POLL_S)
            while True:
                self._handle(message)
                message = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _handle(self, message: CellAnswer | JobEnded | Ready | BaseException) -> None:
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, Ready):
            self._on_ready(message)
            return
        if isinstance(message, JobEnded) and message.failure is not None:
            raise message.failure
        if message.job.number != self._state.number:
            return
        if isinstance(message, CellAnswer):
            # Of a file that has changed since, the next save tells.
            if self._unchanged.what_changed(message.run.instance.case.file) is None:
                self._record(message.run, message.job.environment, message.facts)
        elif message.job.confirming:
            self._on_confirmed(message.job)
        elif message.job.file is not None:
            self._on_expanded(message)
        else:
            self._open.discard(message.job.environment.build.name)
            self._close_if_ended()

    def _on_ready(self, message: Ready) -> None:
        name = message.build.name
        waiting = {key: reason for key, reason in self._state.unready.items() if key != name}
        if message.environment is None:
            self._failed[name] = message
            self._tell(unready={**waiting, name: message.reason})
            self._record_failure(message)
        else:
            self._ready[name] = message.environment
            self._tell(unready=waiting)
            if self._instances is not None:
                self._start(message.environment)
            elif self._discovered is not None and self._discovered.instances is None and not self._open:
                self._expand(message.environment)
        self._close_if_ended()

    def _on_expanded(self, message: JobEnded) -> None:
        assert self._discovered is not None
        self._open.discard("")
        if message.problem:
            self._tell(problem=message.problem)
            return
        try:
            instances = cases.from_expansion(self._discovered, message.rows)
        except UsageError as problem:
            self._tell(problem=self._short(problem))
            return
        self._rows_known(self._selected(instances))

    def _record(self, run: CellRun, environment: Environment, facts: Mapping[str, object]) -> None:
        file = run.instance.case.file
        observation = Observation(
            **{  # type: ignore[arg-type]
                **facts,
                "key": f"{self._state.number} {run.instance.name} {run.device} {run.build.name}",
                "run_id": str(self._state.number),
                "build": run.build.version,
                "build_name": run.build.name,
                "build_kind": run.build.kind.value,
                "case_file": file.path.name,
                "case_file_hash": file.sha256,
                "case": run.instance.case.name,
                "instance": run.instance.name,
                "device": run.device,
                "repeat": run.repeat,
                "git_commit": environment.git_commit,
                "timeout_s": plan.time_limit_s(run.instance, run.device, self._request.timeout_s),
            }
        )
        kept = self._request.file.private.observation(observation)
        kept = dataclasses.replace(kept, build_name=run.build.name, instance=run.instance.name)
        self._observations[run.instance.name, run.device, run.build.name, run.repeat] = kept
        self._fresh = True

    def _record_failure(self, failed: Ready) -> None:
        nowhere = Environment(failed.build, Path(), Path(), "", "", {}, failed.build.version, None, None, "")
        for instance in self._instances or ():
            for device in self._request.devices:
                run = CellRun(instance, failed.build, device, 0, Isolation.PROCESS)
                self._record(run, nowhere, {"outcome": failed.outcome.value, "reason": failed.reason})

    # --- the end of a matrix, and after -----------------------------------------------------------------------

    def _close_if_ended(self) -> None:
        if self._instances is None or self._open or self._state.ended:
            return
        if len(self._ready) + len(self._failed) < len(self._request.builds):
            return
        self._tell(ended=True, seconds=time.monotonic() - self._saved_at, problem="")
        self._confirm()

    def _confirm(self) -> None:
        """The ends of transitions and of rows, in interpreters of their own; after them, until no more are wanted."""
        settings = analysis.Confirmation(budget_s=_CONFIRMING_S)
        names = [build.name for build in self._request.builds]
        wanted = analysis.wanted_repeats(self._observations.values(), names, confirmation=settings)
        self._tell(confirming=len(wanted))
        instances = {instance.name: instance for instance in self._instances or ()}
        builds = {build.name: build for build in self._request.builds}
        for each in wanted:
            run = CellRun(instances[each.instance], builds[each.build], each.device, each.repeat, Isolation.PROCESS)
            job = Job(self._state.number, self._ready[each.build], (run,), confirming=True)
            self._open.add(f"{each.build} {each.instance} {each.device} {each.repeat}")
            self._slots.submit(job)

    def _on_confirmed(self, job: Job) -> None:
        run = job.runs[0]
        self._open.discard(f"{run.build.name} {run.instance.name} {run.device} {run.repeat}")
        if self._open:
            self._tell(confirming=len(self._open))
        else:
            self._confirm()

    def _series(self) -> tuple[Series, ...]:
        assert self._instances is not None
        names = [build.name for build in self._request.builds]
        file = self._instances[0].case.file.path.name
        rows = [(file, instance.name, device) for instance in self._instances for device in self._request.devices]
        return tuple(analysis.build_series(self._observations.values(), names, rows=rows))

    def _tell(self, **changes: object) -> None:
        self._state = dataclasses.replace(self._state, **changes)  # type: ignore[arg-type]
        self._draw()

    def _draw(self) -> None:
        if self._instances is not None:
            seen = tuple(self._observations.values())
            self._state = dataclasses.replace(self._state, series=self._series(), observations=seen)
        self._state = dataclasses.replace(self._state, dropped=self._warm.dropped)
        self._fresh, self._drawn_at = False, time.monotonic()
        self._show(self._state)

    def _start_worker(self, environment: Environment, on_start: Callable[[WorkerProcess], None]) -> WorkerProcess:
        # A script has an interpreter of its own on every run: nothing is won by importing torch here.
        script = self._discovered is not None and self._discovered.file.kind is not CaseKind.CASE
        stage: Stage = "none" if script else "eager"
        return start_worker(environment, self._conditions, stage=stage, on_start=on_start)

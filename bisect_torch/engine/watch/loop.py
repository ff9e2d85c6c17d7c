"""``watch``: run a file again on every save. All state lives in the thread that calls :meth:`Watch.execute`."""

from __future__ import annotations

import dataclasses
import os
import queue
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bisect_torch import cases, environments
from bisect_torch.cases import Discovered
from bisect_torch.engine.plan import CellRun
from bisect_torch.engine.request import RunRequest
from bisect_torch.engine.unchanged import Unchanged
from bisect_torch.engine.watch.cells import CellAnswer, Job, JobEnded, Slots
from bisect_torch.engine.watch.file import FileWatch, Look
from bisect_torch.engine.watch.installer import Installer, Ready
from bisect_torch.engine.watch.matrix import Matrix
from bisect_torch.engine.watch.state import WatchState
from bisect_torch.engine.watch.warm import WarmWorkers
from bisect_torch.engine.worker_process import Stage, WorkerProcess, start_worker
from bisect_torch.errors import UsageError
from bisect_torch.interruption import Interruption
from bisect_torch.model import CaseKind, Environment, Instance

POLL_S = 0.02
DRAW_S = 0.1
"""Between two drawings of a matrix that still fills up."""

_DOUBT_S = 0.25
"""How long a file that cannot be read may still become another before that is said: it may be half written."""

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
        self._matrix: Matrix | None = None
        self._unchanged = Unchanged()
        self._open: set[str] = set()
        self._saved_at = 0.0
        self._drawn_at = 0.0
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
        if self._matrix is not None and self._matrix.fresh and now - self._drawn_at >= DRAW_S:
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
        self._matrix = None
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
        self._matrix = Matrix(self._request, self._state.number, instances)
        for failed in self._failed.values():
            self._matrix.record_failure(failed)
        # Those that answer at once come first; the newest and the oldest, which tell most, before what lies between.
        warm = self._warm.warm()
        for environment in sorted(self._ready.values(), key=lambda each: each.build.name not in warm):
            self._start(self._matrix, environment)
        self._close_if_ended()

    def _start(self, matrix: Matrix, environment: Environment) -> None:
        self._open.add(environment.build.name)
        self._slots.submit(Job(self._state.number, environment, matrix.runs(environment)))

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
                assert self._matrix is not None
                self._matrix.record(message.run, message.job.environment, message.facts)
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
            if self._matrix is not None:
                self._matrix.record_failure(message)
        else:
            self._ready[name] = message.environment
            self._tell(unready=waiting)
            if self._matrix is not None:
                self._start(self._matrix, message.environment)
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

    # --- the end of a matrix, and after -----------------------------------------------------------------------

    def _close_if_ended(self) -> None:
        if self._matrix is None or self._open or self._state.ended:
            return
        if len(self._ready) + len(self._failed) < len(self._request.builds):
            return
        self._tell(ended=True, seconds=time.monotonic() - self._saved_at, problem="")
        self._confirm(self._matrix)

    def _confirm(self, matrix: Matrix) -> None:
        """The ends of transitions and of rows; after them, until no more are wanted."""
        wanted = matrix.confirming()
        self._tell(confirming=len(wanted))
        for run in wanted:
            self._open.add(_confirmation(run))
            self._slots.submit(Job(self._state.number, self._ready[run.build.name], (run,), confirming=True))

    def _on_confirmed(self, job: Job) -> None:
        self._open.discard(_confirmation(job.runs[0]))
        if self._open:
            self._tell(confirming=len(self._open))
        else:
            assert self._matrix is not None
            self._confirm(self._matrix)

    def _tell(self, **changes: object) -> None:
        self._state = dataclasses.replace(self._state, **changes)  # type: ignore[arg-type]
        self._draw()

    def _draw(self) -> None:
        if self._matrix is not None:
            seen = self._matrix.observations
            self._state = dataclasses.replace(self._state, series=self._matrix.series(), observations=seen)
            self._matrix.fresh = False
        self._state = dataclasses.replace(self._state, dropped=self._warm.dropped)
        self._drawn_at = time.monotonic()
        self._show(self._state)

    def _start_worker(self, environment: Environment, on_start: Callable[[WorkerProcess], None]) -> WorkerProcess:
        # A script has an interpreter of its own on every run: nothing is won by importing torch here.
        script = self._discovered is not None and self._discovered.file.kind is not CaseKind.CASE
        stage: Stage = "none" if script else "eager"
        return start_worker(environment, self._conditions, stage=stage, on_start=on_start)


def _confirmation(run: CellRun) -> str:
    """By what a run that confirms is known while it is open; never the name of a build."""
    return f"{run.build.name} {run.instance.name} {run.device} {run.repeat}"

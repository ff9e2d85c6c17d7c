"""Where a run takes place: there its environments are made and its cells run. The run itself is the same everywhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from bisect_torch import environments
from bisect_torch.engine import events, host
from bisect_torch.engine.plan import CellRun, Task
from bisect_torch.engine.request import RunRequest
from bisect_torch.engine.rotation import Rotation
from bisect_torch.engine.slot_messages import Message
from bisect_torch.errors import BisectTorchError
from bisect_torch.model import Build, CaseFile, Environment, Outcome

if TYPE_CHECKING:
    from bisect_torch.engine.executor import LocalExecutor


class Ready(events.EnvironmentReady):
    """A build has its environment."""


@dataclass(frozen=True)
class Failed:
    """A build has no usable environment, and why."""

    build: Build
    outcome: Outcome
    reason: str
    detail: str | None = None
    """All that was said of it, where ``reason`` has it in short."""
    at: float = field(default_factory=time.monotonic)
    """When it failed, on the monotonic clock."""


@dataclass(frozen=True)
class Unproven:
    """Cells that ended in environments which nobody can look at any more. Where one of them had been broken meanwhile,
    what its cells say is not true of the build, and nobody will find out."""

    runs: tuple[CellRun, ...]


Told = Message | events.BuildProgress | Unproven
"""What a site tells while it is open."""


class Site(Protocol):
    """What a run asks of the place where it takes place."""

    devices: Mapping[str, host.Device]
    """What the devices of the run are there, by name."""

    slots: int
    """How many cells run at once."""

    makers: int
    """How many environments are made at once."""

    def describe(self) -> Mapping[str, object]:
        """What a run's manifest has of it: ``host``, and what else there is to say."""

    def open(self, deliver: Callable[[Told], None]) -> None:
        """Begin. Called once, before what follows.

        Args:
            deliver: Called with all that happens, from any thread.
        """

    def make(self, build: Build, cancel: threading.Event) -> Ready | Failed:
        """The environment of a build, made where it is not there; waits for it. As many threads call as there are
        makers."""

    def changed(self, builds: Iterable[str]) -> Mapping[str, str]:
        """What changed in the environments of these builds since they were made; nothing of those that did not."""

    def submit(self, task: Task) -> None:
        """Run the cells of a task."""

    def expand(self, file: CaseFile, environment: Environment, words: tuple[str, ...] = ()) -> None:
        """Have a worker of ``environment`` read the instances of a case file that needs torch to be expanded.

        Args:
            words: For pytest, where the file stands for a suite.
        """

    def close(self) -> None:
        """End once what was submitted is done."""

    def stop(self, grace_s: float) -> None:
        """Kill what runs; return within about ``grace_s`` seconds."""


class LocalSite:
    """This machine.

    Args:
        request: The run.
        rotation: Which group of environments has its turn.
    """

    makers = 1

    def __init__(self, request: RunRequest, rotation: Rotation) -> None:
        self.devices: Mapping[str, host.Device] = {name: host.device(name) for name in request.devices}
        self.slots = request.jobs
        self._request = request
        self._rotation = rotation
        self._planned = {planned.build.name: planned for planned in request.plan.environments}
        self._made: dict[str, tuple[Environment, environments.Seal | None]] = {}
        self._progress: Callable[[events.BuildProgress], None]
        self._executor: LocalExecutor

    def describe(self) -> Mapping[str, object]:
        """See :class:`Site`."""
        return {"host": host.host_facts()}

    def open(self, deliver: Callable[[Told], None]) -> None:
        """See :class:`Site`."""
        from bisect_torch.engine.executor import LocalExecutor

        staged = environments.staged_package(self._request.environment_options.store)
        self._progress = deliver
        self._executor = LocalExecutor(self.slots, self._request.conditions(staged), deliver)

    def make(self, build: Build, cancel: threading.Event) -> Ready | Failed:
        """See :class:`Site`."""
        begin = time.monotonic()
        planned = self._planned[build.name]
        refusal = planned.offline or self._rotation.refusal(build)
        if refusal:
            return Failed(build, Outcome.LOST, refusal)
        try:
            environment, reused = environments.ensure(
                build,
                self._rotation.options,
                progress=self._progress,
                cancel=cancel,
                python=planned.request,
                uses=self._rotation.uses,
            )
        except BisectTorchError as error:
            return Failed(build, environments.outcome_of(error), error.message, error.detail)
        self._rotation.made(environment)
        self._made[build.name] = environment, environments.seal(environment)
        return Ready(build, environment, time.monotonic() - begin, reused)

    def changed(self, builds: Iterable[str]) -> Mapping[str, str]:
        """See :class:`Site`."""
        found = {name: environments.changed_since(*self._made[name]) for name in builds}
        return {name: what for name, what in found.items() if what is not None}

    def submit(self, task: Task) -> None:
        """See :class:`Site`."""
        self._executor.submit(task)

    def expand(self, file: CaseFile, environment: Environment, words: tuple[str, ...] = ()) -> None:
        """See :class:`Site`."""
        self._executor.expand(file, environment, words)

    def close(self) -> None:
        """See :class:`Site`."""
        self._executor.close()

    def stop(self, grace_s: float) -> None:
        """See :class:`Site`."""
        self._executor.stop(grace_s)

"""What runs on a node: it makes environments in the node's own store and runs cells in them, as one machine does.

It lives in a process of Ray's. The cells do not: each runs through a worker process of the target environment, started
and supervised by the same code as everywhere, which knows nothing of Ray.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bisect_torch import environments
from bisect_torch.engine import host
from bisect_torch.engine.executor import CellBegan, CellDone, Conditions, Expanded, Facts, LocalExecutor, Message
from bisect_torch.engine.plan import Task
from bisect_torch.environments import EnvironmentOptions, Seal, Store
from bisect_torch.errors import BisectTorchError
from bisect_torch.model import Build, BuildKind, CaseFile, Environment, Outcome

_LISTEN_S = 1.0
_SET_BY_RAY = frozenset({"OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"})
"""Variables that Ray sets in its own processes by what they reserve; cells get those of the run."""


@dataclass(frozen=True)
class NodeOptions:
    """What every node is told once.

    Args:
        environments: How environments are made; their store is the node's own.
        store: Where it lies; None takes the node's ``BISECT_TORCH_STORE``, or the default.
        variables: The run's own values of the variables that Ray sets.
        jobs: Cells at once on a node; None for as many as it has cores and accelerators.
        devices: Those of the run.
    """

    environments: EnvironmentOptions
    store: Path | None
    variables: Mapping[str, str]
    jobs: int
    devices: tuple[str, ...]
    timeout_s: float
    threads: int | None
    memory_bytes: int
    seed: int
    working_directory: Path
    thorough: bool


@dataclass(frozen=True)
class Began:
    """Cell ``place`` of task ``number`` began."""

    number: int
    place: int


@dataclass(frozen=True)
class Ended:
    """All cells of a task have ended: their facts in the order of its runs. ``bytes`` of a task do not travel back."""

    number: int
    facts: tuple[Facts, ...]


@dataclass(frozen=True)
class Read:
    """A case file was expanded."""

    number: int
    rows: tuple[Mapping[str, object], ...]
    error: str | None


Told = Began | Ended | Read | Message
"""What a node tells: a message for the run as it is, or one about work that has a number."""


def own_variables() -> dict[str, str]:
    """Of this process, those that Ray would set in its own."""
    return {name: os.environ[name] for name in _SET_BY_RAY if name in os.environ}


def identity(devices: tuple[str, ...]) -> tuple[object, ...]:
    """What must be the same on every node, since cells of one series are compared."""
    return host.machine_class(), *(host.device_identity(device) for device in devices)


class Node:
    """The run on one node. Ray calls it from several threads."""

    def __init__(self, options: NodeOptions) -> None:
        store = Store.open(options.store)
        self._options = options
        self._environment_options = replace(options.environments, store=store)
        self._told: queue.Queue[Told] = queue.Queue()
        self._making = threading.Lock()
        self._uses = environments.Uses(store)
        self._made: dict[str, tuple[Environment, Seal | None]] = {}
        self._tasks: dict[int, _Running] = {}
        self._reading: dict[tuple[Path, str], int] = {}
        conditions = Conditions(
            staged=environments.staged_package(store),
            environment_variables=self._variables,
            capability=environments.capability,
            timeout_s=options.timeout_s,
            threads=options.threads,
            memory_bytes=options.memory_bytes,
            seed=options.seed,
            working_directory=options.working_directory,
            thorough=options.thorough,
        )
        self._executor = LocalExecutor(options.jobs, conditions, self._deliver)

    def identity(self) -> tuple[object, ...]:
        """See :func:`identity`."""
        return identity(self._options.devices)

    def ensure(self, build: Build, python: str | None) -> tuple[Environment, bool]:
        """The build's environment in the store of this node, and whether it was there.

        Raises:
            BisectTorchError: It cannot be made.
        """
        with self._making:
            if build.name in self._made:
                return self._made[build.name][0], True
            environment, reused = environments.ensure(
                build, self._environment_options, progress=self._told.put, python=python, uses=self._uses
            )
            self._made[build.name] = environment, environments.seal(environment)
            return environment, reused

    def submit(self, number: int, task: Task, python: str | None) -> None:
        """Run a task; what comes of it is told under its number."""
        try:
            here = self._same(task.environment, python)
        except BisectTorchError as error:
            lost = {"outcome": Outcome.LOST.value, "reason": error.message}
            self._told.put(Ended(number, (lost,) * len(task.runs)))
            return
        own = replace(task, environment=here)
        running = _Running(number, own)
        self._tasks[id(own)] = running
        self._executor.submit(own)

    def expand(
        self, number: int, file: CaseFile, environment: Environment, words: tuple[str, ...], python: str | None
    ) -> None:
        """Read the instances of a case file, or what pytest collects."""
        try:
            here = self._same(environment, python)
        except BisectTorchError as error:
            self._told.put(Read(number, (), error.message))
            return
        self._reading[file.path, environment.build.name] = number
        self._executor.expand(file, here, words)

    def told(self) -> list[Told]:
        """What has happened since this was asked last; waits a moment for something to happen."""
        found: list[Told] = []
        try:
            found.append(self._told.get(timeout=_LISTEN_S))
            while True:
                found.append(self._told.get_nowait())
        except queue.Empty:
            return found

    def stop(self, grace_s: float) -> None:
        """Kill what runs."""
        self._executor.stop(grace_s)
        self._uses.close()

    def _same(self, wanted: Environment, python: str | None) -> Environment:
        """This node's environment of the same build with the same content."""
        here, _ = self.ensure(wanted.build, python)
        if here.identity != wanted.identity:
            raise BisectTorchError(f"the environment of {wanted.build.name} is not the same on all nodes")
        return here

    def _variables(self, environment: Environment) -> Mapping[str, str]:
        given = {
            name: value for name, value in os.environ.items() if not name.startswith("RAY_") and name not in _SET_BY_RAY
        }
        return environments.clean_environment_variables(
            environment.python,
            {**given, **self._options.variables},
            user_site=environment.build.kind is BuildKind.LOCAL,
            passed=self._environment_options.pass_env,
        )

    def _deliver(self, message: Message) -> None:
        """From the executor's threads."""
        if isinstance(message, CellBegan):
            for running in list(self._tasks.values()):
                place = running.place(message.run)
                if place is not None:
                    self._told.put(Began(running.number, place))
        elif isinstance(message, CellDone):
            running = self._tasks[id(message.task)]
            if running.end(message):
                del self._tasks[id(message.task)]
                self._told.put(Ended(running.number, self._swept(message.task.environment, running.all_facts())))
        elif isinstance(message, Expanded):
            number = self._reading.pop((message.file.path, message.environment.build.name))
            self._told.put(Read(number, message.rows, message.error))
        else:
            self._told.put(message)

    def _swept(self, environment: Environment, facts: tuple[Facts, ...]) -> tuple[Facts, ...]:
        """The facts, unless the environment changed while the cells ran: then they say nothing."""
        what = environments.changed_since(*self._made[environment.build.name])
        if what is None:
            return facts
        reason = f"the environment changed during the run: {what}"
        return tuple({**each, "outcome": Outcome.ENVIRONMENT_BROKEN.value, "reason": reason} for each in facts)


class _Running:
    """A task and what its cells have said so far."""

    def __init__(self, number: int, task: Task) -> None:
        self.number = number
        self._task = task
        self._places = {id(run): place for place, run in enumerate(task.runs)}
        self._facts: dict[int, Facts] = {}

    def place(self, run: object) -> int | None:
        return self._places.get(id(run))

    def end(self, message: CellDone) -> bool:
        """Take what a cell said; whether it was the last one."""
        self._facts[self._places[id(message.run)]] = message.facts
        return len(self._facts) == len(self._places)

    def all_facts(self) -> tuple[Facts, ...]:
        return tuple(self._facts[place] for place in range(len(self._places)))

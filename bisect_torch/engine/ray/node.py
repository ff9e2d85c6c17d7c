"""What runs on a node: it makes environments in the node's own store and runs cells in them, as one machine does.

It lives in a process of Ray's. The cells do not: each runs through a worker process of the target environment, started
and supervised by the same code as everywhere, which knows nothing of Ray.
"""

from __future__ import annotations

import hashlib
import queue
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from bisect_torch import environments, temporary
from bisect_torch.engine import events, host
from bisect_torch.engine.conditions import Conditions
from bisect_torch.engine.executor import LocalExecutor
from bisect_torch.engine.plan import CellRun, Task
from bisect_torch.engine.ray import messages, variables
from bisect_torch.engine.ray.messages import Introduction, Make, NodeOptions, Order, RunTask, Told, Wanted
from bisect_torch.engine.ray.wording import Wording
from bisect_torch.engine.slot_messages import CellBegan, CellDone, Expanded, Message, SlotFailed
from bisect_torch.environments import Seal, Store
from bisect_torch.errors import BisectTorchError, InfrastructureError
from bisect_torch.model import Build, BuildKind, Environment
from bisect_torch.shipped import tool_version

_LISTEN_S = 1.0
_GATHER_S = 0.05
"""What ends so soon after one another is told together: a call through Ray takes both sides 0.7 ms of computing."""


class Node:
    """The run on one node. Ray calls it from several threads; no method takes long, and answers come by :meth:`told`.

    Args:
        options: The run's.
        slots: Cells at once.
    """

    def __init__(self, options: NodeOptions, slots: int) -> None:
        variables.adopt(options.variables, variables.of_parent())
        temporary.sweep()
        store = Store.open()
        self._options = options
        self._slots = slots
        self._environment_options = replace(options.environments, store=store)
        self._folder = temporary.make_folder()
        self._unpacked = options.luggage.unpack(self._folder)
        self._wording = Wording(self._unpacked.folders, store.root)
        self._staged = environments.staged_package(store)
        self._uses = environments.Uses(store)
        self._told: queue.Queue[Told] = queue.Queue()
        self._orders: queue.Queue[tuple[int, Wanted]] = queue.Queue()
        self._cancel = threading.Event()
        self._lock = threading.Lock()
        self._made: dict[str, tuple[Environment, Seal | None]] = {}
        self._running: dict[int, Task] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._reading: dict[tuple[Path, str], int] = {}
        self._executor: LocalExecutor

    def introduce(self) -> Introduction:
        """What this node is."""
        return Introduction(
            code=(tool_version(), self._staged.parent.name),
            devices={name: host.device(name) for name in self._options.devices},
            memory_bytes=self._options.memory_bytes or host.memory_for_cells(),
            host=host.host_facts(),
        )

    def begin(self, memory_bytes: int) -> None:
        """Be ready for what :meth:`take` is given.

        Args:
            memory_bytes: For all cells here together: what the smallest node has, so that nothing depends on which one
                a cell runs on.
        """
        conditions = Conditions(
            staged=self._staged,
            environment_variables=self._variables,
            capability=environments.capability,
            timeout_s=self._options.timeout_s,
            threads=self._options.threads,
            memory_bytes=memory_bytes,
            seed=self._options.seed,
            working_directory=self._unpacked.working_directory,
            thorough=self._options.thorough,
        )
        self._executor = LocalExecutor(self._slots, conditions, self._deliver)
        threading.Thread(target=self._make_in_turn, name="maker", daemon=True).start()

    def take(self, number: int, wanted: Wanted) -> None:
        """Do something; what comes of it is told under ``number``."""
        if wanted.order.build.name in self._made:
            self._do(number, wanted)
        else:
            self._orders.put((number, wanted))

    def told(self) -> list[Told]:
        """What has happened since this was asked last; waits a moment for something to happen."""
        try:
            first = self._told.get(timeout=_LISTEN_S)
        except queue.Empty:
            return []
        self._cancel.wait(_GATHER_S)
        return [first, *self._told_already()]

    def _told_already(self) -> Iterator[Told]:
        while True:
            try:
                yield self._told.get_nowait()
            except queue.Empty:
                return

    def changed(self, builds: Iterable[str]) -> dict[str, str]:
        """What changed in the environments of builds since they were made. Those are made anew when wanted again."""
        found = {}
        for name in builds:
            what = environments.changed_since(*self._made[name]) if name in self._made else None
            if what is not None:
                found[name] = what
                del self._made[name]
        return found

    def stop(self, grace_s: float) -> list[Told]:
        """Kill what runs, and leave nothing behind; gives what has not been told yet."""
        self._cancel.set()
        self._executor.stop(grace_s)  # first: a cell that runs would miss its file and blame the build
        shutil.rmtree(self._folder, ignore_errors=True)
        self._uses.close()
        return list(self._told_already())

    def _make_in_turn(self) -> None:
        """What needs an environment that is not there, in the order in which it came: one is made at a time."""
        while True:
            number, wanted = self._orders.get()
            if not self._cancel.is_set():
                self._do(number, wanted)

    def _do(self, number: int, wanted: Wanted) -> None:
        begin = time.monotonic()
        try:
            environment, reused = self._environment(wanted.order)
        except BisectTorchError as error:
            reason = self._wording.text(error.message)
            detail = None if error.detail is None else self._wording.text(error.detail)
            self._told.put(messages.EnvironmentFailed(number, environments.outcome_of(error), reason, detail))
        except BaseException as error:  # noqa: BLE001
            # Not handled here but handed over: an exception must not vanish with this thread.
            self._told.put(messages.NodeFailed(f"{type(error).__name__}: {error}"))
        else:
            if isinstance(wanted, Make):
                seconds = time.monotonic() - begin
                self._told.put(messages.EnvironmentMade(number, environment, reused, seconds))
            elif isinstance(wanted, RunTask):
                self._run(number, wanted.task, environment)
            else:
                file = self._unpacked.here(wanted.file)
                self._reading[file.path, environment.build.name] = number
                self._executor.expand(file, environment)

    def _environment(self, order: Order) -> tuple[Environment, bool]:
        """The environment of a build, and whether it was there.

        Raises:
            BisectTorchError: It cannot be made, or is not the one that the other nodes have.
        """
        name = order.build.name
        with self._lock:
            reused = name in self._made
            if not reused:
                environment, reused = environments.ensure(
                    self._with_lock(order.build),
                    self._environment_options,
                    progress=lambda event: self._told.put(replace(event, build=order.build)),
                    cancel=self._cancel,
                    python=self._options.pythons[name],
                    uses=self._uses,
                )
                environment = replace(environment, build=order.build)
                self._made[name] = environment, environments.seal(environment)
            environment = self._made[name][0]
        if order.identity is not None and environment.identity != order.identity:
            raise InfrastructureError(f"the environment of {name} is another one on this node: {environment.identity}")
        return environment, reused

    def _with_lock(self, build: Build) -> Build:
        """The build, to be made from the lock that the user's machine has of it, if it has one."""
        text = self._options.locks.get(build.name)
        if text is None:
            return build
        path = self._folder / "locks" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.lock"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return replace(build, lock=path, only_lock=True)

    def _run(self, number: int, task: Task, environment: Environment) -> None:
        own = replace(task, environment=environment, runs=tuple(map(self._here, task.runs)))
        self._running[number] = own  # keeps what the ids stand for
        self._places.update({id(run): (number, place) for place, run in enumerate(own.runs)})
        self._executor.submit(own)

    def _here(self, run: CellRun) -> CellRun:
        """The same cell, whose case file lies here."""
        case = run.instance.case
        moved = replace(case, file=self._unpacked.here(case.file))
        return replace(run, instance=replace(run.instance, case=moved))

    def _variables(self, environment: Environment) -> Mapping[str, str]:
        return environments.clean_environment_variables(
            environment.python,
            variables.for_cells(),
            user_site=environment.build.kind is BuildKind.LOCAL,
            passed=self._environment_options.pass_env,
        )

    def _deliver(self, message: Message) -> None:
        """From the executor's threads."""
        if isinstance(message, CellBegan):
            self._told.put(messages.Began(*self._places[id(message.run)], message.slot))
        elif isinstance(message, CellDone):
            number, place = self._places.pop(id(message.run))
            self._told.put(messages.Ended(number, place, message.slot, self._wording.facts(message.facts)))
            if place == len(message.task.runs) - 1:
                del self._running[number]
        elif isinstance(message, Expanded):
            number = self._reading.pop((message.file.path, message.environment.build.name))
            error = None if message.error is None else self._wording.text(message.error)
            self._told.put(messages.Instances(number, message.rows, error))
        elif isinstance(message, SlotFailed):
            self._told.put(messages.NodeFailed(f"{type(message.error).__name__}: {message.error}"))
        elif isinstance(message, events.Note):
            self._told.put(replace(message, text=self._wording.text(message.text)))
        else:
            self._told.put(message)

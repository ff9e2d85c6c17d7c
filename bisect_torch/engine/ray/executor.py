"""Spreads environments and tasks over the nodes of a Ray cluster, and gives back what a lost node had."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bisect_torch.engine import events
from bisect_torch.engine.executor import CellBegan, CellDone, Expanded, Message, SlotFailed
from bisect_torch.engine.plan import Task
from bisect_torch.engine.ray.node import Began, Ended, Node, NodeOptions, Read, Told, identity
from bisect_torch.errors import InfrastructureError, Interrupted
from bisect_torch.model import Build, CaseFile, Environment, Outcome

_START_S = 120.0
_ASK_S = 0.5
_THREADS = 16
"""Of a node's actor: one listens, one makes environments, others hand over tasks."""


@dataclass
class _Place:
    """A node as the run sees it."""

    name: str
    actor: Any
    work: dict[int, _Work] = field(default_factory=dict)
    builds: set[str] = field(default_factory=set)
    lost: bool = False


@dataclass
class _Work:
    """A task, or a case file to be read with the environment and the words for pytest."""

    what: Task | tuple[CaseFile, Environment, tuple[str, ...]]
    given_back: bool = False

    @property
    def build(self) -> str:
        environment = self.what.environment if isinstance(self.what, Task) else self.what[1]
        return environment.build.name


class RayExecutor:
    """The executor of a run on a cluster; messages come from the threads that listen to the nodes.

    A task goes to the node that made the environment of its build. When a node is lost, its tasks go to another one,
    which makes the environment too; a task that loses a second node is reported as lost.

    Args:
        options: For every node.
        pythons: Build name to the Python that the plan chose.

    Raises:
        InfrastructureError: No node can be used.
    """

    def __init__(
        self, options: NodeOptions, pythons: dict[str, str | None], deliver: Callable[[Message], None]
    ) -> None:
        self._pythons = pythons
        self._deliver = deliver
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._stopped = threading.Event()
        self._places = [_Place(name, actor) for name, actor in _start_nodes(options, deliver)]
        self._listeners = [
            threading.Thread(target=self._listen, args=(place,), name=place.name, daemon=True) for place in self._places
        ]
        for listener in self._listeners:
            listener.start()

    @property
    def nodes(self) -> int:
        """How many there are."""
        return len(self._places)

    def make(self, build: Build, cancel: threading.Event) -> tuple[Environment, bool]:
        """The environment of a build on the node that has fewest; on another one when that is lost meanwhile.

        Raises:
            BisectTorchError: It cannot be made.
            Interrupted: ``cancel`` was set.
        """
        while True:
            with self._lock:
                place = min(self._alive(), key=lambda each: len(each.builds))
                place.builds.add(build.name)
            answer = place.actor.ensure.remote(build, self._pythons.get(build.name))
            try:
                made: tuple[Environment, bool] = _wait(answer, cancel)
                return made
            except RayActorError:
                self._lose(place)

    def submit(self, task: Task) -> None:
        self._send(_Work(task))

    def expand(self, file: CaseFile, environment: Environment, words: tuple[str, ...] = ()) -> None:
        """See :meth:`LocalExecutor.expand`."""
        self._send(_Work((file, environment, words)))

    def close(self) -> None:
        """Return once what was submitted is done."""
        with self._idle:
            self._idle.wait_for(lambda: not any(place.work for place in self._places))
        self.stop(1.0)

    def stop(self, grace_s: float) -> None:
        """Kill what runs on every node; return within about ``grace_s`` seconds."""
        self._stopped.set()
        deadline = time.monotonic() + grace_s
        with self._lock:
            for place in self._places:
                place.work.clear()
            asked = [place.actor.stop.remote(grace_s) for place in self._places if not place.lost]
        if asked:
            ray.wait(asked, num_returns=len(asked), timeout=grace_s)
        for place in self._places:
            ray.kill(place.actor)
        for listener in self._listeners:
            listener.join(timeout=max(0.0, deadline - time.monotonic()))

    def _alive(self) -> list[_Place]:
        alive = [place for place in self._places if not place.lost]
        if not alive:
            raise InfrastructureError("every node of the Ray cluster was lost")
        return alive

    def _send(self, work: _Work) -> None:
        with self._lock:
            number = next(self._numbers)
            place = min(self._alive(), key=lambda each: (work.build not in each.builds, len(each.work)))
            place.builds.add(work.build)
            place.work[number] = work
        python = self._pythons.get(work.build)
        if isinstance(work.what, Task):
            place.actor.submit.remote(number, work.what, python)
        else:
            place.actor.expand.remote(number, *work.what, python)

    def _listen(self, place: _Place) -> None:
        """Take what a node tells until it is lost, or the run is over."""
        try:
            while not self._stopped.is_set():
                try:
                    for told in ray.get(place.actor.told.remote()):
                        self._take(place, told)
                except RayActorError:
                    self._lose(place)
                    return
        except BaseException as error:  # noqa: BLE001
            # Not handled here but handed over: an exception must not vanish with this thread.
            if not self._stopped.is_set():
                self._deliver(SlotFailed(error))

    def _take(self, place: _Place, told: Told) -> None:
        if not isinstance(told, Began | Ended | Read):
            self._deliver(told)
            return
        with self._idle:
            work = place.work.get(told.number)
            if work is not None and not isinstance(told, Began):
                del place.work[told.number]
                self._idle.notify_all()
        if work is None:
            return
        if isinstance(work.what, Task):
            task = work.what
            if isinstance(told, Began):
                self._deliver(CellBegan(task.runs[told.place]))
            elif isinstance(told, Ended):
                for run, facts in zip(task.runs, told.facts, strict=True):
                    self._deliver(CellDone(task, run, facts))
        elif isinstance(told, Read):
            file, environment, _ = work.what
            self._deliver(Expanded(file, environment, told.rows, told.error))

    def _lose(self, place: _Place) -> None:
        """A node is gone: its work goes to the others, once."""
        with self._idle:
            if place.lost or self._stopped.is_set():
                return
            place.lost = True
            left = list(place.work.values())
            place.work.clear()
            self._idle.notify_all()
        cells = sum(len(work.what.runs) for work in left if isinstance(work.what, Task))
        self._deliver(events.Note(f"a node of the Ray cluster was lost; {cells} cells run again on another"))
        for work in left:
            if isinstance(work.what, Task) and work.given_back:
                facts = {"outcome": Outcome.LOST.value, "reason": "two nodes were lost while it ran"}
                for run in work.what.runs:
                    self._deliver(CellDone(work.what, run, facts))
            else:
                self._send(_Work(work.what, given_back=True))


def _start_nodes(options: NodeOptions, deliver: Callable[[Message], None]) -> list[tuple[str, Any]]:
    """An actor on every node that is like this machine."""
    remote = ray.remote(Node)
    started = []
    for node in ray.nodes():
        if node["Alive"]:
            affinity = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            actor = remote.options(num_cpus=0, max_concurrency=_THREADS, scheduling_strategy=affinity).remote(options)
            started.append((str(node["NodeManagerAddress"]), actor, actor.identity.remote()))
    here = identity(options.devices)
    usable = []
    for name, actor, answer in started:
        there = ray.get(answer, timeout=_START_S)
        if there == here:
            usable.append((name, actor))
        else:
            deliver(events.Note(f"node {name} is left out: it has {there}, this machine {here}"))
            ray.kill(actor)
    if not usable:
        raise InfrastructureError("no node of the Ray cluster has the processor, devices and drivers of this machine")
    return usable


def _wait(answer: Any, cancel: threading.Event) -> Any:
    while not cancel.is_set():
        try:
            return ray.get(answer, timeout=_ASK_S)
        except GetTimeoutError:
            continue
        except RayTaskError as error:
            raise error.cause from error
    raise Interrupted("stopped")

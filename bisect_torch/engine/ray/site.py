"""A run's site that is a Ray cluster: what is asked of the nodes, what they tell, what happens when one is lost."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError

from bisect_torch.engine import events, site
from bisect_torch.engine.host import Device
from bisect_torch.engine.plan import Task
from bisect_torch.engine.ray import messages
from bisect_torch.engine.ray.dispatch import Dispatch, Node
from bisect_torch.engine.ray.messages import Make, Order, Read, RunTask
from bisect_torch.engine.site import Failed, Ready
from bisect_torch.engine.slot_messages import CellBegan, CellDone, Expanded, SlotFailed
from bisect_torch.errors import InfrastructureError
from bisect_torch.model import Build, CaseFile, Environment, Outcome

_ASK_S = 0.5
_NO_NODE = "no node of the Ray cluster is left that could run it"


@dataclass
class Member:
    """A node with the process of ours on it.

    Args:
        actor: Ray's handle of :class:`bisect_torch.engine.ray.node.Node`.
        facts: For the manifest.
        first_slot: The run counts the slots of all nodes together.
    """

    node: Node
    actor: Any
    facts: Mapping[str, object]
    asked: dict[int, _Question] = field(default_factory=dict)
    first_slot: int = 0


@dataclass(frozen=True)
class _Question:
    """What is not a task: an environment to be made, a case file to be read."""

    wanted: Make | Read
    answer: Callable[[Ready | Failed], None] | None = None


class RaySite:
    """See :class:`bisect_torch.engine.site.Site`.

    A task goes to a node that has the environment of its build. When a node is lost, what it had goes to others, which
    make the environment too. All state is guarded by one lock; messages come from a thread for each node.

    Args:
        members: The nodes that take part, all of them begun.
        devices: What the devices of the run are on them.
        described: What the manifest has of the cluster.
    """

    def __init__(
        self,
        members: list[Member],
        devices: Mapping[str, Device],
        described: Mapping[str, object],
    ) -> None:
        self.devices = devices
        self.slots = sum(member.node.slots for member in members)
        self.makers = len(members)
        self._members = {member.node.name: member for member in members}
        self._dispatch = Dispatch([member.node for member in members])
        self._described = described
        self._identities: dict[str, tuple[object, ...]] = {}
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._deliver: Callable[[site.Told], None]
        self._listeners: list[threading.Thread] = []

    def describe(self) -> Mapping[str, object]:
        """See :class:`Site`."""
        return self._described

    def open(self, deliver: Callable[[site.Told], None]) -> None:
        """See :class:`Site`."""
        self._deliver = deliver
        slots = 0
        for member in self._members.values():
            member.first_slot = slots
            slots += member.node.slots
            listener = threading.Thread(target=self._listen, args=(member,), name=member.node.name, daemon=True)
            self._listeners.append(listener)
            listener.start()

    def make(self, build: Build, cancel: threading.Event) -> Ready | Failed:
        """See :class:`Site`. Made on the node that has fewest; on another one where that is lost meanwhile."""
        answers: queue.Queue[Ready | Failed] = queue.Queue()
        self._ask(_Question(Make(self._order(build)), answers.put))
        while not cancel.is_set():
            try:
                return answers.get(timeout=_ASK_S)
            except queue.Empty:
                continue
        return Failed(build, Outcome.LOST, "stopped")

    def submit(self, task: Task) -> None:
        """See :class:`Site`."""
        with self._lock:
            if self._dispatch.add(task, time.monotonic()):
                build = task.environment.build.name
                self._hand_out(each for each in self._dispatch.alive if build in each.builds)
                return
        self._give_up((task, run) for run in task.runs)

    def expand(self, file: CaseFile, environment: Environment, words: tuple[str, ...] = ()) -> None:
        """See :class:`Site`."""
        self._ask(_Question(Read(self._order(environment.build), file, environment)))

    def changed(self, builds: Iterable[str]) -> Mapping[str, str]:
        """See :class:`Site`. A node that is lost cannot tell: its cells have then been said to be unproven."""
        wanted = set(builds)
        with self._lock:
            asked = [
                (member, names, member.actor.changed.remote(sorted(names)))
                for member in self._alive()
                if (names := wanted & member.node.builds)
            ]
        found: dict[str, str] = {}
        for member, names, answer in asked:
            changed = self._answer(member, answer)
            if changed is not None:
                found.update(changed)
                with self._lock:
                    member.node.builds -= changed.keys()
                    for name in names:
                        member.node.unproven.pop(name, None)
        return found

    def close(self) -> None:
        """See :class:`Site`. A run closes it once everything that it submitted has ended."""
        self.stop(1.0)

    def stop(self, grace_s: float) -> None:
        """See :class:`Site`."""
        self._stopped.set()
        deadline = time.monotonic() + grace_s
        with self._lock:
            self._dispatch.clear()
            asked = {member.actor.stop.remote(0.8 * grace_s): member for member in self._alive()}
        ended, _ = ray.wait(list(asked), num_returns=len(asked), timeout=grace_s) if asked else ([], [])
        for answer in ended:
            self._take_last(asked[answer], answer)
        for member in asked.values():
            ray.kill(member.actor)
        for listener in self._listeners:
            listener.join(timeout=max(0.0, deadline - time.monotonic()))

    # --- asking

    def _alive(self) -> list[Member]:
        return [self._members[node.name] for node in self._dispatch.alive]

    def _order(self, build: Build) -> Order:
        return Order(build, self._identities.get(build.name))

    def _ask(self, question: _Question) -> None:
        """Have a node make an environment, or read a case file where there is one."""
        name = question.wanted.order.build.name
        with self._lock:
            there = [node for node in self._dispatch.alive if name in node.builds and name not in node.unfit]
            node = self._dispatch.home_for(name) if isinstance(question.wanted, Make) or not there else there[0]
            if node is not None:
                member = self._members[node.name]
                number = self._dispatch.number()
                member.asked[number] = question
                node.builds.add(name)
                node.making += isinstance(question.wanted, Make)
                member.actor.take.remote(number, question.wanted)
                return
        self._refuse(question, Outcome.LOST, _NO_NODE)

    def _refuse(self, question: _Question, outcome: Outcome, reason: str, detail: str | None = None) -> None:
        if isinstance(question.wanted, Read):
            self._deliver(Expanded(question.wanted.file, question.wanted.environment, (), reason))
        elif question.answer is not None:
            question.answer(Failed(question.wanted.order.build, outcome, reason, detail))

    def _hand_out(self, nodes: Iterable[Node]) -> None:
        now = time.monotonic()
        for node in list(nodes):
            for work in self._dispatch.for_node(node, now):
                order = self._order(work.task.environment.build)
                self._members[node.name].actor.take.remote(work.number, RunTask(order, work.task))

    def _answer(self, member: Member, answer: Any) -> Any:
        """What a node answers; None where it is lost."""
        while True:
            try:
                return ray.get(answer, timeout=_ASK_S)
            except GetTimeoutError:
                continue
            except RayActorError:
                self._lose(member)
                return None

    # --- being told

    def _listen(self, member: Member) -> None:
        """Take what a node tells until it is lost, or the run is over."""
        try:
            while not self._stopped.is_set():
                told = self._answer(member, member.actor.told.remote())
                if told is None:
                    return
                for each in told:
                    self._take(member, each)
                if not self._stopped.is_set():
                    with self._lock:
                        self._hand_out([member.node])
        except BaseException as error:  # noqa: BLE001
            # Not handled here but handed over: an exception must not vanish with this thread.
            if not self._stopped.is_set():
                self._deliver(SlotFailed(error))

    def _take_last(self, member: Member, answer: Any) -> None:
        """Keep what had ended on a node when it was stopped."""
        with contextlib.suppress(RayActorError):  # it was lost just now, and what it had not told with it
            for told in ray.get(answer):
                if isinstance(told, messages.Ended):
                    self._on_cell(member, told)

    def _take(self, member: Member, told: messages.Told) -> None:
        if isinstance(told, messages.Began | messages.Ended):
            self._on_cell(member, told)
        elif isinstance(told, messages.EnvironmentMade | messages.Instances):
            self._on_answer(member, told)
        elif isinstance(told, messages.EnvironmentFailed):
            self._on_refusal(member, told)
        elif isinstance(told, messages.NodeFailed):
            raise InfrastructureError(f"node {member.node.name}: {told.reason}")
        elif isinstance(told, events.Loading | events.Working):
            self._deliver(replace(told, slot=member.first_slot + told.slot, at=time.monotonic()))
        elif isinstance(told, events.BuildProgress):
            self._deliver(replace(told, at=time.monotonic()))
        else:
            self._deliver(told)

    def _on_cell(self, member: Member, told: messages.Began | messages.Ended) -> None:
        slot, now = member.first_slot + told.slot, time.monotonic()  # the node's clock is another one
        with self._lock:
            if isinstance(told, messages.Began):
                work = member.node.hands[told.number]
                work.began.add(told.place)
                self._deliver(CellBegan(work.task.runs[told.place], slot, now))
            else:
                task, run = self._dispatch.ended(member.node, told.number, told.place)
                self._deliver(CellDone(task, run, told.facts, slot, now))

    def _on_answer(self, member: Member, told: messages.EnvironmentMade | messages.Instances) -> None:
        with self._lock:
            question = member.asked.pop(told.number)
            if isinstance(told, messages.EnvironmentMade):
                member.node.making -= 1
                build = question.wanted.order.build
                self._identities.setdefault(build.name, told.environment.identity)
                if question.answer is not None:
                    question.answer(Ready(build, told.environment, told.seconds, told.reused))
            elif isinstance(question.wanted, Read):
                wanted = question.wanted
                self._deliver(Expanded(wanted.file, wanted.environment, told.rows, told.error))

    def _on_refusal(self, member: Member, told: messages.EnvironmentFailed) -> None:
        """A node cannot have an environment. Where it is the first, no other is tried: it would fail there, too."""
        with self._lock:
            question = member.asked.pop(told.number, None)
            if question is None:
                build = member.node.hands[told.number].build
                self._deliver(events.Note(f"{build} does not run on node {member.node.name}: {told.reason}"))
                left = self._dispatch.refuse(member.node, told.number, time.monotonic())
                self._hand_out(self._dispatch.alive)
                self._give_up(left, told.reason)
                return
            member.node.making -= isinstance(question.wanted, Make)
            member.node.builds.discard(question.wanted.order.build.name)
        self._refuse(question, told.outcome, told.reason, told.detail)

    # --- losing

    def _lose(self, member: Member) -> None:
        """A node is gone: what it had goes to the others."""
        with self._lock:
            if member.node.lost or self._stopped.is_set():
                return
            given_up, given_back = self._dispatch.lose(member.node, time.monotonic())
            questions = list(member.asked.values())
            member.asked.clear()
            unproven = tuple(run for runs in member.node.unproven.values() for run in runs)
            left = len(self._dispatch.alive)
            told = f"node {member.node.name} of the Ray cluster was lost, {left} left"
            self._deliver(events.Note(f"{told}; cells that go to others: {given_back}" if given_back else told))
            self._deliver(site.Unproven(unproven))
            self._hand_out(self._dispatch.alive)
        ray.kill(member.actor)  # it may only have been out of reach
        for question in questions:
            self._ask(question)
        self._give_up(given_up, "its node was lost while it ran" if left else _NO_NODE)

    def _give_up(self, cells: Iterable[tuple[Task, Any]], reason: str = _NO_NODE) -> None:
        for task, run in cells:
            facts = {"outcome": Outcome.LOST.value, "reason": reason}
            self._deliver(CellDone(task, run, facts, 0, time.monotonic()))

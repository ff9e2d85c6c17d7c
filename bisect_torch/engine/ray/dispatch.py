"""Which node runs which task. Pure: no Ray, no clock."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from bisect_torch.engine.plan import CellRun, Task

SPREAD_AFTER_S = 20.0
"""A task that has waited as long as it takes to make an environment goes to a node that has room for it, which makes
the environment once more."""

MOST_LOSSES = 2
"""A cell that ran on so many nodes when they were lost is not given to another node in silence."""

Repeat = tuple[object, int]
"""Place and repeat of a cell."""


@dataclass
class Assignment:
    """A task that is waiting or is on a node.

    Args:
        since: When it began to wait, in seconds.
        ended: Places, among the task's cells, of those that ended.
        began: Of those that began.
    """

    number: int
    task: Task
    since: float
    began: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)

    @property
    def build(self) -> str:
        """Name of the build whose environment it needs."""
        return self.task.environment.build.name

    @property
    def device(self) -> str:
        """The device of all its cells."""
        return self.task.runs[0].device


@dataclass
class Node:
    """A node as the run sees it.

    Args:
        devices: Those of the run that it has, and that are the same as on the others.
        slots: Cells at once.
        builds: Of which it has an environment, or makes one.
        unfit: Of which it cannot have the environment that the others have.
        unproven: Cells that ended here, by build, since its environment was last seen to be whole.
    """

    name: str
    devices: frozenset[str]
    slots: int
    builds: set[str] = field(default_factory=set)
    unfit: set[str] = field(default_factory=set)
    hands: dict[int, Assignment] = field(default_factory=dict)
    unproven: dict[str, list[CellRun]] = field(default_factory=dict)
    making: int = 0
    lost: bool = False

    def fits(self, build: str, device: str) -> bool:
        """Whether it can run tasks of a build on a device."""
        return not self.lost and device in self.devices and build not in self.unfit

    def has_room(self, task: Task) -> bool:
        """Whether a task could begin at once. What waits does so with the run, which another node may ask for it."""
        same = sum(each.task.accelerator == task.accelerator for each in self.hands.values())
        return same < (self.slots if task.accelerator is None else 1)


class Dispatch:
    """Tasks wait here until a node that has the environment of their build has room for them.

    Not safe for several threads.
    """

    def __init__(self, nodes: Collection[Node]) -> None:
        self.nodes = list(nodes)
        self._numbers = itertools.count()
        self._waiting: dict[tuple[str, str], deque[Assignment]] = {}
        self._losses: dict[Repeat, int] = {}

    @property
    def alive(self) -> list[Node]:
        """Those that were not lost."""
        return [node for node in self.nodes if not node.lost]

    def number(self) -> int:
        """Another number for a piece of work."""
        return next(self._numbers)

    def home_for(self, build: str, device: str | None = None) -> Node | None:
        """The node that makes an environment: the one with fewest, of those that fit.

        Args:
            device: On which its cells will run; None for whatever the node has.
        """
        fit = [node for node in self.alive if build not in node.unfit and device in (None, *node.devices)]
        # More devices first: what else runs in this environment may then run there too.
        return min(fit, key=lambda node: (node.making, len(node.builds), -len(node.devices)), default=None)

    def add(self, task: Task, now: float) -> bool:
        """A task is to be run; false where no node can run it."""
        work = Assignment(self.number(), task, now)
        if not any(node.fits(work.build, work.device) for node in self.alive):
            return False
        self._waiting.setdefault((work.build, work.device), deque()).append(work)
        self._settle(work.build, work.device)
        return True

    def _settle(self, build: str, device: str) -> None:
        """See that there is a node with the environment."""
        if not any(build in node.builds and node.fits(build, device) for node in self.alive):
            home = self.home_for(build, device)
            if home is not None:
                home.builds.add(build)

    def for_node(self, node: Node, now: float) -> list[Assignment]:
        """What goes to a node at this moment."""
        if node.lost:
            return []
        given: list[Assignment] = []
        for build in sorted(node.builds - node.unfit):
            for device in sorted(node.devices):
                given += self._hand(node, (build, device))
        if not given and not node.making:
            fit = [key for key, works in self._waiting.items() if node.fits(*key) and node.has_room(works[0].task)]
            longest = min(fit, key=lambda key: self._waiting[key][0].since, default=None)
            if longest is not None and now - self._waiting[longest][0].since >= SPREAD_AFTER_S:
                node.builds.add(longest[0])
                given += self._hand(node, longest)
        return given

    def _hand(self, node: Node, key: tuple[str, str]) -> Iterator[Assignment]:
        waiting = self._waiting.get(key)
        while waiting and node.has_room(waiting[0].task):
            work = waiting.popleft()
            node.hands[work.number] = work
            yield work
        if waiting is not None and not waiting:
            del self._waiting[key]

    def ended(self, node: Node, number: int, place: int) -> tuple[Task, CellRun]:
        """A cell ended on a node."""
        work = node.hands[number]
        work.ended.add(place)
        if len(work.ended) == len(work.task.runs):
            del node.hands[number]
        run = work.task.runs[place]
        node.unproven.setdefault(work.build, []).append(run)
        return work.task, run

    def refuse(self, node: Node, number: int, now: float) -> tuple[tuple[Task, CellRun], ...]:
        """A node cannot have the environment of a task: another one runs it.

        Returns:
            The cells, where there is no other.
        """
        work = node.hands.pop(number)
        node.builds.discard(work.build)
        node.unfit.add(work.build)
        return () if self.add(work.task, now) else tuple((work.task, run) for run in work.task.runs)

    def lose(self, node: Node, now: float) -> tuple[list[tuple[Task, CellRun]], int]:
        """A node is gone: what had not ended there runs elsewhere.

        Returns:
            Cells that no other node is given by itself, and how many cells are.
        """
        node.lost = True
        given_up: list[tuple[Task, CellRun]] = []
        given_back = 0
        for work in list(node.hands.values()):
            task = work.task
            left = [place for place in range(len(task.runs)) if place not in work.ended]
            # One that brings nodes down must not take its neighbours along a second time.
            parts: list[tuple[tuple[CellRun, ...], bool]] = [
                ((task.runs[place],), True) for place in left if place in work.began
            ]
            parts.append((tuple(task.runs[place] for place in left if place not in work.began), False))
            for runs, was_running in parts:
                struck = was_running and self._strike(runs[0])
                if runs and (struck or not self.add(replace(task, runs=runs), now)):
                    given_up += [(task, run) for run in runs]
                else:
                    given_back += len(runs)
        node.hands.clear()
        for build, device in list(self._waiting):
            self._settle(build, device)
            if not any(other.fits(build, device) for other in self.alive):
                given_up += [(work.task, run) for work in self._waiting.pop((build, device)) for run in work.task.runs]
        return given_up, given_back

    def _strike(self, run: CellRun) -> bool:
        """A node was lost while this ran; whether that has happened too often."""
        key = (run.place, run.repeat)
        self._losses[key] = self._losses.get(key, 0) + 1
        return self._losses[key] >= MOST_LOSSES

    def clear(self) -> None:
        """Nothing more is handed out."""
        self._waiting.clear()

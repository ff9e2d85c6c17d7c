"""What the run and the nodes tell each other. None of it needs Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bisect_torch.engine.conditions import Facts
from bisect_torch.engine.events import BuildProgress, Loading, Note, Working
from bisect_torch.engine.host import Device
from bisect_torch.engine.plan import Task
from bisect_torch.engine.ray.luggage import Luggage
from bisect_torch.environments import EnvironmentOptions
from bisect_torch.model import Build, CaseFile, Environment, Outcome

# --- to a node


@dataclass(frozen=True)
class NodeOptions:
    """What a node is told once.

    Args:
        environments: How environments are made; their store is the node's own.
        locks: Build name to the text of the lock that its environment is made from, where there is one.
        pythons: Build name to the Python that the plan chose.
        luggage: The files of the run.
        variables: Of the user's own, those that steer torch; no secrets are among them.
        devices: Of the run.
        memory_bytes: For all cells together; None leaves it to the node.
    """

    environments: EnvironmentOptions
    locks: Mapping[str, str]
    pythons: Mapping[str, str | None]
    luggage: Luggage
    variables: Mapping[str, str]
    devices: tuple[str, ...]
    timeout_s: float
    threads: int | None
    memory_bytes: int | None
    seed: int
    thorough: bool


@dataclass(frozen=True)
class Order:
    """An environment that is wanted.

    Args:
        identity: Of the environment that another node has made of the same build: this one must be the same.
    """

    build: Build
    identity: tuple[object, ...] | None = None


@dataclass(frozen=True)
class Make:
    """Make an environment ready."""

    order: Order


@dataclass(frozen=True)
class RunTask:
    """Run the cells of a task; the environment is made where it is not there."""

    order: Order
    task: Task


@dataclass(frozen=True)
class Read:
    """Read the instances of a case file."""

    order: Order
    file: CaseFile
    environment: Environment


Wanted = Make | RunTask | Read


# --- from a node


@dataclass(frozen=True)
class Introduction:
    """What a node is.

    Args:
        code: Version of the tool and digest of what workers run: those of all nodes must be the same.
        devices: Of the run, what they are here.
        host: Facts for the manifest.
    """

    code: tuple[str, str]
    devices: Mapping[str, Device]
    memory_bytes: int
    host: Mapping[str, str | int]


@dataclass(frozen=True)
class EnvironmentMade:
    """Answer to :class:`Make`."""

    number: int
    environment: Environment
    reused: bool
    seconds: float


@dataclass(frozen=True)
class EnvironmentFailed:
    """An environment cannot be made here. Answer to whatever needed it."""

    number: int
    outcome: Outcome
    reason: str
    detail: str | None


@dataclass(frozen=True)
class Began:
    """A cell of a task began: its place among the task's, and the slot of the node."""

    number: int
    place: int
    slot: int


@dataclass(frozen=True)
class Ended:
    """A cell of a task ended."""

    number: int
    place: int
    slot: int
    facts: Facts


@dataclass(frozen=True)
class Instances:
    """Answer to :class:`Read`."""

    number: int
    rows: tuple[Mapping[str, object], ...]
    error: str | None


@dataclass(frozen=True)
class NodeFailed:
    """Something unforeseen went wrong on a node: a fault of the tool."""

    reason: str


_OfCells = Began | Ended | Working | Loading
_OfEnvironments = EnvironmentMade | EnvironmentFailed | BuildProgress
Told = _OfCells | _OfEnvironments | Instances | NodeFailed | Note

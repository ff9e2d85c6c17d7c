"""What a run tells its observer. The engine emits these in order, from one thread; a report draws them.

No spinner and no print lives in the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bisect_torch.model import Build, Environment, Instance, Judgement, Observation
from bisect_torch.model import BuildProgress as BuildProgress  # one of the events, which a room below makes


@dataclass(frozen=True)
class RunPlanned:
    """Everything that will take part is known.

    Args:
        builds: In column order.
        instances: In row order; instances that a worker must expand first are missing until :class:`RowsAdded`.
        devices: Device names, for example ``("cpu",)``.
        cells: Number of cells in the matrix, of which ``kept`` are known from earlier runs.
        jobs: Cells that run at once.
        to_make: Environments that have to be made, one after another.
        make_s: Seconds that making all of them is expected to take.
    """

    builds: tuple[Build, ...]
    instances: tuple[Instance, ...]
    devices: tuple[str, ...]
    cells: int
    kept: int
    jobs: int
    to_make: int = 0
    make_s: float = 0.0


@dataclass(frozen=True)
class RowsAdded:
    """A worker expanded the parameters of a case file; ``cells`` is the new total."""

    instances: tuple[Instance, ...]
    cells: int
    kept: int


@dataclass(frozen=True)
class EnvironmentReady:
    build: Build
    environment: Environment
    seconds: float
    reused: bool


@dataclass(frozen=True)
class Loading:
    """A worker that runs cells is being made ready, which can take longer than all its cells.

    Args:
        what: ``loading torch``, ``checking that compile works``, ``reading the cases of x.py``.
        slot: Which of the places that run cells.
        ended: It has been loaded, or has failed.
    """

    build: Build
    what: str
    slot: int
    ended: bool = False


@dataclass(frozen=True)
class CellStarted:
    build: Build
    instance: Instance
    device: str
    repeat: int


@dataclass(frozen=True)
class CellFinished:
    """One repeat of a cell has an observation. ``kept`` means that it comes from an earlier run."""

    instance: Instance
    observation: Observation
    judgement: Judgement
    kept: bool = False


@dataclass(frozen=True)
class Confirming:
    """The first pass is over; cells on which conclusions rest run again in other processes.

    Args:
        repeats: How many runs of cells that takes.
        reason: Which cells, in plain words.
    """

    repeats: int
    reason: str


@dataclass(frozen=True)
class Note:
    """Something that the user should know, in one line: a fall-back, a retry, a quarantined environment."""

    text: str
    build: Build | None = None


@dataclass(frozen=True)
class RunFinished:
    """Results are written. ``interrupted`` after Ctrl-C."""

    interrupted: bool
    seconds: float


Event = (
    RunPlanned
    | RowsAdded
    | BuildProgress
    | EnvironmentReady
    | Loading
    | CellStarted
    | CellFinished
    | Confirming
    | Note
    | RunFinished
)
Observer = Callable[[Event], None]

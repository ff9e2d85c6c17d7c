"""What a run tells its observer. The engine emits these in order, from one thread; a report draws them.

No spinner and no print lives in the engine.

What takes time has ``at``, the moment by ``time.monotonic()`` at which it happened in its own thread: an event may be
told somewhat later. A slot is one of the places that run cells, counted from 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bisect_torch.model import Build, Environment, Instance, Judgement, Observation
from bisect_torch.model import BuildProgress as BuildProgress  # one of the events, which a room below makes


def _now() -> float:
    """An event's moment; two events that say the same are equal whenever they happened."""
    return field(default_factory=time.monotonic, compare=False, repr=False)


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
        repeats: Repeats of every cell before any confirmation.
        confirm: What is told of them runs again in further processes, once all of it has run.
    """

    builds: tuple[Build, ...]
    instances: tuple[Instance, ...]
    devices: tuple[str, ...]
    cells: int
    kept: int
    jobs: int
    to_make: int = 0
    make_s: float = 0.0
    repeats: int = 1
    confirm: bool = True


@dataclass(frozen=True)
class RowsAdded:
    """A worker expanded the parameters of a case file; ``cells`` is the new total."""

    instances: tuple[Instance, ...]
    cells: int
    kept: int


@dataclass(frozen=True)
class EnvironmentReady:
    """A build has its environment.

    Args:
        seconds: That it took.
        reused: It was there.
    """

    build: Build
    environment: Environment
    seconds: float
    reused: bool
    at: float = _now()


@dataclass(frozen=True)
class Working:
    """A slot takes up a piece of work, cells of one build or a case file to read; ``ended`` when it puts it down."""

    build: Build
    cells: int
    slot: int
    ended: bool = False
    at: float = _now()


LOADING_TORCH = "loading torch"
LOADING_COMPILER = "loading the compiler stack"


@dataclass(frozen=True)
class Loading:
    """A worker that runs cells is being made ready, which can take longer than all its cells.

    Args:
        what: :data:`LOADING_TORCH`, :data:`LOADING_COMPILER`, ``checking that compile works``,
            ``reading the cases of x.py``, ``ending the worker``, ``waiting for memory``.
        ended: It has been loaded, or has failed.
    """

    build: Build
    what: str
    slot: int
    ended: bool = False
    at: float = _now()


@dataclass(frozen=True)
class CellStarted:
    """One repeat of a cell begins."""

    build: Build
    instance: Instance
    device: str
    repeat: int
    slot: int = 0
    at: float = _now()


@dataclass(frozen=True)
class CellFinished:
    """One repeat of a cell has an observation.

    Args:
        kept: It comes from an earlier run.
        slot: Where it ran; None where it did not run.
    """

    instance: Instance
    observation: Observation
    judgement: Judgement
    kept: bool = False
    slot: int | None = None
    at: float = _now()


@dataclass(frozen=True)
class CellLost:
    """The worker of a cell that had started was lost: it says nothing, and runs once more."""

    build: Build
    instance: Instance
    device: str
    repeat: int
    slot: int
    at: float = _now()


@dataclass(frozen=True)
class Confirming:
    """The first pass is over; cells on which conclusions rest run again in other processes.

    Args:
        repeats: How many runs of cells that takes.
        reason: Which cells, in plain words.
        loads: How often torch is loaded anew for that: in an interpreter of a run's own, or in a worker that several
            share.
        cells_s: Seconds that the cases themselves take in these runs, one after another, by what they have taken.
    """

    repeats: int
    reason: str
    loads: int = 0
    cells_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """Work of the tool itself that has ended, while nothing else could be told: its cells may have waited for it.

    Args:
        what: ``journal``, ``results file``, ``sweeping environments``, ``choosing confirmations``, ``starting``,
            ``installing ahead``.
        begin: By ``time.monotonic()``.
        end: Likewise.
        build: Whose, where it is about one.
    """

    what: str
    begin: float
    end: float
    build: Build | None = None


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
    | Working
    | Loading
    | CellStarted
    | CellFinished
    | CellLost
    | Confirming
    | Step
    | Note
    | RunFinished
)
Observer = Callable[[Event], None]

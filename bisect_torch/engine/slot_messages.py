"""What is told by the slots that run cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisect_torch.engine.events import Loading, Note, Working
from bisect_torch.engine.plan import CellRun, Task
from bisect_torch.model import CaseFile, Environment

if TYPE_CHECKING:
    from bisect_torch.engine.conditions import Facts


@dataclass(frozen=True)
class CellDone:
    """A cell ended. ``facts`` are what the worker saw; an outcome of ``lost`` says nothing about torch."""

    task: Task
    run: CellRun
    facts: Facts
    slot: int
    at: float


@dataclass(frozen=True)
class CellBegan:
    """A cell begins, in a slot, at a moment of the monotonic clock."""

    run: CellRun
    slot: int
    at: float


@dataclass(frozen=True)
class Expanded:
    """A worker expanded the parameters of a case file, or said why it could not.

    Args:
        traceback: Of what the file raised; None where it raised nothing, and from other machines.
    """

    file: CaseFile
    environment: Environment
    rows: tuple[Mapping[str, object], ...]
    error: str | None = None
    traceback: str | None = None


@dataclass(frozen=True)
class SlotFailed:
    """Something unforeseen ended a slot's work."""

    error: BaseException


Message = CellDone | CellBegan | Expanded | Working | Loading | Note | SlotFailed

"""What ``watch`` has to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bisect_torch.model import Observation, Series


@dataclass(frozen=True)
class WatchState:
    """What is to be shown at one moment.

    Args:
        number: Of the save; 1 for the file as it was at the start.
        series: As far as it has run.
        observations: What the series were judged from.
        before: The series of the last whole matrix but this one, to say what the save has changed.
        ended: The whole matrix is there.
        seconds: From the save to the whole matrix.
        confirming: Runs that confirm and are still to come; None before it is known.
        problem: One line: why the file as saved cannot be run. The matrix is then that of the save before.
        unready: Builds without environment so far, and why, where it failed.
        dropped: Workers that were given up for the sake of memory.
    """

    path: Path
    builds: tuple[str, ...]
    number: int = 0
    series: tuple[Series, ...] = ()
    observations: tuple[Observation, ...] = ()
    before: tuple[Series, ...] | None = None
    ended: bool = False
    seconds: float | None = None
    confirming: int | None = None
    problem: str = ""
    unready: Mapping[str, str] = field(default_factory=dict)
    is_script: bool = False
    dropped: int = 0

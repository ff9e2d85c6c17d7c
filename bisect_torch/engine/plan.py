"""What must run, and in what order. Pure: no input, no output, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.model import Build, Case, CaseKind, Environment, Instance, Isolation

_SLICE = 64
"""Cells below which a second worker for the same environment does not pay: its ``import torch`` costs 2 s (measured),
a small forked cell 10 to 16 ms."""


Place = tuple[Path, str, str, str]
"""Where a cell stands: case file, instance, device, build."""


@dataclass(frozen=True)
class CellRun:
    """One repeat of a cell that is to be run.

    Args:
        isolation: How; scripts and commands always run in an interpreter of their own.
    """

    instance: Instance
    build: Build
    device: str
    repeat: int
    isolation: Isolation

    @property
    def place(self) -> Place:
        """Where its cell stands."""
        return self.instance.case.file.path, self.instance.name, self.device, self.build.name


@dataclass(frozen=True)
class Task:
    """Cells that one worker process runs one after another.

    Args:
        forked: The worker imports torch once and forks for each cell; else it starts an interpreter for each, or for
            all of them together where they are tests of a suite.
    """

    environment: Environment
    runs: tuple[CellRun, ...]
    forked: bool

    @property
    def accelerator(self) -> str | None:
        """The accelerator that it holds as long as it runs; the same for all its cells."""
        return accelerator(self.runs[0].device)

    @property
    def of_suite(self) -> bool:
        """Whether pytest runs them."""
        return self.runs[0].instance.case.file.kind is CaseKind.PYTEST


def accelerator(device: str) -> str | None:
    """The accelerator that a cell on this device needs for itself: ``cuda`` is ``cuda:0``. None on the CPU."""
    kind, _, index = device.partition(":")
    return None if kind == "cpu" else f"{kind}:{index or 0}"


def accelerators(devices: Iterable[str]) -> frozenset[str]:
    """Those that cells on these devices need for themselves."""
    return frozenset(found for device in devices if (found := accelerator(device)) is not None)


def natural_isolation(case: Case, asked: Isolation | None, can_fork: bool) -> Isolation:
    """How a case's cells run when nothing has gone wrong: cases are forked where that is safe, all else is not.

    The tests of a suite share a process, as they do when their authors run them.
    """
    if case.file.kind is CaseKind.PYTEST:
        return Isolation.PROCESS if asked is Isolation.PROCESS else Isolation.SESSION
    if case.file.kind is not CaseKind.CASE or not can_fork:
        return Isolation.PROCESS
    return asked or Isolation.FORK


def needs_compile(case: Case) -> bool:
    """Whether a worker should have the compiler stack loaded before it runs the case."""
    return case.file.needs_compile or "compile" in case.needs


def time_limit_s(instance: Instance, device: str, default_s: float) -> float:
    """Seconds for a cell: what its case declares, else what the run allows."""
    return instance.limits_on(device).timeout_s or default_s


def is_made_for(case: Case, device: str) -> bool:
    """Whether a case may run on a device, by what it declares."""
    return not case.devices or device in case.devices or device.partition(":")[0] in case.devices


def why_not(
    instance: Instance, device: str, memory_bytes: int, device_bytes: int | None, unmet: str | None
) -> str | None:
    """The reason for which an instance does not apply here, or None.

    Args:
        memory_bytes: What a cell may use of this machine's memory.
        device_bytes: Memory of the device; None for the CPU and where it is not known.
        unmet: The requirement on torch that the build does not meet.
    """
    kind = device.partition(":")[0]
    if not is_made_for(instance.case, device):
        return f"made for {', '.join(instance.case.devices)}, not for {device}"
    if unmet:
        return unmet
    limits = {"cpu": memory_bytes, **({} if device_bytes is None else {kind: device_bytes})}
    declared = instance.limits_on(device).memory
    for place, limit in limits.items():
        needed = declared.get(place, 0)
        if needed > limit:
            return f"needs {needed / 2**30:.1f} GiB of {place} memory, {limit / 2**30:.1f} GiB may be used here"
    return None


def tasks(environment: Environment, runs: Sequence[CellRun], *, workers: int) -> tuple[Task, ...]:
    """Group the cells of one environment into tasks.

    Repeats of a cell never share a task, since forks of one worker are not independent of each other, and neither do
    cells on different accelerators, since a task holds what it runs on. Cells that are forked, and tests of a suite,
    share a worker as long as splitting would not pay; each of the others is a task of its own, so that a slow one holds
    up nothing.

    Args:
        workers: Worker processes that may run at the same time.
    """
    alone: list[Task] = []
    shared: dict[tuple[int, str], list[CellRun]] = {}
    tests: dict[tuple[int, str], list[CellRun]] = {}
    for run in runs:
        if run.isolation is Isolation.PROCESS:
            alone.append(Task(environment, (run,), forked=False))
        elif run.isolation is Isolation.SESSION:
            tests.setdefault((run.repeat, run.device), []).append(run)
        else:
            shared.setdefault((run.repeat, accelerator(run.device) or ""), []).append(run)
    together: list[Task] = []
    for _, group in sorted(shared.items()):
        # The compiler stack is loaded at most once a worker, after everything that does without it.
        group.sort(key=lambda run: needs_compile(run.instance.case))
        together.extend(Task(environment, part, forked=True) for part in _parts(group, workers))
    for _, group in sorted(tests.items()):
        together.extend(Task(environment, part, forked=False) for part in _parts(group, workers))
    return (*together, *alone)


def _parts(group: Sequence[CellRun], workers: int) -> list[tuple[CellRun, ...]]:
    workers = workers if accelerator(group[0].device) is None else 1  # they could not run at the same time
    slices = max(1, min(workers, len(group) // _SLICE))
    size = -(-len(group) // slices)
    return [tuple(group[start : start + size]) for start in range(0, len(group), size)]

"""What the tests of the worker share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.worker_process import WorkerProcess
from bisect_torch.model import Build, BuildKind, Environment, Isolation
from bisect_torch.worker import system

REPOSITORY = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults.py")

StartWorker = Callable[..., WorkerProcess]


def environment_of(python: Path, version: str = "0.0") -> Environment:
    build = Build(BuildKind.LOCAL, version, str(python), python=python)
    return Environment(build, python.parent.parent, python, "3", "0" * 64, {}, version, None, None, "local")


def fault(case: str, isolation: Isolation = Isolation.FORK, **options: object) -> CellRequest:
    return CellRequest(FAULTS, "case", case, isolation=isolation, **options)  # type: ignore[arg-type]


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd")) if system.LINUX else set()


def eventually(condition: Callable[[], bool], limit_s: float = 5.0) -> bool:
    """Whether it becomes true soon."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True

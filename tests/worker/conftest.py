from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bisect_torch.engine.worker_process import CellRequest, Stage, WorkerProcess
from bisect_torch.model import Build, BuildKind, Environment, Isolation
from bisect_torch.worker import system

REPOSITORY = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults.py")

StartWorker = Callable[..., WorkerProcess]


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment whose torch is an empty package: the worker's own rules do not depend on it."""
    folder = tmp_path_factory.mktemp("bare") / "env"
    venv.create(folder, symlinks=True, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text('__version__ = "0.0"\n\n\nclass Tensor: ...\n')
    (site / "torch" / "testing.py").write_text("def fail():\n    raise AssertionError('not close')\n")
    return folder / "bin" / "python"


def environment_of(python: Path, version: str = "0.0") -> Environment:
    build = Build(BuildKind.LOCAL, version, str(python), python=python)
    return Environment(build, python.parent.parent, python, "3", "0" * 64, {}, version, None, None, "local")


@pytest.fixture
def start(interpreter: Path, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts workers; after the test nothing of them may be left: no process, no descriptor, no folder."""
    temporary = Path(tempfile.mkdtemp(prefix="w"))
    before = open_descriptors()
    workers: list[WorkerProcess] = []

    def start(
        stage: Stage = "eager", python: Path = interpreter, threads: int = 1, path: str = os.environ["PATH"]
    ) -> WorkerProcess:
        env = {"PATH": path, "HOME": str(tmp_path)}
        environment = environment_of(python)
        worker = WorkerProcess.start(environment, REPOSITORY, stage=stage, threads=threads, env=env, tmp=temporary)
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.close()
    left = [pid for worker in workers for pid in system.marked_processes(f"BISECT_TORCH_WORKER={worker.worker_id}")]
    for pid in left:
        system.kill(pid, signal.SIGKILL)
    assert left == []
    assert open_descriptors() == before
    assert list(temporary.iterdir()) == []
    temporary.rmdir()


@pytest.fixture(params=list(Isolation), ids=lambda isolation: isolation.value)
def isolation(request: pytest.FixtureRequest) -> Isolation:
    value: Isolation = request.param
    return value


def fault(case: str, isolation: Isolation = Isolation.FORK, **options: object) -> CellRequest:
    return CellRequest(FAULTS, "case", case, isolation=isolation, **options)  # type: ignore[arg-type]


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd")) if system.LINUX else set()


def processes_named(word: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and word in Path(f"/proc/{name}/cmdline").read_text().split("\0"):
                found.append(int(name))
    return found


def eventually(condition: Callable[[], bool], limit_s: float = 5.0) -> bool:
    """Whether it becomes true soon."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _real_pythons() -> list[tuple[str, Path]]:
    pairs = os.environ.get("BISECT_TORCH_TEST_PYTHONS", "").split(",")
    return [(pair.partition("=")[0], Path(pair.partition("=")[2])) for pair in pairs if "=" in pair]


@pytest.fixture(params=_real_pythons() or [None], ids=lambda pair: pair[0] if pair else "none")
def real_python(request: pytest.FixtureRequest) -> Path:
    """The interpreter of an environment with a real torch."""
    if request.param is None:
        pytest.skip("BISECT_TORCH_TEST_PYTHONS names no interpreter with torch (VERSION=PATH,…)")
    path: Path = request.param[1]
    return path

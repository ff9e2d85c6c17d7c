from __future__ import annotations

import os
import signal
import tempfile
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bisect_torch.engine.worker_process import Stage, WorkerProcess
from bisect_torch.model import Isolation
from bisect_torch.worker import system
from tests.worker.support import REPOSITORY, StartWorker, environment_of, open_descriptors


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


@pytest.fixture
def start(interpreter: Path, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts workers; after the test nothing of them may be left: no process, no descriptor, no folder."""
    temporary = Path(tempfile.mkdtemp(prefix="w"))
    before = open_descriptors()
    workers: list[WorkerProcess] = []

    def start(
        stage: Stage = "eager",
        python: Path = interpreter,
        threads: int = 1,
        path: str = os.environ["PATH"],
        variables: Mapping[str, str] | None = None,
    ) -> WorkerProcess:
        env = {"PATH": path, "HOME": str(tmp_path), **(variables or {})}
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


@pytest.fixture(params=[Isolation.FORK, Isolation.PROCESS], ids=lambda isolation: isolation.value)
def isolation(request: pytest.FixtureRequest) -> Isolation:
    value: Isolation = request.param
    return value


@pytest.fixture(params=["2.4.1", "2.14.0"])
def real_python(request: pytest.FixtureRequest, real_torch: Mapping[str, Path]) -> Path:
    """The interpreter of an environment with a real torch."""
    return real_torch[request.param]

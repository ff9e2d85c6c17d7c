"""kill -9 of the orchestrator ends its workers, their stages and their cells, whatever they are doing."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bisect_torch.worker import system
from tests.worker.support import FAULTS, REPOSITORY, eventually

ORCHESTRATOR = """
import os, sys, time
from pathlib import Path
from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.worker_process import WorkerProcess
from tests.worker.support import environment_of
python, repository, faults, mark, doing, temporary = sys.argv[1:]
print("starting", flush=True)
worker = WorkerProcess.start(environment_of(Path(python)), Path(repository), stage="eager", threads=1,
                             env={"PATH": os.environ["PATH"], "TEST_MARK": mark}, tmp=Path(temporary))
print("started", flush=True)
if doing == "compile":
    worker.prepare("compile")
answer = worker.ask(CellRequest(Path(faults), "case", "leaves_a_child_then_hangs", timeout_s=100.0))
if doing == "ahead":
    time.sleep(0.3)  # not in one piece with the first
    worker.ask(CellRequest(Path(faults), "case", "right"))
    print("asked", flush=True)
answer()
"""


@pytest.mark.parametrize(("doing", "processes"), [("import", 1), ("compile", 2), ("run", 3), ("ahead", 3)])
def test_nothing_survives_the_orchestrator(interpreter: Path, tmp_path: Path, doing: str, processes: int) -> None:
    slow = tmp_path / "env"
    shutil.copytree(interpreter.parents[1], slow, symlinks=True)
    (package,) = slow.glob("lib/python*/site-packages/torch")
    if doing in ("import", "compile"):
        name = "__init__.py" if doing == "import" else "_dynamo.py"
        (package / name).write_text("import time; time.sleep(100)\n")
    mark = secrets.token_hex(8)
    words = [sys.executable, "-c", textwrap.dedent(ORCHESTRATOR), slow / "bin" / "python", REPOSITORY, FAULTS]
    orchestrator = subprocess.Popen(
        [*words, mark, doing, tmp_path], env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.PIPE
    )
    assert orchestrator.stdout is not None

    def alive() -> set[int]:
        return system.marked_processes(f"TEST_MARK={mark}")

    try:
        assert eventually(lambda: len(alive()) >= processes, 20.0), alive()
        if doing == "ahead":
            assert b"asked\n" in iter(orchestrator.stdout.readline, b"")
    finally:
        orchestrator.send_signal(signal.SIGKILL)
        orchestrator.wait()
        orchestrator.stdout.close()
    assert eventually(lambda: alive() == set(), 3.0), alive()

"""A child of the orchestrator ends with it, and so does what the child has started."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bisect_torch.child_processes import run_process
from bisect_torch.worker import system
from tests.engine.disturbed import eventually

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells a child of its parent's end")

ROOT = Path(__file__).parents[1]


def _marked(mark: str) -> set[int]:
    return system.marked_processes(f"TEST_MARK={mark}")


def test_children_of_a_child_end_with_the_orchestrator() -> None:
    """As a compiler does that uv, or the control case of torch.compile, has started."""
    mark = secrets.token_hex(8)
    program = "from bisect_torch.child_processes import run_process\nrun_process(['sh', '-c', 'sleep 300 & wait'])"
    words = ["env", f"TEST_MARK={mark}", sys.executable, "-c", program]
    with subprocess.Popen(words, cwd=ROOT) as orchestrator:
        try:
            assert eventually(lambda: len(_marked(mark)) == 3, 20.0)
        finally:
            orchestrator.kill()
    assert eventually(lambda: _marked(mark) == set(), 3.0)


def test_a_child_in_the_background_does_not_outlive_its_program() -> None:
    mark = secrets.token_hex(8)
    begin = time.monotonic()
    done = run_process(
        ["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo done"], env={"TEST_MARK": mark, "PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0
    assert done.stdout == "done\n"
    assert time.monotonic() - begin < 4
    assert eventually(lambda: _marked(mark) == set(), 3.0)

"""An exception that Python passes over is a fact of the cell: its verdict is Python's, but it is not silent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.worker_process import WorkerProcess
from bisect_torch.worker import ignored
from tests.worker.support import StartWorker
from tests.worker.test_worker_scripts import run, script

FAILS = "def fails():\n    raise ValueError('lost')\n"
THREAD = f"import threading\n{FAILS}thread = threading.Thread(target=fails)\nthread.start()\n"


@pytest.fixture
def worker(start: StartWorker) -> WorkerProcess:
    return start()


def noted(facts: dict[str, object]) -> list[str]:
    return list(json.loads(str(facts["warnings"])))


SCRIPTS = {
    "a thread": (THREAD + "thread.join()\n", ["a thread: ValueError: lost"]),
    "one that goes on when the script is at its end": (
        THREAD.replace("target=fails", "target=lambda: (time.sleep(0.3), fails())").replace(
            "import", "import time,", 1
        ),
        ["a thread: ValueError: lost"],
    ),
    "a thread that exits with a status": (
        "import sys, threading\nfor status in (0, 3):\n    threading.Thread(target=sys.exit, args=(status,)).start()\n",
        ["a thread: SystemExit: 3"],
    ),
    "a destructor": (
        "class D:\n    def __del__(self): raise ValueError('lost')\nD()\n",
        ["D.__del__: ValueError: lost"],
    ),
    "a process": (
        f"import multiprocessing\n{FAILS}process = multiprocessing.get_context('fork').Process(target=fails)\n"
        "process.start()\nprocess.join()\n",
        ["a process: ValueError: lost"],
    ),
    "a thread of a script with a hook of its own": ("import threading\nthreading.excepthook = print\n" + THREAD, []),
    "a thread, and nobody sees what Python prints": (
        "import io, sys\nsys.stderr = io.StringIO()\n" + THREAD,
        ["a thread: ValueError: lost"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), SCRIPTS.values(), ids=SCRIPTS.keys())
def test_a_script_ends_well_and_what_it_did_not_see_is_noted(
    worker: WorkerProcess, tmp_path: Path, text: str, expected: list[str]
) -> None:
    facts = run(worker, script(tmp_path, text))
    assert (facts["outcome"], noted(facts)) == ("returned", [f"ignored in {each}" for each in expected]), facts


def test_it_is_noted_of_a_script_that_then_hangs(worker: WorkerProcess, tmp_path: Path) -> None:
    facts = run(worker, script(tmp_path, THREAD + "import time\ntime.sleep(1000)\n"), timeout_s=1.0)
    assert (facts["outcome"], noted(facts)) == ("timed_out", ["ignored in a thread: ValueError: lost"])


def test_it_is_noted_of_a_case_and_of_a_command(worker: WorkerProcess, tmp_path: Path) -> None:
    path = script(tmp_path, f"import threading\n{FAILS}\nthread = threading.Thread(target=fails)\n")
    path.write_text(
        f"{path.read_text()}from bisect_torch import case\n@case\ndef f():\n    thread.start(); thread.join()\n"
    )
    assert noted(worker.run(CellRequest(path, "case", "f"))) == ["ignored in a thread: ValueError: lost"]
    command = script(tmp_path, THREAD, "command.py")
    facts = worker.run(CellRequest(tmp_path, "command", "command", argv=("python", str(command)), cwd=tmp_path))
    assert (facts["outcome"], noted(facts)) == ("returned", ["ignored in a thread: ValueError: lost"])


def test_a_loop_of_them_is_bounded_and_takes_no_result_away(worker: WorkerProcess, tmp_path: Path) -> None:
    text = """
        import threading
        def fails(number):
            raise ValueError(str(number) * 1000)
        threads = [threading.Thread(target=fails, args=(number,)) for number in range(100)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        """
    facts = run(worker, script(tmp_path, text))
    assert facts["outcome"] == "returned"
    assert ignored.MOST <= len(noted(facts)) <= 2 * ignored.MOST
    assert max(map(len, noted(facts))) <= 500


def test_what_is_printed_is_read_with_its_cause_and_without_its_module() -> None:
    text = (
        "Process SpawnProcess-1:\nTraceback (most recent call last):\n  File 'x', line 1, in f\n    f()\n"
        "torch.AcceleratorError: CUDA error\nmore\n"
        "Exception in thread Thread-1 (f):\nTraceback (most recent call last):\n  File 'x', line 1\nAssertionError\n"
    )
    assert ignored.printed(text) == [
        "ignored in a process: AcceleratorError: CUDA error", "ignored in a thread: AssertionError",
    ]  # fmt: skip
    assert ignored.printed("Traceback (most recent call last):\n  File 'x'\nValueError: mine\n") == []


def test_what_was_noted_and_printed_is_told_once() -> None:
    known = ["ignored in a thread: AssertionError: Tensor-likes are not close!\n\nMismatched elements: 1"]
    printed = ["ignored in a thread: AssertionError: Tensor-likes are not close!", "ignored in a process: E"]
    assert ignored.together(known, printed) == [*known, "ignored in a process: E"]

"""Memory: what the kernel kills for lack of it is ``oom``, what others kill is ``infra``, and declared sizes hold."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_torch.engine.memory_budget import MemoryBudget
from bisect_torch.worker import system
from tests.engine.conftest import MakeTool
from tests.support.tally import Tally

GROUPS = Path("/sys/fs/cgroup/memory")
LIMIT = 200 * 2**20

CASES = """
import os, subprocess, sys, time
from bisect_torch import case

def take(mebibytes):
    return bytearray(os.urandom(2**20) * mebibytes)

@case
def fits():
    take(16)

@case
def takes_all():
    held = []
    while True:
        held.append(take(32))

@case
def a_child_takes_all():
    words = "import os\\nheld = []\\nwhile True: held.append(bytearray(os.urandom(2**20) * 32))"
    done = subprocess.run([sys.executable, "-S", "-c", words])
    if done.returncode:
        raise RuntimeError(f"worker (pid 17) is killed by signal: {done.returncode}")

@case
def is_killed():
    os.kill(os.getpid(), 9)
    time.sleep(60)

@case
def fails():
    raise ValueError("no memory is missing")
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory."""
    folder = GROUPS / f"bisect-torch-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(LIMIT))
    except OSError as problem:
        pytest.skip(f"no control group for memory can be made here: {problem}")
    yield folder
    for process in (folder / "cgroup.procs").read_text().split():
        (GROUPS / "cgroup.procs").write_text(process)
    folder.rmdir()


def test_what_the_kernel_kills_is_oom_and_what_others_kill_is_infra(
    make_tool: MakeTool, group: Path, tally: Tally
) -> None:
    """A process that the cell had started is its own too, but whose lack of memory that was is not known."""
    tool = make_tool({"2.1.0": ""})
    tool.write("cases.py", CASES)
    assert tool.run("cases.py", "--versions", "2.1.0", "-k", "fits").code == 0
    join = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    words = tool.run_words("cases.py", "--versions", "2.1.0", "--jobs", "1", "--max-memory", "8GiB", "--json")

    answer = tool.call(["sh", "-c", join, "sh", *words])

    found = {each["instance"]: answer.verdicts(each["instance"]) for each in answer.data["series"]}
    expected = {
        "fits": ["ok"],
        "takes_all": ["oom"],
        "a_child_takes_all": ["infra"],
        "is_killed": ["infra"],
        "fails": ["error:ValueError"],
    }
    wrong = [name for name, verdicts in expected.items() if found[name] != verdicts]
    tally.add("killed in a control group of memory", tried=len(expected), survived=len(found), misjudged=len(wrong))
    assert found == expected, answer.stderr
    assert "Traceback" not in answer.stderr


def test_declared_sizes_never_add_up_to_more_than_there_is() -> None:
    budget = MemoryBudget(100)
    held: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    def cell(size: int) -> None:
        with budget.reserve(size):
            with lock:
                held.append(size)
                most.append(sum(held))
            with lock:
                held.remove(size)

    threads = [threading.Thread(target=cell, args=(size,)) for size in [10, 30, 60, 100, 50, 50, 90, 1] * 20]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == len(threads)
    assert max(most) <= 100


@pytest.mark.skipif(not system.LINUX, reason="limits of address space hold on Linux")
def test_memory_that_a_limit_refuses_is_oom(make_tool: MakeTool, tally: Tally) -> None:
    tool = make_tool({"2.1.0": ""})
    tool.write(
        "script.py",
        "import resource, torch\nresource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))\nb''.ljust(2**30)\n",
    )

    answer = tool.run("script.py", "--versions", "2.1.0", "--json")

    tally.add("memory refused by a limit", tried=1, survived=1, misjudged=int(answer.verdicts("script") != ["oom"]))
    assert answer.verdicts("script") == ["oom"]

"""A worker that is killed from outside loses the cell in flight: that is run once more, and the build is not blamed."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from bisect_torch.results import ResultsFile
from bisect_torch.worker import system
from tests.engine.disturbed import RESULTS, Place, eventually
from tests.support.index import FakeIndex
from tests.support.tally import Tally
from tests.support.wheels import releases

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are found on Linux only")

CASES = """
import os, time
from bisect_torch import case

@case(n={numbers})
def works(n):
    with open(os.environ["TEST_LOG"], "a") as log:
        log.write(f"works[n={{n}}]\\n")
    time.sleep(0.1)
"""


def seed() -> int:
    """Printed, so that what fell can be done again."""
    chosen = int(os.environ.get("TEST_SEED") or time.time_ns() % 1_000_000)
    print(f"TEST_SEED={chosen}")
    return chosen


def workers_of(tool: int) -> list[int]:
    """The fork parents: children of the tool."""
    children = [process for process, parent in system.parents().items() if parent == tool]
    return [each for each in children if "/worker/__main__.py\0worker" in system.read_file(f"/proc/{each}/cmdline")]


def kill_workers(tool: int, kills: int, dice: random.Random) -> int:
    """Kill one worker after another, at random moments; how many were there to be killed."""
    killed = 0
    while killed < kills and system.resident_bytes(tool):
        time.sleep(0.05 + dice.random() * 0.5)
        if workers := workers_of(tool):
            system.kill(dice.choice(workers), signal.SIGKILL)
            killed += 1
    return killed


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_cells_of_killed_workers_run_again_once_and_blame_no_build(kills: int, tmp_path: Path, tally: Tally) -> None:
    dice = random.Random(seed())
    cells = 8 * kills
    with FakeIndex(releases({"2.1.0": ""})) as index:
        place = Place.make(tmp_path / "p", index)
        place.tool.write("cases.py", CASES.format(numbers=list(range(cells))))
        with place.start(place.words()) as process:
            assert eventually(lambda: bool(place.logged()), 120)
            killed = kill_workers(process.pid, kills, dice)
            stdout, stderr = process.communicate(timeout=600)

    with ResultsFile.open(place.folder / RESULTS) as results:
        rows = results.observations()
    notes = re.sub(r"\n +", " ", stderr)  # a long line goes on in the next one
    again = Counter(re.findall(r"(works\[n=\d+\]): [^\n]*running it again", notes))
    lost = [each for each in rows if each.outcome == "lost"]
    misjudged = [each for each in rows if each.outcome not in ("returned", "lost")]
    missing = cells - len({each.instance for each in rows})
    tally.add("workers killed from outside", tried=killed, survived=killed, lost=missing, misjudged=len(misjudged))
    assert killed == kills
    assert misjudged == []
    assert missing == 0
    assert {each.instance for each in lost} <= again.keys(), "a cell that was lost was not run again"
    assert 2 * len(lost) + (sum(again.values()) - len(lost)) <= kills
    assert process.returncode == (3 if lost else 0), stdout + stderr
    assert "Traceback" not in stderr
    assert eventually(lambda: place.alive() == set(), 5.0)
    assert place.left_over() == []

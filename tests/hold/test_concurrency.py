"""Several runs at once, on one store and one results file: each environment is made once, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bisect_torch.environments import Store, list_environments
from bisect_torch.results import ResultsFile
from tests.engine.disturbed import RESULTS, Place, Undisturbed, eventually, index_of_two, undisturbed
from tests.support.index import FakeIndex
from tests.support.tally import Tally

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are found on Linux only")

ROOT = Path(__file__).parents[2]
RUNS = 4
KILLS = int(os.environ.get("TEST_KILLS", "50"))


@pytest.fixture(scope="module")
def index() -> Iterator[FakeIndex]:
    with index_of_two() as index:
        yield index


@pytest.fixture(scope="module")
def whole(index: FakeIndex, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("whole") / "w", index)


def seed() -> int:
    """Printed, so that what fell can be done again."""
    chosen = int(os.environ.get("TEST_SEED") or time.time_ns() % 1_000_000)
    print(f"TEST_SEED={chosen}")
    return chosen


@dataclass(frozen=True)
class Judged:
    """What a results file says of cells, beside the run that nobody disturbed.

    Args:
        lost: Cells that are not there.
        misjudged: Cells of which it says something else.
        problems: What could not be used of the journal.
    """

    lost: int
    misjudged: int
    problems: tuple[str, ...]
    runs: int


def judged(place: Place, whole: Undisturbed) -> Judged:
    with ResultsFile.open(place.folder / RESULTS) as results:
        problems, runs = results.problems, len(results.runs)
    found: dict[tuple[str, int], set[tuple[str, str]]] = {}
    for cell, row in place.all_rows():
        found.setdefault(cell, set()).add(row.judged)
    misjudged = sum(found.get(cell, {row.judged}) != {row.judged} for cell, row in whole.rows.items())
    return Judged(len(whole.rows.keys() - found.keys()), misjudged, problems, runs)


def all_ended(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Exit status and stderr of each."""
    stderr = [process.communicate(timeout=300)[1] for process in processes]
    return [(process.returncode, said) for process, said in zip(processes, stderr, strict=True)]


def test_four_runs_share_the_work_and_lose_nothing(
    whole: Undisturbed, index: FakeIndex, tmp_path: Path, tally: Tally
) -> None:
    place = Place.make(tmp_path / "p", index)
    index.requests.clear()
    with contextlib.ExitStack() as stack:
        ended = all_ended([stack.enter_context(place.start()) for _ in range(RUNS)])
    survived = sum(code == 1 and "Traceback" not in stderr for code, stderr in ended)
    found = judged(place, whole)
    tally.add("four runs at once", tried=RUNS, survived=survived, lost=found.lost, misjudged=found.misjudged)

    assert [code for code, _ in ended] == [1] * RUNS, ended
    assert found == Judged(0, 0, (), RUNS)
    downloads = Counter(each.path for each in index.requested("/files/*.whl") if each.range is None)
    assert set(downloads.values()) == {1}, "an environment was made twice"
    assert {path.name for path in (place.store / "envs").iterdir()} == whole.environments
    assert place.left_over() == []
    assert eventually(lambda: place.alive() == set(), 3.0)


@pytest.mark.slow
def test_one_of_four_runs_is_killed_at_fifty_moments(
    whole: Undisturbed, index: FakeIndex, tmp_path: Path, tally: Tally
) -> None:
    """Environments are there already, but for every fifth time: the moments then also fall into making them."""
    dice = random.Random(seed())
    for number in range(KILLS):
        place = Place.make(tmp_path / f"p{number}", index, store=None if number % 5 == 0 else whole.store)
        with contextlib.ExitStack() as stack:
            processes = [stack.enter_context(place.start()) for _ in range(RUNS)]
            time.sleep(dice.random() * whole.seconds)
            processes[0].kill()
            ended = all_ended(processes)[1:]
        again = place.run()
        found = judged(place, whole)
        survived = [code for code, _ in ended] == [1] * (RUNS - 1) and again.code == 1
        tally.add(
            "one of four runs killed", tried=1, survived=int(survived), lost=found.lost, misjudged=found.misjudged
        )
        assert survived, (number, ended, again)
        assert (found.lost, found.misjudged) == (0, 0)
        assert place.left_over() == []


@pytest.mark.parametrize("how", ["prune", "remove"])
def test_nothing_that_a_run_uses_is_removed(
    how: str, whole: Undisturbed, index: FakeIndex, tmp_path: Path, tally: Tally
) -> None:
    """``envs prune`` (or ``envs remove``) goes on for as long as the run does."""
    place = Place.make(tmp_path / "p", index)
    words = ["prune", "--unused", "0.0000001"] if how == "prune" else ["remove", "--all"]
    command = place.tool.words("envs", *words, "--store", str(place.store))
    said: set[int] = set()
    with place.start() as process:
        ended = threading.Event()
        waiting = threading.Thread(target=lambda: (process.wait(), ended.set()))
        waiting.start()
        while not ended.wait(0.1):
            answer = place.tool.call(command)
            assert "Traceback" not in answer.stderr
            said.add(answer.code)
        waiting.join()
        stdout, stderr = process.communicate()
    assert said <= {0, 3}
    assert process.returncode == 1, stdout + stderr
    found = judged(place, whole)
    tally.add(f"a run and envs {how} at once", tried=1, survived=1, lost=found.lost, misjudged=found.misjudged)
    assert found == Judged(0, 0, (), 1)


WRITER = """
import sys
from pathlib import Path
from bisect_torch.results import ResultsFile
from tests.results.made import observation
path, name, start = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
number = start
while True:
    results = ResultsFile.open(path)
    results.begin({"run_id": name})
    for _ in range(3):
        results.append(observation(number, run_id=name))
        print(number, flush=True)
        number += 1
    results.finish({"run_id": name})
    results.close()
"""


@dataclass
class Writer:
    """A process that writes and finishes all the time, and says what it has written."""

    path: Path
    name: str
    told: set[int] = field(default_factory=set)
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        words = [sys.executable, "-c", WRITER, str(self.path), self.name, str(max(self.told, default=-1) + 1)]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, pipesize=1 << 20
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def kill(self) -> str:
        """What it said on stderr: nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        stdout, stderr = self.process.communicate()
        self.told |= {int(line) for line in stdout.splitlines(keepends=True) if line.endswith("\n")}
        return stderr


@pytest.mark.parametrize("kills", [6, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_four_that_finish_at_once_lose_nothing_when_one_is_killed(kills: int, tmp_path: Path, tally: Tally) -> None:
    path = tmp_path / RESULTS
    dice = random.Random(seed())
    writers = [Writer(path, f"run-{number}") for number in range(RUNS)]
    for writer in writers:
        writer.start()
    said = []
    for _ in range(kills):
        time.sleep(0.05 + dice.random() / 2)
        chosen = dice.choice(writers)
        said.append(chosen.kill())
        chosen.start()
    said += [writer.kill() for writer in writers]

    with ResultsFile.open(path) as results:
        rows = results.observations()
        problems = results.problems
        names = {str(run["run_id"]) for run in results.runs}
    kept = {(row.run_id, int(row.key, 16)) for row in rows}
    told = {(writer.name, number) for writer in writers for number in writer.told}
    lost = len(told - kept)
    tally.add(
        "four that finish at once, one killed",
        tried=kills,
        survived=kills - len([1 for each in said if each]),
        lost=lost,
    )
    assert said == [""] * len(said)
    assert lost == 0
    assert len(kept) == len(rows), "a record stands there twice"
    assert all("damaged" not in problem for problem in problems)
    assert names == {writer.name for writer in writers}


REAL_CASES = """
import torch
from bisect_torch import case

@case(n=[1, 2])
def adds(n):
    assert (torch.ones(n) + 1).sum().item() == 2 * n
"""


@pytest.mark.slow
@pytest.mark.real_torch
def test_four_runs_at_once_on_real_releases(real_torch: object, tmp_path: Path, index: FakeIndex, tally: Tally) -> None:
    """On the store that the tests share, of which nothing is changed."""
    store = Store.open()
    before = {each.root.name: each.root.stat().st_mtime_ns for each in list_environments(store)}
    versions = sorted({each.build.version for each in list_environments(store)})
    (tmp_path / "cases.py").write_text(REAL_CASES)
    words = [sys.executable, "-m", "bisect_torch", "run", "cases.py", "--versions", "2.4.1,2.14.0", "--offline"]
    words += ["--python", "3.11", "-o", RESULTS]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "BISECT_TORCH_STORE": str(store.root)}
    with contextlib.ExitStack() as stack:
        ended = all_ended(
            [
                stack.enter_context(
                    subprocess.Popen(
                        words, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                    )
                )
                for _ in range(RUNS)
            ]
        )
    with ResultsFile.open(tmp_path / RESULTS) as results:
        rows = results.observations()
        problems = results.problems
    cells = {(row.build, row.instance) for row in rows if row.outcome == "returned"}
    wrong = [row for row in rows if row.outcome != "returned"]
    tally.add(
        "four runs at once on real releases",
        tried=RUNS,
        survived=sum(code == 0 for code, _ in ended),
        lost=4 - len(cells),
        misjudged=len(wrong),
    )
    assert "2.4.1" in versions
    assert [code for code, _ in ended] == [0] * RUNS, ended
    assert len(cells) == 4
    assert wrong == []
    assert problems == ()
    assert {each.root.name: each.root.stat().st_mtime_ns for each in list_environments(store)} == before

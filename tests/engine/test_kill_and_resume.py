"""``kill -9`` of the orchestrator, at any moment: nothing survives it, nothing recorded is lost or runs again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.disturbed import Place, Undisturbed, check_goes_on, eventually, index_of_two, undisturbed
from tests.engine.dying import MOMENTS
from tests.support.index import FakeIndex, Fault

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="children are found and die with the orchestrator on Linux only"
)

SURVIVE_S = 3.0
"""Longest time for which a child may outlive the orchestrator."""

COLD = {
    "before an answer of the index is kept",
    "before a lock is kept",
    "while checking an environment",
    "between install and rename",
}
"""Moments of making environments: nothing may be there already."""

RARE = {
    "while checking an environment",
    "before an answer of the index is kept",
    "before a lock is kept",
    "in half a staged package",
    "when the worker is just started",
    "before an expansion is kept",
    "after a record",
}
"""Of two moments in one piece of work, the one that finds less."""


@pytest.fixture(scope="module")
def index() -> Iterator[FakeIndex]:
    with index_of_two() as index:
        yield index


@pytest.fixture(scope="module")
def whole(index: FakeIndex, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(tmp_path_factory.mktemp("whole") / "w", index)


@pytest.fixture
def cold(index: FakeIndex, tmp_path: Path) -> Place:
    """No environment is there."""
    return Place.make(tmp_path / "p", index)


@pytest.fixture
def warm(whole: Undisturbed, index: FakeIndex, tmp_path: Path) -> Place:
    """Both environments are there."""
    return Place.make(tmp_path / "p", index, store=whole.store)


def check_nothing_survives(place: Place) -> None:
    assert eventually(lambda: place.alive() == set(), SURVIVE_S), _describe(place.alive())


def _describe(processes: set[int]) -> list[str]:
    found = []
    for process in processes:
        try:
            found.append(Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    "moment", [pytest.param(moment, marks=pytest.mark.slow if moment in RARE else ()) for moment in MOMENTS]
)
def test_killed_at_a_chosen_moment(moment: str, whole: Undisturbed, request: pytest.FixtureRequest) -> None:
    place: Place = request.getfixturevalue("cold" if moment in COLD else "warm")
    words = place.words()
    words[1:3] = ["-m", "tests.engine.dying", moment]

    with place.start(words) as process:
        _, stderr = process.communicate(timeout=120)

    assert process.returncode == -signal.SIGKILL, stderr
    check_nothing_survives(place)
    before = place.recorded()
    if moment in ("in half the Parquet file", "before the Parquet file is in its place", "before the journal goes"):
        assert before.keys() == whole.rows.keys()
    check_goes_on(place, whole, before)


def test_killed_while_uv_downloads(whole: Undisturbed, tmp_path: Path) -> None:
    with index_of_two() as slow:
        slow.fault("/files/torch-2.2.0-*.whl", Fault(bytes_per_second=300, times=1))
        place = Place.make(tmp_path / "p", slow)
        with place.start() as process:
            assert eventually(lambda: bool(slow.requested("/files/torch-2.2.0-*.whl")), 60.0)
            time.sleep(0.2)
            process.kill()
        assert list((place.store / "envs").glob("2.2.0-*")) == []
        check_nothing_survives(place)
        check_goes_on(place, whole, place.recorded())


HANGING = """
import os, signal, subprocess, time
from bisect_torch import case

@case
def hangs():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sh", "-c", "trap '' TERM HUP INT; sleep 300 & wait"], start_new_session=True)
    open(os.environ["TEST_LOG"] + ".hangs", "w").close()
    time.sleep(300)
"""


@pytest.mark.parametrize("isolation", ["fork", "process"])
def test_a_hanging_cell_and_what_it_started_die_with_the_orchestrator(warm: Place, isolation: str) -> None:
    """It ignores SIGTERM, and its children have sessions of their own."""
    warm.tool.write("hanging.py", HANGING)
    words = warm.tool.run_words("hanging.py", "--from", "2.1.0", "--isolation", isolation)
    with warm.start(words) as process:
        assert eventually((warm.folder / "log.hangs").exists, 60.0)
        time.sleep(0.2)
        assert len(warm.alive()) >= 4
        process.kill()
    check_nothing_survives(warm)


@pytest.fixture(scope="module")
def seconds(index: FakeIndex, whole: Undisturbed, tmp_path_factory: pytest.TempPathFactory) -> float:
    """What a run from nothing takes here; the very first one took longer."""
    return min(whole.seconds, undisturbed(tmp_path_factory.mktemp("again") / "w", index).seconds)


@dataclass(frozen=True)
class Dice:
    """Kills at random moments."""

    index: FakeIndex
    whole: Undisturbed
    seconds: float
    folder: Path

    def throw(self, number: int, of: int) -> None:
        """The moments lie in ``of`` equal parts of an undisturbed run, one in each."""
        seed = int(os.environ.get("TEST_SEED") or time.time_ns() % 1_000_000)
        after = self.seconds * (number + random.Random(seed * 1000 + number).random()) / of
        print(f"seed {seed}: killed after {after:.3f} s of {self.seconds:.3f} s")
        place = Place.make(self.folder / "p", self.index)
        with place.start() as process:
            try:
                process.wait(timeout=after)
            except subprocess.TimeoutExpired:
                process.kill()
        check_nothing_survives(place)
        before = place.recorded()
        print(f"exit status {process.returncode}, {len(before)} of {len(self.whole.rows)} cells were recorded")
        check_goes_on(place, self.whole, before)


@pytest.fixture
def dice(index: FakeIndex, whole: Undisturbed, seconds: float, tmp_path: Path) -> Dice:
    return Dice(index, whole, seconds, tmp_path)


@pytest.mark.parametrize("number", range(5))
def test_killed_at_a_random_moment(number: int, dice: Dice) -> None:
    dice.throw(number, 5)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_killed_at_20_random_moments(number: int, dice: Dice) -> None:
    dice.throw(number, 20)


def test_one_of_two_runs_is_killed(cold: Place, whole: Undisturbed) -> None:
    """The other goes on, with the store and the results file that they share; the next one clears up."""
    with cold.start() as killed, cold.start() as other:
        assert eventually(lambda: sum(cold.logged().values()) >= 3, 60.0)
        killed.kill()
        killed.wait()
        recorded = cold.recorded()
        stdout, stderr = other.communicate(timeout=120)
    assert other.returncode == 1, stdout + stderr
    check_nothing_survives(cold)
    observed = {(key, repeat) for key, repeat, _ in cold.observed()}
    assert observed == whole.rows.keys()
    assert recorded.keys() <= observed
    ran = sum(cold.logged().values())

    again = cold.run()

    assert again.code == 1, again.stderr
    assert sum(cold.logged().values()) == ran
    assert cold.left_over() == []

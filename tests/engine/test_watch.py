"""``bisect-torch watch``: a file as editors leave it, workers within their memory, and the whole over fake torch."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bisect_torch.engine.watch.file import GONE_S, SETTLE_S, FileWatch, Look
from bisect_torch.engine.watch.warm import WarmWorkers
from bisect_torch.model import Build, BuildKind, Environment
from tests.engine.conftest import MakeTool
from tests.engine.disturbed import Place, eventually
from tests.support.index import FakeIndex
from tests.support.tool import Tool
from tests.support.wheels import releases

# --- the file -------------------------------------------------------------------------------------------------


def settled(watch: FileWatch, now: float) -> Look:
    """Two looks, far enough apart."""
    first = watch.look(now)
    return watch.look(now + max(SETTLE_S, GONE_S)) if first is Look.WRITING else first


def test_a_file_that_stays_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "c.py"
    path.write_text("a")
    watch = FileWatch(path)
    assert [watch.look(now) for now in (1.0, 2.0)] == [Look.SAME, Look.SAME]


def test_a_change_is_told_once_and_not_before_it_has_settled(tmp_path: Path) -> None:
    path = tmp_path / "c.py"
    path.write_text("a")
    watch = FileWatch(path)
    path.write_text("ab")
    assert watch.look(1.0) is Look.WRITING
    path.write_text("abc")
    assert watch.look(1.0 + SETTLE_S) is Look.WRITING
    assert watch.look(1.0 + 2 * SETTLE_S) is Look.SAVED
    assert watch.look(2.0) is Look.SAME


def test_an_editor_that_renames_has_saved_once(tmp_path: Path) -> None:
    path, new = tmp_path / "c.py", tmp_path / "c.py~"
    path.write_text("a")
    watch = FileWatch(path)
    os.unlink(path)
    assert watch.look(1.0) is Look.WRITING
    new.write_text("b")
    os.rename(new, path)
    assert watch.look(1.1) is Look.WRITING
    assert watch.look(1.1 + SETTLE_S) is Look.SAVED


def test_a_file_that_goes_is_told_once_and_comes_back_as_a_save(tmp_path: Path) -> None:
    path = tmp_path / "c.py"
    path.write_text("a")
    watch = FileWatch(path)
    os.unlink(path)
    looks = [watch.look(1.0), watch.look(1.0 + GONE_S), watch.look(5.0)]
    assert looks == [Look.WRITING, Look.GONE, Look.SAME]
    path.write_text("a")
    assert settled(watch, 6.0) is Look.SAVED


def test_a_neighbour_counts_and_one_that_is_no_longer_imported_does_not(tmp_path: Path) -> None:
    path, other = tmp_path / "c.py", tmp_path / "d.py"
    path.write_text("a")
    other.write_text("a")
    watch = FileWatch(path)
    watch.follow([other])
    assert watch.look(1.0) is Look.SAME
    other.write_text("ab")
    assert settled(watch, 2.0) is Look.SAVED
    watch.follow([])
    other.write_text("abc")
    assert watch.look(4.0) is Look.SAME


# --- the workers ----------------------------------------------------------------------------------------------


class FakeWorker:
    def __init__(self, name: str) -> None:
        self.name = name
        self.killed = False
        self.process_id = 0

    def kill(self) -> None:
        self.killed = True


def environment(name: str) -> Environment:
    build = Build(BuildKind.RELEASE, name, name)
    return Environment(build, Path(), Path(), "3.11", "", {}, name, None, None, "pypi")


def pool(budget: int) -> tuple[WarmWorkers[FakeWorker], list[FakeWorker]]:
    started: list[FakeWorker] = []

    def start(of: Environment, on_start: Callable[[FakeWorker], None]) -> FakeWorker:
        worker = FakeWorker(of.build.name)
        started.append(worker)
        on_start(worker)
        return worker

    return WarmWorkers(start, budget, measure=lambda worker: 100), started


def use(workers: WarmWorkers[FakeWorker], name: str) -> None:
    with workers.lend(environment(name)):
        pass


def test_a_worker_is_started_once_and_stays() -> None:
    workers, started = pool(1000)
    for _ in range(3):
        use(workers, "a")
    assert [worker.name for worker in started] == ["a"]
    assert workers.warm() == {"a"}


def test_beyond_the_budget_the_oldest_is_dropped() -> None:
    workers, started = pool(250)
    for name in ("a", "b", "a", "c"):
        use(workers, name)
    assert [worker.name for worker in started if worker.killed] == ["b"]
    assert workers.warm() == {"a", "c"}
    assert workers.dropped == 1


def test_one_worker_is_always_allowed() -> None:
    workers, started = pool(1)
    use(workers, "a")
    assert not started[0].killed
    use(workers, "b")
    assert [worker.killed for worker in started] == [True, False]


def test_a_discarded_worker_is_not_lent_again() -> None:
    workers, started = pool(1000)
    with workers.lend(environment("a")) as worker:
        workers.discard(worker)
    use(workers, "a")
    assert [worker.killed for worker in started] == [True, False]


def test_a_worker_that_starts_while_all_are_ended_is_ended_too() -> None:
    workers, started = pool(1000)
    workers.close()
    use(workers, "a")
    assert started[0].killed
    assert workers.warm() == frozenset()


# --- the whole ------------------------------------------------------------------------------------------------

CASES = """
import torch
from bisect_torch import case

@case
def answers():
    assert torch.answer() == 42
"""

BODIES = {"2.1.0": "def answer(): return 42", "2.2.0": "def answer(): return 41"}


class Watching:
    """A ``watch`` whose output is read as it comes."""

    def __init__(self, place: Place, *words: str) -> None:
        self.place = place
        own = ["--index-url", place.tool.index.url, "--python", place.tool.python, "--store", str(place.store)]
        self.process = subprocess.Popen(
            place.tool.words("watch", "cases.py", *words, *own),
            cwd=place.folder,
            env=place.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.text = ""
        self._errors = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.text += line

    def wait_for(self, words: str, after: int = 0) -> int:
        """Until ``words`` are there; gives where what came after them begins."""
        eventually(lambda: words in self.text[after:] or self.process.poll() is not None, 90.0)
        assert words in self.text[after:], self.text + self.stderr()
        return self.text.index(words, after) + len(words)

    def stderr(self) -> str:
        """What it said there, once it has been ended."""
        return self._errors

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)
        self._reader.join(timeout=10)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with FakeIndex(releases(BODIES)) as index:
        made = Place.make(tmp_path / "p", index)
        made.tool.write("cases.py", CASES)
        yield made


def test_every_save_gives_a_matrix_and_nothing_stays_after_ctrl_c(place: Place) -> None:
    watching = Watching(place)
    try:
        at = watching.wait_for("answers: ok up to 2.1.0, wrong from 2.2.0 on (? not confirmed yet)")
        at = watching.wait_for("save 1: confirmed\nanswers: ok up to 2.1.0, wrong from 2.2.0 on\n", at)

        place.tool.write("cases.py", CASES.replace("== 42", "in (41, 42)"))
        at = watching.wait_for("changed by this save: answers in 2.2.0 wrong → ok", at)

        place.tool.write("cases.py", CASES + "\nif :\n")
        at = watching.wait_for("\ncases.py:9: invalid syntax", at)

        os.unlink(place.folder / "cases.py")
        at = watching.wait_for("cases.py is gone; waiting for it to come back", at)
        assert "answers" not in watching.text[at:]

        place.tool.write("cases.py", CASES)
        at = watching.wait_for("changed by this save: answers in 2.2.0 ok → wrong", at)
    finally:
        watching.end()
    assert watching.process.returncode == 130
    assert "Traceback" not in watching.stderr()
    assert eventually(lambda: place.alive() == set(), 2.0), place.alive()
    assert eventually(lambda: list(place.temporary.iterdir()) == [], 2.0)
    assert not (place.folder / "results.parquet").exists()


HANGS = """
import os, time
import torch
from bisect_torch import case

@case(n=range(2))
def hangs(n):
    open(os.environ["TEST_LOG"] + ".here", "w").close()
    time.sleep(300)
"""


def test_a_save_does_not_wait_for_a_cell_that_hangs_and_ctrl_c_neither(place: Place) -> None:
    """Its parameters are known only to a worker; the worker of the stale cell is given up."""
    place.tool.write("cases.py", HANGS)
    watching = Watching(place)
    try:
        assert eventually((place.folder / "log.here").exists, 90.0)
        place.tool.write("cases.py", CASES)
        watching.wait_for("answers: ok up to 2.1.0")
        os.unlink(place.folder / "log.here")
        place.tool.write("cases.py", HANGS)
        assert eventually((place.folder / "log.here").exists, 90.0)
        sent = time.monotonic()
    finally:
        watching.end()
    assert time.monotonic() - sent < 5 * max(1.0, os.getloadavg()[0])
    assert eventually(lambda: place.alive() == set(), 2.0), place.alive()


def test_a_script_works_and_it_is_said_why_it_is_slower(place: Place) -> None:
    place.tool.write("cases.py", "import torch\nassert torch.answer() == 42\n")
    watching = Watching(place)
    try:
        at = watching.wait_for("cases: ok up to 2.1.0, wrong from 2.2.0 on")
        watching.wait_for("a script runs in an interpreter of its own", at)
    finally:
        watching.end()


def test_some_of_the_cases_are_watched_and_what_fits_none_is_said(place: Place) -> None:
    """The file is read again on every save: a case of that name may come."""
    place.tool.write("cases.py", CASES + "\n@case\ndef other():\n    pass\n")
    watching = Watching(place, "-k", "othr", "--versions", "2.1.0")
    try:
        at = watching.wait_for("-k 'othr' fits no instance")
        place.tool.write("cases.py", CASES + "\n@case\ndef othr():\n    pass\n")
        watching.wait_for("othr  ·", at)
        assert "answers" not in watching.text
    finally:
        watching.end()


def test_what_cannot_be_watched_is_refused(make_tool: MakeTool) -> None:
    tool: Tool = make_tool(BODIES)

    answer = tool.call(tool.words("watch", "nowhere.py"))

    assert answer.code == 2
    assert "nowhere.py: no such file" in answer.stderr

"""Signals on real torch, at random moments: a run ends soon with all that had ended kept, and goes on later."""

from __future__ import annotations

import os
import pty
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bisect_torch.results import ResultsFile, journal
from bisect_torch.results.schema import FIELDS
from bisect_torch.worker import system
from tests.engine.disturbed import eventually
from tests.support.listening import start_listening
from tests.support.tally import Tally
from tests.worker.support import REPOSITORY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_torch,
    pytest.mark.skipif(not system.LINUX, reason="children are found on Linux only"),
]

CASES = """
import time
import torch
from bisect_torch import case

@case(n={numbers})
def works(n):
    a = torch.ones(64, 64) * n
    deadline = time.monotonic() + {seconds}
    while time.monotonic() < deadline:
        time.sleep(0.02)
        assert (a @ a).sum().item() == 64**3 * n * n
"""
RESULTS = "results.parquet"
TIMES = int(os.environ.get("TEST_TIMES") or 20)


def seed() -> int:
    """Printed, so that what fell can be done again."""
    chosen = int(os.environ.get("TEST_SEED") or time.time_ns() % 1_000_000)
    print(f"TEST_SEED={chosen}")
    return chosen


@dataclass
class Real:
    """The tool in a folder of its own, on two real releases."""

    folder: Path
    pythons: tuple[Path, ...]
    mark: str

    @classmethod
    def make(cls, folder: Path, real_torch: Mapping[str, Path], cells: int, seconds: float) -> Real:
        folder.mkdir()
        (folder / "t").mkdir()
        (folder / "cases.py").write_text(CASES.format(numbers=list(range(1, cells + 1)), seconds=seconds))
        return cls(folder, tuple(real_torch.values()), secrets.token_hex(8))

    def words(self, *more: str) -> list[str]:
        builds = ",".join(map(str, self.pythons))
        tool = [sys.executable, "-m", "bisect_torch", "run", "cases.py", "--versions", builds, "--jobs", "2"]
        return [*tool, "-o", RESULTS, *more]

    def search_words(self) -> list[str]:
        ends = [word for pair in zip(("--good", "--bad"), map(str, self.pythons), strict=True) for word in pair]
        return [sys.executable, "-m", "bisect_torch", "bisect", "cases.py", *ends, "--jobs", "2", "-o", RESULTS]

    @property
    def variables(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(self.folder / "t"), "TEST_MARK": self.mark}
        return {**os.environ, **own, "BISECT_TORCH_STORE": str(self.folder / "store")}

    def start(self, words: list[str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            words or self.words(),
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def alive(self) -> set[int]:
        return system.marked_processes(f"TEST_MARK={self.mark}")

    def journalled(self) -> set[tuple[str, int]]:
        """Cells whose end stands in the journal."""
        try:
            data = (self.folder / f"{RESULTS}.journal").read_bytes()
        except FileNotFoundError:
            return set()
        records = [record["observation"] for record in journal.decode(data).records if "observation" in record]
        key, repeat = FIELDS.index("key"), FIELDS.index("repeat")
        return {(values[key], values[repeat]) for values in records}  # type: ignore[index]

    def kept(self) -> set[tuple[str, int]]:
        if not any((self.folder / name).exists() for name in (RESULTS, f"{RESULTS}.journal")):
            return set()
        with ResultsFile.open(self.folder / RESULTS) as results:
            assert results.problems == ()
            assert {each.outcome for each in results.observations()} <= {"returned"}, "something is misjudged"
            return {(each.key, each.repeat) for each in results.observations()}

    def wait_for_cells(self, process: subprocess.Popen[str] | None = None) -> None:
        assert eventually(
            lambda: len(self.journalled()) > 1 or (process is not None and process.poll() is not None), 300
        )

    def check_clean(self) -> None:
        assert eventually(lambda: self.alive() == set(), 5.0), self.alive()
        assert list((self.folder / "t").iterdir()) == []


def slowness() -> float:
    """On a machine where others compute, everything takes its turn."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.mark.parametrize("command", ["run", "bisect"])
@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c_at_random_moments(
    signals: int, command: str, real_torch: Mapping[str, Path], tmp_path: Path, tally: Tally
) -> None:
    """Once: within two seconds (by how slow the machine is), with the Parquet file. Twice: at once."""
    dice = random.Random(seed())
    line = f"Ctrl-C {'once' if signals == 1 else 'twice'} in {command}, real torch"
    for number in range(TIMES):
        real = Real.make(tmp_path / str(number), real_torch, cells=200, seconds=0.05)
        words = real.words() if command == "run" else real.search_words()
        with start_listening(words[3:], cwd=real.folder, env=real.variables) as process:
            if number % 4:
                real.wait_for_cells(process)
            time.sleep(dice.random() * 3)
            before = real.journalled()
            sent = time.monotonic()
            for _ in range(signals):
                process.send_signal(signal.SIGINT)
                time.sleep(0.02)
            stdout, stderr = process.communicate(timeout=120)
            took = time.monotonic() - sent
        lost = len(before - real.kept())
        tally.add(line, tried=1, survived=1, lost=lost)
        tally.row("time to stop", (line, f"{took:.2f} s", f"load {os.getloadavg()[0]:.0f}", f"{len(before)} cells"))
        assert process.returncode == 130, stdout + stderr
        assert "Traceback" not in stderr, stderr
        assert took < 2.0 * slowness()
        assert lost == 0
        assert signals == 2 or not (real.folder / f"{RESULTS}.journal").exists()
        real.check_clean()


def stopped(processes: set[int], seconds: float) -> None:
    """Stop all of them, and have them go on later, in no order."""
    for process in processes:
        system.kill(process, signal.SIGSTOP)
    time.sleep(seconds)
    for process in processes:
        system.kill(process, signal.SIGCONT)


def test_a_stop_that_is_longer_than_the_limit_is_no_timeout(
    real_torch: Mapping[str, Path], tmp_path: Path, tally: Tally
) -> None:
    """Each cell takes 2 s of its 3; all stop for 5 s at random moments, among them near the limit."""
    dice = random.Random(seed())
    real = Real.make(tmp_path / "p", real_torch, cells=3, seconds=2.0)
    stops = 0
    with real.start(real.words("--timeout", "3")) as process:
        real.wait_for_cells(process)
        while process.poll() is None and stops < 6:
            stopped(real.alive(), 5.0)
            stops += 1
            time.sleep(0.5 + dice.random() * 2)
        stdout, stderr = process.communicate(timeout=300)
    tally.add("stopped for longer than the limit", tried=stops, survived=stops)
    assert process.returncode == 0, stdout + stderr
    assert stops > 1
    assert len(real.kept()) >= 6
    real.check_clean()


def test_sigterm_under_load_where_ctrl_c_is_ignored(
    real_torch: Mapping[str, Path], tmp_path: Path, tally: Tally
) -> None:
    """As a shell starts what runs in its background. Ctrl-C does nothing then; SIGTERM ends it with results."""
    real = Real.make(tmp_path / "p", real_torch, cells=200, seconds=0.05)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(4)]
    try:
        with real.start(["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *real.words()]) as process:
            real.wait_for_cells(process)
            process.send_signal(signal.SIGINT)
            time.sleep(1.0)
            assert process.poll() is None
            before = real.journalled()
            process.send_signal(signal.SIGTERM)
            stdout, stderr = process.communicate(timeout=120)
    finally:
        for each in busy:
            each.kill()
            each.wait()
    lost = len(before - real.kept())
    tally.add("SIGTERM under load, Ctrl-C ignored", tried=1, survived=1, lost=lost)
    assert process.returncode == 130, stdout + stderr
    assert lost == 0
    assert (real.folder / RESULTS).exists()
    real.check_clean()


def test_the_terminal_is_closed_under_it(real_torch: Mapping[str, Path], tmp_path: Path, tally: Tally) -> None:
    """The kernel sends SIGHUP, and nothing can be written to the terminal any more."""
    real = Real.make(tmp_path / "p", real_torch, cells=200, seconds=0.05)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(real.folder)
        os.execvpe(sys.executable, real.words(), real.variables)
    os.set_blocking(terminal, False)
    assert eventually(lambda: _drained(terminal) and len(real.journalled()) > 1, 300)
    before = real.journalled()
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    lost = len(before - real.kept())
    tally.add("terminal closed", tried=1, survived=1, lost=lost)
    assert os.waitstatus_to_exitcode(status) == 130
    assert lost == 0
    assert not (real.folder / f"{RESULTS}.journal").exists()
    real.check_clean()


def _drained(terminal: int) -> bool:
    """Read what is there, as a terminal does; always true."""
    try:
        while os.read(terminal, 2**16):
            continue
    except BlockingIOError:
        return True
    return True

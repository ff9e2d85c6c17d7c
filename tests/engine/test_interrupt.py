"""Ctrl-C, SIGTERM and SIGHUP end a run within two seconds, in whatever it is doing, with all that had ended kept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.disturbed import Place, eventually
from tests.support.index import FakeIndex, Fault
from tests.support.wheels import releases

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are found on Linux only")

LIMIT_S = 2.0
CALM = "def answer(): return 42"
SLOW_IMPORT = """
import os, sys, time
def answer(): return 42
if {word!r} in sys.argv:
    open(os.environ["TEST_LOG"] + ".here", "w").close()
    time.sleep(300)
"""

QUICK_THEN_HANGS = """
import os, signal, subprocess, time
from bisect_torch import case

@case
def a_quick():
    with open(os.environ["TEST_LOG"], "a") as log:
        log.write("quick\\n")

@case
def b_hangs():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sh", "-c", "trap '' TERM HUP INT; sleep 300 & wait"], start_new_session=True)
    open(os.environ["TEST_LOG"] + ".here", "w").close()
    time.sleep(300)
"""

HANGS_WHEN_CONFIRMED = """
import os, time
from bisect_torch import case

@case
def a_quick():
    path = os.environ["TEST_LOG"]
    with open(path, "a+") as log:
        log.write("quick\\n")
        log.seek(0)
        times = len(log.readlines())
    if times > 2:
        open(path + ".here", "w").close()
        time.sleep(300)
"""


@pytest.fixture
def index() -> Iterator[FakeIndex]:
    with FakeIndex() as index:
        yield index


@pytest.fixture
def place(index: FakeIndex, tmp_path: Path) -> Place:
    return Place.make(tmp_path / "p", index)


@dataclass(frozen=True)
class Phase:
    """Something that a run is doing.

    Args:
        cases: Text of the case file.
        body: Of the fake torch.
        slow: Pattern of an address at which the index is so slow that the run hangs there.
        recorded: Cells that have ended by then.
    """

    cases: str = QUICK_THEN_HANGS
    body: str = CALM
    slow: tuple[str, Fault] | None = None
    recorded: int = 0
    words: tuple[str, ...] = ()
    versions: tuple[str, ...] = ("2.1.0",)


PHASES = {
    "listing": Phase(slow=("/simple/torch/", Fault(delay_s=60))),
    "locking": Phase(slow=("/simple/numpy/", Fault(delay_s=60))),
    "downloading": Phase(slow=("/files/torch-*.whl", Fault(bytes_per_second=100))),
    "checking an environment": Phase(body=SLOW_IMPORT.format(word="base")),
    "a worker importing": Phase(body=SLOW_IMPORT.format(word="worker")),
    "a cell running": Phase(recorded=1),
    "a cell in its own process": Phase(recorded=1, words=("--isolation", "process")),
    "confirming": Phase(cases=HANGS_WHEN_CONFIRMED, recorded=2, versions=("2.1.0", "2.2.0")),
}


def arrive(place: Place, phase: Phase, index: FakeIndex) -> subprocess.Popen[str]:
    """A run that has come to the phase and hangs there."""
    index.add(*releases(dict.fromkeys(phase.versions, phase.body)))
    if phase.slow:
        index.fault(*phase.slow)
    place.tool.write("cases.py", phase.cases)
    process = place.start(place.tool.run_words("cases.py", "--from", "2.1.0", "--jobs", "1", *phase.words))

    def is_there() -> bool:
        if phase.slow:
            return bool(index.asked(phase.slow[0]))
        return (place.folder / "log.here").exists()

    assert eventually(lambda: is_there() or process.poll() is not None, 60.0)
    assert process.poll() is None, process.communicate()
    time.sleep(0.2)
    return process


def time_limit() -> float:
    """On a machine where others compute, everything takes its turn."""
    return LIMIT_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def check_ended(place: Place, process: subprocess.Popen[str], sent: float) -> str:
    """It ended in time, with its words, and nothing of it is left. Gives what it said."""
    stdout, stderr = process.communicate(timeout=60)
    took = time.monotonic() - sent
    said = stdout + stderr
    assert process.returncode == 130, said
    assert took < time_limit(), f"{took:.2f} s"
    assert "continue with: bisect-torch run cases.py" in said, said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert eventually(lambda: place.alive() == set(), 1.0), place.alive()
    return said


@pytest.mark.parametrize("name", PHASES)
def test_ctrl_c_ends_a_run_in_every_phase(name: str, place: Place, index: FakeIndex) -> None:
    phase = PHASES[name]
    process = arrive(place, phase, index)

    sent = time.monotonic()
    process.send_signal(signal.SIGINT)

    check_ended(place, process, sent)
    assert len(place.recorded()) == phase.recorded
    assert list(place.temporary.iterdir()) == []
    assert list(place.folder.glob("*.journal")) == []


@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGTERM, "listing"), (signal.SIGHUP, "locking"), (signal.SIGTERM, "a cell running")],
)
def test_sigterm_and_sighup_do_the_same(number: signal.Signals, name: str, place: Place, index: FakeIndex) -> None:
    process = arrive(place, PHASES[name], index)

    sent = time.monotonic()
    process.send_signal(number)

    check_ended(place, process, sent)
    assert len(place.recorded()) == PHASES[name].recorded


def test_what_had_ended_is_not_run_again(place: Place, index: FakeIndex) -> None:
    process = arrive(place, PHASES["a cell running"], index)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    check_ended(place, process, sent)
    judged = place.tool.call(place.tool.words("judge", "results.parquet"))
    assert [line.split() for line in judged.stdout.splitlines()[1:3]] == [["a_quick", "·"], ["b_hangs", "?"]]

    with place.start(place.tool.run_words("cases.py", "--from", "2.1.0", "-k", "a_quick")) as again:
        stdout, stderr = again.communicate(timeout=60)

    assert again.returncode == 0, stdout + stderr
    assert len(place.rows()) == sum(place.logged().values()) == 1
    assert place.left_over() == []


@pytest.mark.skipif(shutil.which("gdb") is None, reason="there is no gdb here")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_debugger_that_takes_stacks_is_not_waited_for(number: signal.Signals, place: Place, index: FakeIndex) -> None:
    phase = Phase(words=("--timeout", "0.3"))
    programs = place.folder / "bin"
    programs.mkdir()
    debugger = programs / "gdb"
    debugger.write_text("#!/bin/sh\ntouch $TEST_LOG.gdb\nexec sleep 300\n")
    debugger.chmod(0o755)
    index.add(*releases({"2.1.0": phase.body}))
    place.tool.write("cases.py", phase.cases)
    words = place.tool.run_words("cases.py", "--from", "2.1.0", "--jobs", "1", *phase.words)
    process = place.start(words, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    assert eventually((place.folder / "log.gdb").exists, 60.0)

    sent = time.monotonic()
    process.send_signal(number)

    if number == signal.SIGINT:
        check_ended(place, process, sent)
    process.communicate()
    assert eventually(lambda: place.alive() == set(), 1.0), place.alive()


@pytest.mark.parametrize("signals", [1, 2])
def test_an_interrupt_while_results_are_written(signals: int, place: Place, index: FakeIndex) -> None:
    """The first waits for the file, which takes a moment; the second does not, and the journal stays."""
    index.add(*releases({"2.1.0": CALM}))
    place.tool.write("cases.py", QUICK_THEN_HANGS)
    words = place.tool.run_words("cases.py", "--from", "2.1.0", "-k", "a_quick")
    words[1:3] = ["-m", "tests.engine.interrupted", str(signals)]
    with place.start(words) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "interrupted\n"
        check_ended(place, process, time.monotonic())
    assert len(place.recorded()) == 1
    assert (place.folder / "results.parquet").exists() is (signals == 1)
    assert (place.folder / "results.parquet.journal").exists() is (signals == 2)
    assert list(place.folder.glob(".*.part")) == []


def test_ctrl_c_twice_ends_at_once(place: Place, index: FakeIndex) -> None:
    process = arrive(place, PHASES["a cell running"], index)
    process.send_signal(signal.SIGINT)
    time.sleep(0.02)

    sent = time.monotonic()
    process.send_signal(signal.SIGINT)

    check_ended(place, process, sent)
    assert len(place.recorded()) == 1


def test_a_terminal_that_goes_takes_nothing_with_it(place: Place, index: FakeIndex) -> None:
    """The live screen, its last words and the report have nowhere to go any more; the results have."""
    phase = PHASES["a cell running"]
    index.add(*releases({"2.1.0": phase.body}))
    place.tool.write("cases.py", phase.cases)
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        place.tool.run_words("cases.py", "--from", "2.1.0", "--jobs", "1"),
        cwd=place.folder,
        env={**place.variables, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        assert eventually((place.folder / "log.here").exists, 60.0)
        time.sleep(0.5)
        assert b"cells" in terminal.read(2**16)

    sent = time.monotonic()
    process.send_signal(signal.SIGHUP)

    assert process.wait(timeout=60) == 130
    assert time.monotonic() - sent < time_limit()
    assert len(place.rows()) == 1
    assert eventually(lambda: place.alive() == set(), 1.0), place.alive()


def test_nohup_holds_against_sighup(place: Place, index: FakeIndex) -> None:
    index.add(*releases({"2.1.0": SLOW_IMPORT.format(word="base").replace("300", "1")}))
    place.tool.write("cases.py", QUICK_THEN_HANGS)
    words = place.tool.run_words("cases.py", "--from", "2.1.0", "-k", "a_quick")
    with place.start(["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *words]) as process:
        assert eventually((place.folder / "log.here").exists, 60.0)
        process.send_signal(signal.SIGHUP)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stdout + stderr


def test_two_runs_at_once_share_a_store_and_a_results_file(place: Place, index: FakeIndex) -> None:
    """Every environment is built once; the results hold every row of both, and no torn line stays."""
    index.add(*releases({"2.1.0": CALM, "2.2.0": CALM}))
    place.tool.write(
        "cases.py",
        QUICK_THEN_HANGS.replace("a_quick():", "a_quick(n):", 1).replace("@case\n", "@case(n=[1, 2, 3, 4, 5, 6])\n", 1),
    )
    words = place.tool.run_words("cases.py", "--from", "2.1.0", "-k", "a_quick")

    runs = [place.start(words) for _ in range(2)]
    for run in runs:
        stdout, stderr = run.communicate(timeout=120)
        assert run.returncode == 0, stdout + stderr
        assert "damaged" not in stderr

    for version in ("2.1.0", "2.2.0"):
        assert len(index.requested(f"/files/torch-{version}-*.whl")) == 1
    assert place.left_over() == []
    observed = place.observed()
    assert len(observed) == sum(place.logged().values())
    assert len({run_id for _, _, run_id in observed}) == 2
    cells = {key for key, _, _ in observed}
    assert len(cells) == 12

"""Ctrl-C at any moment between the program's first line and its last ends it with 130 and one line.

The clock of these tests begins when the program listens.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from bisect_torch.cli import main as cli
from bisect_torch.cli.output import until_interrupted
from bisect_torch.interruption import Interruption
from tests.engine.conftest import make_tool
from tests.support.listening import start_listening
from tests.support.tally import Tally
from tests.support.tool import Tool

__all__ = ["make_tool"]

MOMENTS = int(os.environ.get("TEST_TIMES") or 12)


def start(tool: Tool, words: list[str]) -> subprocess.Popen[str]:
    return start_listening(words, cwd=tool.folder, env=tool.variables())


@pytest.fixture
def tool(make_tool) -> Tool:
    tool = make_tool({"2.1.0": "", "2.2.0": ""})
    tool.write("repro.py", "import torch\n")
    return tool


def words_of(tool: Tool, name: str) -> list[str]:
    if name == "run":
        return tool.run_words("repro.py", "--from", "2.1.0", "--dry-run")[3:]
    if name == "judge":
        tool.run("repro.py", "--from", "2.1.0")
        return ["judge", "results.parquet"]
    return ["--help"] if name == "help" else ["releases", "--offline", "--json"]


@pytest.mark.parametrize("name", ["help", "releases", "judge", "run"])
def test_ctrl_c_at_any_moment_ends_it_with_130_and_one_line(name: str, tool: Tool, tally: Tally) -> None:
    words = words_of(tool, name)
    began = time.monotonic()
    with start(tool, words) as process:
        whole = process.communicate(timeout=120)[0]
    took = time.monotonic() - began
    assert process.returncode == 0
    seen: Counter[int] = Counter()
    for number in range(MOMENTS):
        with start(tool, words) as process:
            time.sleep(took * number / MOMENTS)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=120)
        seen[process.returncode] += 1
        assert process.returncode in (0, 130), f"{number}: {process.returncode} {stderr}"
        if process.returncode == 130:
            said = stderr.splitlines()
            assert said == ["error: interrupted"]  # nothing was run, so nothing is said to be kept
        else:
            assert _steady(stdout) == _steady(whole)
        assert "Traceback" not in stderr
        assert "Exception ignored" not in stderr
    assert seen[130] > 0
    tally.add(f"Ctrl-C at any moment of {name}", tried=MOMENTS, survived=seen[130] + seen[0])


@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c_while_it_ends_does_not_change_how_it_ended(signals: int, tool: Tool) -> None:
    """The results are out and the exit code is decided, but Python is still about to end."""
    program = (
        "import atexit, sys, time; from bisect_torch.cli.entry import main; sys.argv = ['bisect-torch', '--version']\n"
        "atexit.register(time.sleep, 1); atexit.register(print, 'ends', flush=True)\n"
        "sys.exit(main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tool.folder
    )
    with process:
        assert process.stdout is not None
        while process.stdout.readline() != "ends\n":
            assert process.poll() is None
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")


@pytest.mark.parametrize("began", [False, True])
def test_only_what_had_begun_is_said_to_be_kept(began: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def work(interruption: Interruption) -> int:
        interruption.began = began
        raise KeyboardInterrupt

    assert until_interrupted(work, lambda: "continue with: x") == 130
    said = "interrupted; what had finished is kept" if began else "interrupted before anything was run"
    assert capsys.readouterr().err == f"error: {said}\nhint: continue with: x\n"
    assert until_interrupted(work, None) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


LOST = """
import os, signal, sys, time, types
from bisect_torch.cli import parser
from bisect_torch.cli.output import until_interrupted
from bisect_torch.interruption import Interruption
class Falls:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000): pass
def command(args):
    Falls()
    time.sleep(30)
    return 0
module = types.ModuleType("fake_command")
module.add_parser = lambda subparsers: subparsers.add_parser("fake")
module.command = command
sys.modules["fake_command"] = module
parser.COMMANDS = (("fake", "fake_command", "", False),)
sys.argv = ["bisect-torch", "fake"]
from bisect_torch.cli.entry import main
sys.exit(main())
"""


def test_a_ctrl_c_that_python_forgets_in_a_destructor_comes_again(tmp_path: Path) -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
    assert time.monotonic() - began < 20


def test_a_ctrl_c_that_python_makes_an_error_of_is_no_fault_of_the_tool(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As while a class is made, before Python 3.12."""

    def dispatch(words: object) -> int:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise RuntimeError("Error calling __set_name__ on 'x' instance 'y' in 'z'") from interrupt

    monkeypatch.setattr(cli, "_dispatch", dispatch)
    assert cli.main(["releases"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def _steady(text: str) -> str:
    """Without what is free on the disk: others write there too."""
    return re.sub(r"of [0-9.]+ [KMGT]?B free", "", text)


def test_in_the_background_of_a_script_ctrl_c_stays_ignored(tool: Tool) -> None:
    words = [sys.executable, "-m", "bisect_torch", "releases", "--offline", "--json"]
    process = subprocess.Popen(
        words,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        cwd=tool.folder,
        env=tool.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        for _ in range(20):
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert stdout.startswith("[")

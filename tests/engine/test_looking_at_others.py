"""A case finds no secret and no other cell in the tool's processes, although it runs as the same user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.model import Isolation
from bisect_torch.worker import system
from tests.engine.conftest import MakeTool
from tests.worker.conftest import interpreter, start
from tests.worker.support import REPOSITORY, StartWorker

__all__ = ["interpreter", "start"]

pytestmark = pytest.mark.skipif(not system.LINUX, reason="other processes are looked at through /proc")

SECRETS = ("hf_Xq81mPz0aLw93TkE", "Vb72yQn5sRk")

LOOKS = """
import os

SECRETS = [text[::-1].encode() for text in {reversed!r}]

def look():
    found, seen = [], []
    for process in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            try:
                with open(os.path.join("/proc", process, name), "rb") as file:
                    data = file.read()
            except OSError:
                continue
            if b"TEST_MARK={mark}" in data:
                seen.append(process)
            if any(secret in data for secret in SECRETS):
                with open(os.path.join("/proc", process, "cmdline")) as file:
                    found.append((name, file.read()))
    assert not found, found
    assert str(os.getpid()) in seen and str(os.getppid()) in seen or os.getuid(), seen
    return seen
"""
SAYS = "with open({log!r}, 'w') as log: log.write(' '.join(look()))\n"
CASE = f"from bisect_torch import case\n@case\ndef looks():\n    {SAYS}"


@pytest.mark.parametrize("words", [["cases.py"], ["script.py"], ["--", "python", "script.py"]], ids=lambda w: w[-1])
def test_a_case_finds_no_secret_in_any_process_of_the_tool(make_tool: MakeTool, words: list[str]) -> None:
    tool = make_tool({"2.1.0": ""})
    mark = f"looks{os.getpid()}"
    log = str(tool.folder / "seen")
    looks = LOOKS.format(reversed=[secret[::-1] for secret in SECRETS], mark=mark)
    tool.write("cases.py", looks + CASE.format(log=log))
    tool.write("script.py", looks + SAYS.format(log=log))
    planted = {"HF_TOKEN": SECRETS[0], "DATABASE": f"postgres://me:{SECRETS[1]}@127.0.0.1/x", "TEST_MARK": mark}

    place = words.index("--") if "--" in words else len(words)
    more = ["--from", "2.1.0", "--extra-index-url", tool.index.url.replace("://", f"://me:{SECRETS[1]}@")]
    answer = tool.run(*words[:place], *more, *words[place:], "--json" if place == len(words) else "", **planted)

    assert answer.code == 0, answer.stdout + answer.stderr
    # The orchestrator, which root may look into, and the worker are among those that were looked at.
    assert len((tool.folder / "seen").read_text().split()) >= (3 if os.getuid() == 0 else 1)


REACHES = """
import os
from bisect_torch import case

def sockets():
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(os.path.join("/proc", process, "environ"), "rb") as file:
                marked = b"TEST_MARK={mark}" in file.read()
            for name in os.listdir(os.path.join("/proc", process, "fd")) if marked else ():
                path = os.path.join("/proc", process, "fd", name)
                if os.path.realpath(path).rpartition("/")[2].startswith("socket:"):
                    yield path
        except OSError:
            continue

@case
def reaches():
    tried = list(sockets())
    for path in tried:
        try:
            os.close(os.open(path, os.O_RDWR))
        except OSError:
            continue
        raise AssertionError(path)
    # Of this worker its requests and both ends of this cell's channel, of the other its requests.
    assert len(tried) == 4, tried
"""


def test_no_channel_of_a_worker_or_cell_can_be_opened_from_another_cell(start: StartWorker, tmp_path: Path) -> None:
    """Requests, answers and results go over sockets, which cannot be opened a second time through ``/proc``."""
    mark = f"reaches{os.getpid()}"
    path = tmp_path / "reaches.py"
    path.write_text(REACHES.replace("{mark}", mark))
    start(variables={"TEST_MARK": mark})
    facts = start(variables={"TEST_MARK": mark}).run(CellRequest(path, "case", "reaches"))
    assert facts["outcome"] == "returned", facts.get("message")


HOLDS = """
import os
from bisect_torch import case

@case
def holds():
    here = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            here[int(name)] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue  # the folder itself
    assert {here[0]} == {"/dev/null"}
    others = sorted(target.partition(":")[0] for number, target in here.items() if number > 2)
    own = [os.path.basename(target) for target in here.values() if target.startswith(os.getcwd())]
    # The channel, the lifeline, and where stacks are written.
    assert sorted(os.path.basename(each) for each in others) == [".stack", "pipe", "socket"], here
    assert own == [".stack"], here
"""


@pytest.mark.parametrize("isolation", [Isolation.FORK, Isolation.PROCESS])
def test_a_cell_holds_no_descriptor_of_its_worker_or_of_others(
    start: StartWorker, tmp_path: Path, isolation: Isolation
) -> None:
    """Beside another worker, whose cell is running, and with files open in this process that are not for it."""
    path = tmp_path / "holds.py"
    path.write_text(HOLDS)
    with open(tmp_path / "results.parquet.journal", "w"):
        others = start()
        worker = start()
        assert others.run(CellRequest(path, "case", "holds", isolation=isolation))["outcome"] == "returned"
        facts = worker.run(CellRequest(path, "case", "holds", isolation=isolation))
    assert facts["outcome"] == "returned", facts.get("message")


APART = """
import ctypes, os, signal, sys
sys.path.insert(0, {root!r})
from bisect_torch.redaction import conceal
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
ready, done = os.pipe()
hidden = os.fork()
if hidden == 0:
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as a program is when it starts
    if sys.argv[1] == "concealed":
        conceal()
        conceal()  # a second time it is closed already
    os.write(done, b"x")
    signal.pause()
os.close(done)
assert os.read(ready, 1) == b"x"
refused = []
for name in ("environ", "fd", "mem"):
    path = "/proc/%d/%s" % (hidden, name)
    try:
        os.listdir(path) if name == "fd" else open(path, "rb").read(0)
    except PermissionError:
        refused.append(name)
os.kill(hidden, 9)
print(*refused)
"""


@pytest.mark.parametrize(("who", "refused"), [("concealed", "environ fd mem"), ("not concealed", "")])
def test_who_is_not_root_cannot_look_into_the_orchestrator(who: str, refused: str) -> None:
    program = APART.format(root=str(REPOSITORY))
    done = subprocess.run([sys.executable, "-c", program, who], capture_output=True, text=True, timeout=60, cwd="/")
    assert (done.stdout.strip(), done.stderr) == (refused, "")

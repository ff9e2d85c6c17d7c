"""Torch or a dependency, where the change lies in Python, at a nightly build, in a script or command; interruption."""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.engine.test_attribute import attribute, tool_on, wheels
from tests.support import nightlies
from tests.support.tool import Answer, Tool
from tests.support.wheels import Wheel, fake_numpy, fake_setuptools, fake_torch

OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


@functools.cache
def other_python() -> Path | None:
    """An interpreter of another minor version that the tool can use, if this machine has one."""
    names = [f"python3.{minor}" for minor in range(14, 8, -1) if minor != sys.version_info.minor]
    homes = [Path(each).parent for each in os.get_exec_path()]
    homes += [home / "bin" for home in (Path.home() / ".pyenv" / "versions").glob("3.*")]
    for name in names:
        for path in (found for home in homes if (found := shutil.which(name, path=str(home)))):
            if subprocess.run([path, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
                return Path(path)
    return None


needs_two_pythons = pytest.mark.skipif(other_python() is None, reason="there is one Python here")

PYTHON_CASES = f"""
import sys
import torch
from bisect_torch import case

@case
def by_python():
    assert "%d.%d" % sys.version_info[:2] == {OWN!r}

@case
def by_torch():
    assert torch.__version__ == "2.1.0"
"""


def run_on_two_pythons(tool: Tool) -> Path:
    """2.1.0 on the Python of the tests, 2.2.0 on another one, in one results file."""
    other = other_python()
    assert other is not None
    tool.write("cases.py", PYTHON_CASES)
    assert tool.run("cases.py", "--versions", "2.1.0").code == 0
    named = tool.words("run", "cases.py", "--versions", "2.2.0", "--python", str(other))
    ran = tool.call([*named, "--index-url", tool.index.url, "--store", str(tool.folder / "store")])
    assert ran.code == 1, ran.stderr
    return other


def torches(new_tags: str) -> list[Wheel]:
    return [
        fake_torch("2.1.0", upload_time="2024-09-04"),
        fake_torch("2.2.0", upload_time="2024-10-14", tags=new_tags),
        fake_numpy(upload_time="2024-08-01"),
        fake_setuptools(upload_time="2024-08-01"),
    ]


@needs_two_pythons
def test_the_new_torch_on_the_old_python_tells_python_from_torch(tmp_path: Path) -> None:
    with tool_on(tmp_path, torches("py3-none-any")) as tool:
        other = run_on_two_pythons(tool)
        minor = re.search(r"3\.\d+$", other.name)
        assert minor is not None
        path = f"{other.parent}{os.pathsep}{os.environ['PATH']}"
        words = ["--before", "2.1.0", "--after", "2.2.0", "--json"]

        by_python = tool.call(tool.words("attribute", "results.parquet", "by_python", *words), PATH=path)
        by_torch = tool.call(tool.words("attribute", "results.parquet", "by_torch", *words), PATH=path)

    assert (by_python.code, by_python.data["cause"], by_python.data["packages"]) == (0, "dependency", ["python"])
    said = f"Python {OWN} → {minor[0]}, not torch: torch 2.2.0 with Python {OWN} is as before"
    assert said in by_python.data["text"]
    hybrids = [each["build"] for each in by_python.data["hybrids"]]
    assert hybrids == [f"2.2.0+python=={OWN}", f"2.1.0+python=={minor[0]}"]
    assert (by_torch.code, by_torch.data["cause"]) == (0, "torch")
    assert by_torch.data["text"].endswith("torch itself.")


@needs_two_pythons
def test_a_torch_without_a_wheel_for_the_other_python_says_so(tmp_path: Path) -> None:
    other = other_python()
    assert other is not None
    tag = other.name.replace("python", "cp").replace(".", "")
    with tool_on(tmp_path, torches(f"{tag}-none-any")) as tool:
        run_on_two_pythons(tool)
        path = f"{other.parent}{os.pathsep}{os.environ['PATH']}"

        answer = tool.call(tool.words("attribute", "results.parquet", "by_python", "--json"), PATH=path)

    assert (answer.code, answer.data["cause"], answer.data["packages"]) == (0, "dependency", ["python"])
    (python,) = answer.data["differ"]
    assert list(python["inseparable"]) == ["new"]
    assert f"torch 2.2.0 has no wheel for Python {OWN}" in python["inseparable"]["new"]
    assert answer.data["text"].endswith(f"torch 2.1.0 with Python {other.name.removeprefix('python')} is as after.")


# --- a nightly at one end

NIGHTLY_CASES = """
import numpy
import torch
from bisect_torch import case

@case
def by_torch():
    assert torch.answer() == 42

@case
def by_numpy():
    assert numpy.__version__ == "2.1.1"
"""


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """Results of a release and of a nightly, between whose days numpy went on."""
    with nightlies.nightly_index() as index:
        index.add(fake_numpy("2.4.0", upload_time="2026-11-10"))
        tool = Tool(tmp_path_factory.mktemp("nightly"), index)
        tool.write("cases.py", NIGHTLY_CASES)
        words = ("--versions", "2.15.0,nightly", "--torch-backend", "cpu")
        ran = tool.run("cases.py", *words, BISECT_TORCH_BACKEND_INDEX=index.base)
        assert ran.code == 1, ran.stderr
        yield tool


@pytest.mark.parametrize(
    ("case", "cause", "packages"), [("by_torch", "torch", []), ("by_numpy", "dependency", ["numpy"])]
)
def test_a_nightly_may_be_one_end(nightly: Tool, case: str, cause: str, packages: list[str]) -> None:
    words = nightly.words("attribute", "results.parquet", case, "--json")

    answer = nightly.call(words, BISECT_TORCH_BACKEND_INDEX=nightly.index.base)

    assert (answer.code, answer.data["cause"], answer.data["packages"]) == (0, cause, packages), answer.stderr
    last = nightlies.version(nightlies.LAST)
    assert (answer.data["before"], answer.data["after"]) == ("2.15.0", last)
    assert [each["build"] for each in answer.data["hybrids"]] == [f"{last}+numpy==2.1.1", "2.15.0+numpy==2.4.0"]


# --- scripts and commands

SCRIPT = """
import numpy
import torch
print("numpy", numpy.__version__)
if numpy.__version__ != "2.1.1":
    raise SystemExit(3)
"""


@pytest.mark.parametrize(
    ("words", "case"),
    [
        (["repro.py"], "repro"),
        (["repro.py", "--bad-if-output", "numpy 2.2"], "repro.py"),
        (["--", "python", "repro.py", "--steps", "3"], "repro"),
        (["--", "sh", "-c", "python repro.py && exit 0 || exit 9"], "sh"),
    ],
)
def test_scripts_and_commands_are_attributed_like_cases(tmp_path: Path, words: list[str], case: str) -> None:
    with tool_on(tmp_path, wheels()) as tool:
        tool.write("repro.py", SCRIPT)
        place = words.index("--") if "--" in words else len(words)
        assert tool.run(*words[:place], "--from", "2.1.0", *words[place:]).code == 1
        before = rows(tool)

        answer = attribute(tool, case, "--json")

        assert (answer.code, answer.data["cause"], answer.data["packages"]) == (0, "dependency", ["numpy"])
        assert rows(tool)[: len(before)] == before


def rows(tool: Tool) -> list[dict[str, object]]:
    table: list[dict[str, object]] = pq.read_table(tool.folder / "results.parquet").to_pylist()
    return table


# --- interruption

HANGS = """
import pathlib
import time
import numpy
import torch
here = pathlib.Path(__file__)
if here.with_name("hang").exists() and torch.__version__ == "2.1.0" and numpy.__version__ == "2.2.0":
    here.with_name("hangs").write_text("")
    time.sleep(300)
assert numpy.__version__ == "2.1.1"
"""


def test_an_interrupted_attribution_goes_on_without_building_anything_twice(tmp_path: Path) -> None:
    with tool_on(tmp_path, wheels()) as tool:
        tool.write("repro.py", HANGS)
        assert tool.run("repro.py", "--from", "2.1.0").code == 1
        before = rows(tool)
        tool.write("hang", "")

        stopped = interrupted_when(tool, tmp_path / "hangs")
        (tmp_path / "hang").unlink()
        answer = attribute(tool, "repro")

        assert (stopped.code, stopped.stdout) == (130, "")
        assert "the same command goes on from there" in stopped.stderr
        assert answer.code == 0, answer.stderr
        assert "numpy 2.1.1 → 2.2.0, not torch" in " ".join(answer.stdout.split())
        built = Counter(re.findall(r"^(\S+): environment ready.*\(built", stopped.stderr + answer.stderr, re.MULTILINE))
        assert set(built) >= {"2.2.0+numpy==2.1.1", "2.1.0+numpy==2.2.0"}
        assert set(built.values()) == {1}
        after = rows(tool)
        assert after[: len(before)] == before
        builds = Counter((row["build_name"], row["repeat"], row["isolation"]) for row in after)
        assert set(builds.values()) == {1}


def interrupted_when(tool: Tool, sign: Path) -> Answer:
    """``attribute``, which gets Ctrl-C once a file is there."""
    words = tool.words("attribute", "results.parquet", "repro")
    with subprocess.Popen(
        words, cwd=tool.folder, env=tool.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not sign.exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    return Answer(process.returncode, stdout, stderr)

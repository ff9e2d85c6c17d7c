"""A broken environment is never read as a fault of torch: before the run, while it goes on, and where something that
is not torch is missing."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.engine.conftest import MakeTool
from tests.support.index import FakeIndex
from tests.support.tool import Answer, Tool
from tests.support.wheels import Wheel, fake_numpy, fake_setuptools, fake_torch
from tests.worker.support import eventually

LIBRARY = b"\x7fELF" + bytes(range(256)) * 16

# What a torch does: it reads its library, and needs its own files.
BODY = """
import os as _os

def answer():
    with open(_os.path.join(_os.path.dirname(__file__), "lib", "libtorch_cpu.so"), "rb") as _library:
        return len(_library.read())
"""

CASES = f"""
import torch
from bisect_torch import case

@case
def answers():
    import numpy, torch.testing
    assert torch.answer() == {len(LIBRARY)}
    assert numpy.__version__ == "2.1.1"
    torch.testing.assert_close(1.0, 1.0)
"""

DAYS = {"2.1.0": "2024-09-04", "2.2.0": "2024-10-04", "2.3.0": "2024-11-04"}


def torch_of(version: str, body: str = BODY, **options: object) -> Wheel:
    files = {"torch/lib/libtorch_cpu.so": LIBRARY, "torch/lib/same_everywhere.txt": "shared"}
    return fake_torch(version, body, files=files, upload_time=DAYS[version], **options)  # type: ignore[arg-type]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Tool]]:
    with ExitStack() as stack:

        def make(*torches: Wheel) -> Tool:
            company = [fake_numpy(upload_time="2024-08-01"), fake_setuptools(upload_time="2024-08-01")]
            return Tool(tmp_path, stack.enter_context(FakeIndex([*torches, *company])))

        yield make


@pytest.fixture
def tool(serve: Callable[..., Tool]) -> Tool:
    """Three releases that behave alike."""
    tool = serve(*(torch_of(version) for version in DAYS))
    tool.write("cases.py", CASES)
    return tool


def site(tool: Tool, version: str) -> Path:
    return next((tool.folder / "store" / "envs").glob(f"{version}-*/lib/python*/site-packages"))


def writable(path: Path) -> Path:
    path.chmod(0o644)
    return path


@pytest.fixture(autouse=True)
def no_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)


# --- damage between two runs


def _deleted(packages: Path) -> None:
    (packages / "torch" / "testing" / "__init__.py").unlink()


def _replaced(packages: Path) -> None:
    path = packages / "torch" / "__init__.py"
    text = path.read_text()
    path.unlink()
    path.write_text(text + "\n\ndef answer(): return 0\n")


def _other_version_inside(packages: Path) -> None:
    path = packages / "torch" / "version.py"
    text = path.read_text()
    path.unlink()
    path.write_text(text.replace("2.2.0", "2.3.0"))


def _other_metadata(packages: Path) -> None:
    path = packages / "torch-2.2.0.dist-info" / "METADATA"
    text = path.read_text()
    path.unlink()
    path.write_text(text.replace("2.2.0", "2.3.0"))


def _truncated_library(packages: Path) -> None:
    os.truncate(writable(packages / "torch" / "lib" / "libtorch_cpu.so"), 100)


def _written_through_a_link(packages: Path) -> None:
    writable(packages / "numpy" / "__init__.py").write_text("__version__ = '2.1.2'\n")


DAMAGES = [
    _deleted, _replaced, _other_version_inside, _other_metadata, _truncated_library, _written_through_a_link,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_environment_that_was_damaged_is_rebuilt_and_so_is_every_other_that_shares_the_file(
    tool: Tool, damage: Callable[[Path], None]
) -> None:
    tool.run("cases.py", "--from", "2.1.0")
    before = {version: (site(tool, version) / "numpy" / "__init__.py").stat().st_ino for version in DAYS}
    assert len(set(before.values())) == 1, "the fake environments do not share files"
    damage(site(tool, "2.2.0"))

    answer = tool.run("cases.py", "--from", "2.1.0", "--fresh", "--json")

    assert answer.verdicts("answers") == ["ok", "ok", "ok"]
    assert answer.data["findings"] == []
    shared = damage is _written_through_a_link
    assert answer.stderr.count("quarantined: changed since it was made") == (3 if shared else 1)
    for version in DAYS:
        assert (site(tool, version) / "numpy" / "__init__.py").read_text().startswith("__version__ = '2.1.1'\n")


def test_a_torch_that_is_broken_as_it_comes_is_broken(serve: Callable[..., Tool]) -> None:
    tool = serve(torch_of("2.1.0"), torch_of("2.2.0", imported_version="2.1.0"), torch_of("2.3.0"))
    tool.write("cases.py", CASES)

    answer = tool.run("cases.py", "--from", "2.1.0", "--json")

    assert answer.verdicts("answers") == ["ok", "broken", "ok"]
    assert answer.data["findings"] == []
    assert "wrong version inside" in answer.data["unjudged"][0]["reason"]


# --- damage while the run goes on

DAMAGING = """
import os, torch
from bisect_torch import case

def damage():
    packages = os.path.dirname(os.path.dirname(torch.__file__))
    mark = {mark!r}
    if torch.__version__ == "2.2.0" and not os.path.exists(mark):
        open(mark, "w").close()
        path = os.path.join(packages, {path!r})
        os.chmod(path, 0o644)
        {how}

@case
def before():
    assert torch.answer()

@case
def damages():
    damage()

""" + CASES.partition("import case")[2].lstrip()


def damaging(tool: Tool, path: str, how: str) -> None:
    tool.write("cases.py", DAMAGING.format(mark=str(tool.folder / "damaged"), path=path, how=how))


LIBRARY_PATH = "torch/lib/libtorch_cpu.so"
DURING = {
    "deleted": "os.unlink(path)",
    "replaced": "os.unlink(path); open(path, 'w').write('other')",
    "truncated": "os.truncate(path, 100)",
}


@pytest.mark.parametrize("name", DURING)
def test_what_fails_in_an_environment_that_changed_during_the_run_is_broken(tool: Tool, name: str) -> None:
    damaging(tool, LIBRARY_PATH, DURING[name])

    answer = tool.run("cases.py", "--from", "2.1.0", "--jobs", "1", "--json")

    assert answer.verdicts("answers") == ["ok", "broken", "ok"]
    assert answer.verdicts("before") == ["ok", "broken", "ok"]  # nobody knows since when
    assert answer.data["findings"] == []
    (unjudged,) = answer.data["unjudged"]
    assert unjudged["reason"].startswith("the environment changed during the run: ")
    assert LIBRARY_PATH in unjudged["reason"]
    assert "again" in unjudged["hint"]

    again = tool.run("cases.py", "--from", "2.1.0", "--jobs", "1", "--json")

    assert again.verdicts("answers") == again.verdicts("before") == ["ok", "ok", "ok"]
    assert again.stderr.count("quarantined: changed since it was made") == 1
    assert (again.data["findings"], again.code) == ([], 0)


def test_what_is_written_through_a_link_during_the_run_breaks_every_environment_that_shares_it(tool: Tool) -> None:
    tool.write("first.py", "import torch\n")
    tool.run("first.py", "--from", "2.1.0")
    damaging(tool, "numpy/__init__.py", "open(path, 'w').write('__version__ = None')")

    answer = tool.run("cases.py", "--from", "2.1.0", "--jobs", "1", "--json")

    assert answer.verdicts("answers") == ["broken"] * 3
    assert (answer.data["findings"], answer.code) == ([], 3)
    again = tool.run("cases.py", "--from", "2.1.0", "--jobs", "1", "--json")
    assert again.verdicts("answers") == ["ok"] * 3


def test_an_environment_that_nothing_hangs_on_is_not_looked_at_again(tool: Tool) -> None:
    """All is right, so nothing is claimed: the sweep at the next start is early enough."""
    path = "torch/lib/same_everywhere.txt"
    damaging(tool, path, "os.truncate(path, 0)")

    answer = tool.run("cases.py", "--from", "2.1.0", "--json")

    assert answer.verdicts("answers") == ["ok"] * 3
    assert answer.data["unjudged"] == []


def test_a_run_that_was_killed_before_it_could_look_again_blames_nobody(tool: Tool) -> None:
    """What failed in its environments counts only where these are still whole."""
    text = DAMAGING.format(mark=str(tool.folder / "damaged"), path=LIBRARY_PATH, how=DURING["deleted"])
    wait = tool.folder / "wait"
    wait.touch()
    tool.write(
        "cases.py",
        text + f"\n@case\ndef waits():\n    import time\n    while os.path.exists({str(wait)!r}): time.sleep(0.05)\n",
    )
    journal = tool.folder / "results.parquet.journal"

    def failure_is_known() -> bool:
        return journal.exists() and "FileNotFoundError" in journal.read_text()

    with tool.start("cases.py", "--versions", "2.2.0", "--jobs", "1") as process:
        failed = eventually(failure_is_known, limit_s=60)
        process.kill()
        process.communicate()
    assert failed
    wait.unlink()

    answer = tool.run("cases.py", "--versions", "2.2.0", "--json")

    assert answer.verdicts("answers") == ["ok"]


# --- something that is not torch is missing

COMPILER = """
import shutil

def compile_fx(function, **_options):
    import setuptools
    compiler = shutil.which("g++")
    if compiler is None:
        raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx")
    import subprocess
    try:
        subprocess.check_output([compiler, "x.cpp"], stderr=subprocess.STDOUT)
    except subprocess.CalledProcessError as error:
        raise RuntimeError("C++ compile error") from error
    return function
"""

COMPILING = """
import torch
from bisect_torch import case

@case(needs="compile")
def declared():
    torch.compile(abs)(1)

@case
def undeclared():
    torch.compile(abs)(1)

@case
def plain():
    assert torch.ones(2).tolist() == [1.0, 1.0]
"""


@pytest.fixture
def compiling(serve: Callable[..., Tool]) -> Tool:
    """Two releases that compile; case file and scripts. Their environments are there."""
    body = "from torch._inductor import compile_fx as compile"
    tool = serve(
        *(
            fake_torch(version, body, files={"torch/_inductor/__init__.py": COMPILER}, upload_time=DAYS[version])
            for version in ("2.1.0", "2.2.0")
        )
    )
    tool.write("cases.py", COMPILING)
    tool.write("compiles.py", "import torch\n@torch.compile\ndef f(x): return x\nf(1)\n")
    tool.write("imports.py", "import torch\nassert torch.ones(2).sum().tolist() == 2.0\n")
    return tool


FILES = ("cases.py", "compiles.py", "imports.py")
COMPILE_ROWS, OTHER_ROWS = ("declared", "undeclared", "compiles"), ("plain", "imports")


def programs(tool: Tool, **scripts: str) -> str:
    """A PATH with Python, the named scripts, and no compiler."""
    folder = tool.folder / f"bin-{'-'.join(scripts)}"
    folder.mkdir()
    (folder / f"python{tool.python}").symlink_to(os.path.realpath(sys.executable))
    for name, text in scripts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(folder)


def check_broken(answer: Answer, reason: str, rows: tuple[str, ...] = COMPILE_ROWS) -> None:
    builds = len(answer.data["builds"])
    for row in rows:
        assert answer.verdicts(row) == ["broken"] * builds, row
        (series,) = (each for each in answer.data["series"] if each["instance"] == row)
        assert all(reason in cell["reason"] for cell in series["cells"].values()), series
    for row in OTHER_ROWS:
        assert answer.verdicts(row) == ["ok"] * builds, row
    assert answer.data["findings"] == []
    assert answer.code == 3


def test_without_a_compiler_just_what_compiles_is_broken(compiling: Tool) -> None:
    answer = compiling.run(*FILES, "--from", "2.1.0", "--json", PATH=programs(compiling))

    check_broken(answer, "compile: no C++ compiler")
    assert {each["hint"] for each in answer.data["unjudged"]} == {
        "install a C++ compiler (g++ or clang++) and put it on PATH"
    }

    path = programs(compiling, **{"g++": "exit 0"})
    again = compiling.run(*FILES, "--from", "2.1.0", "--json", PATH=path)
    assert all(again.verdicts(row) == ["ok", "ok"] for row in (*COMPILE_ROWS, *OTHER_ROWS))


def test_with_a_compiler_that_fails_just_what_compiles_is_broken(compiling: Tool) -> None:
    path = programs(compiling, **{"g++": "echo 'g++: fatal error: no cc1plus'; exit 1"})

    answer = compiling.run(*FILES, "--from", "2.1.0", "--json", PATH=path)

    check_broken(answer, "compile: the C++ compiler g++ fails: g++: fatal error: no cc1plus")


def test_a_missing_setuptools_is_no_regression(compiling: Tool) -> None:
    """In a local interpreter, since no environment of ours lacks it; beside a release where all is well."""
    path = programs(compiling, **{"g++": "exit 0"})
    compiling.run(*FILES, "--from", "2.1.0", PATH=path)
    python = site(compiling, "2.2.0").parents[2] / "bin" / "python"
    lacking = compiling.folder / "lacking"
    shutil.copytree(python.parent.parent, lacking, symlinks=True)
    for each in lacking.glob("lib/python*/site-packages/setuptools*"):
        shutil.rmtree(each)

    answer = compiling.run(*FILES, "--versions", f"2.1.0,{lacking / 'bin' / 'python'}", "--json", PATH=path)

    for row in COMPILE_ROWS:
        assert answer.verdicts(row) == ["ok", "broken"], row
    assert all(answer.verdicts(row) == ["ok", "ok"] for row in OTHER_ROWS)
    assert answer.data["findings"] == []
    assert {each["hint"] for each in answer.data["unjudged"]} == {
        "install setuptools in that interpreter's environment"
    }


@pytest.mark.real_torch
@pytest.mark.slow
def test_a_damaged_real_torch_is_broken_and_its_neighbour_is_not(
    make_tool: MakeTool, real_torch: Mapping[str, Path]
) -> None:
    """A copy of links; each damaged file is first made one of its own."""
    tool = make_tool({"2.1.0": ""})
    tool.write("plain.py", "import torch\nassert torch.ones(3).sum() == 3\n")
    source = real_torch["2.14.0"].parent.parent
    copies = {}
    for name, relative, content in (
        ("truncated", "torch/lib/libtorch_cpu.so", b"\x7fELF"),
        ("deleted", "torch/_tensor.py", None),
        ("replaced", "torch/functional.py", b"raise SystemError('garbage')\n"),
    ):
        copies[name] = tool.folder / name
        shutil.copytree(source, copies[name], symlinks=True, copy_function=os.link)
        path = next(copies[name].glob("lib/python*/site-packages")) / relative
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    builds = ",".join(str(copy / "bin" / "python") for copy in copies.values())

    answer = tool.run("plain.py", "--versions", f"{builds},{real_torch['2.14.0']}", "--json")

    for copy in copies.values():
        shutil.rmtree(copy)
    assert answer.verdicts("plain") == ["broken", "broken", "broken", "ok"]
    assert answer.data["findings"] == []


REAL_COMPILING = COMPILING.replace("torch.compile(abs)(1)", "torch.compile(torch.relu)(torch.ones(2))")


@pytest.mark.real_torch
@pytest.mark.slow
@pytest.mark.parametrize(("script", "reason"), [(None, "no C++ compiler"), ("exit 1", "C++ compiler")])
def test_without_a_working_compiler_just_what_compiles_is_broken_on_real_torch(
    make_tool: MakeTool, real_torch: Mapping[str, Path], script: str | None, reason: str
) -> None:
    tool = make_tool({"2.1.0": ""})
    tool.write("cases.py", REAL_COMPILING)
    tool.write("compiles.py", "import torch\n@torch.compile\ndef f(x): return x + 1\nf(torch.ones(2))\n")
    tool.write("imports.py", "import torch.utils.cpp_extension\n")
    path = programs(tool, **({"g++": script} if script else {}))
    builds = ",".join(str(python) for python in real_torch.values())

    answer = tool.run(*FILES, "--versions", builds, "--json", PATH=path)

    check_broken(answer, reason)

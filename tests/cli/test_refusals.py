"""Every kind of wrong command line: one clear line, a hint where there is something to do, and nothing done.

The real command runs in this process against a loopback index of fake releases 2.4.1, 2.5.0 and 2.6.0.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bisect_torch.cli.arguments import backend
from bisect_torch.cli.main import main
from tests.support.index import FakeIndex, Fault
from tests.support.tally import Tally
from tests.support.wheels import releases

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

FILES: dict[str, str | bytes] = {
    "binary.py": b"\x00\x01\x02\xff",
    "latin.py": "x = 'é'\n".encode("latin-1"),
    "deep.py": f"from bisect_torch import case\n@case(n=[{'-' * 3000}1])\ndef a(n):\n    pass\n",
    "many.py": "from bisect_torch import case\nR = range(999)\n@case(a=R, b=R, c=R)\ndef a(a, b, c):\n    pass\n",
    "need.py": "from bisect_torch import case\n@case(needs='gpu')\ndef a():\n    pass\n",
    "time.py": "from bisect_torch import case\n@case(timeout=-1)\ndef a():\n    pass\n",
    "size.py": "from bisect_torch import case\n@case(memory='lots')\ndef a():\n    pass\n",
    "damaged.parquet": b"PAR1 and then something else PAR1",
    "ok.py": "from bisect_torch import case\n@case(n=[1, 2])\ndef fine(n):\n    pass\n",
    "syntax.py": "from bisect_torch import case\n@case\ndef broken(:\n    pass\n",
    "none.py": "from bisect_torch import case\n\ndef forgotten():\n    pass\n",
    "twice.py": "from bisect_torch import case\n@case\ndef a():\n    pass\n@case\ndef a():\n    pass\n",
    "list.py": "from bisect_torch import case\n@case(n=[[1]])\ndef a(n):\n    pass\n",
    "other.py": "from bisect_torch import case\n@case(m=[1])\ndef a(n):\n    pass\n",
    "nothing.py": "from bisect_torch import case\n@case(n=[])\ndef a(n):\n    pass\n",
    "text.parquet": "not Parquet at all",
    "report.md": "It fails:\n```python\nimport torch\n```\n",
    "word.txt": "hello",
    "nb.ipynb": '{"cells": []}',
    "a.sh": "echo\n",
    "a.csv": "a,b\n",
}

_ROW = b"[[release]]\nversion = '2.4.1'\nday = 2024-09-04\ngit_commit = 'a'\npythons = ['3.11']\n"
LOCKS: dict[str, dict[str, bytes]] = {
    "lock-range": {"catalogue.toml": _ROW, "2.4.1.lock": b"torch>=2.4.1 --hash=sha256:00\n"},
    "lock-words": {"catalogue.toml": _ROW, "2.4.1.lock": b"!!! not a requirement\n"},
    "lock-bytes": {"catalogue.toml": _ROW, "2.4.1.lock": b"\xff\xfe torch\n"},
    "lock-two": {"catalogue.toml": _ROW, "2.4.1.lock": b"torch==2.4.1,<3\n"},
    "catalogue-none": {"2.4.1.lock": b"torch==2.4.1\n"},
    "catalogue-words": {"catalogue.toml": b"release = 'none'\n"},
    "catalogue-bytes": {"catalogue.toml": b"\xff\xfe"},
    "catalogue-day": {"catalogue.toml": _ROW.replace(b"2024-09-04", b"'today'")},
    "catalogue-deep": {"catalogue.toml": b"release = " + b"[" * 5000},
}
"""Folders of locks in which something is wrong."""

REFUSED: dict[str, tuple[list[str], str, str]] = {
    # what is wrong: words after `run`, what the first line must match, what the hint must match
    "unknown file": (["syntx.py"], r"syntx\.py: no such file", r"did you mean syntax\.py"),
    "unknown file unlike the others": (["qqq.txt"], r"qqq\.txt: no such file", "paths are seen from the working"),
    "a bug report": (["report.md"], r"report\.md: that is a text, not Python", "`bisect-torch new report.md` takes"),
    "a word": (["word.txt"], r"word\.txt: that is a text, not Python", "`bisect-torch new word.txt` takes"),
    "a notebook": (["nb.ipynb"], r"nb\.ipynb: that is a notebook, not Python", "`jupyter nbconvert --to script nb"),
    "a shell script": (["a.sh"], r"a\.sh: that is a shell script, not Python", "a command stands after --: -- sh a.sh"),
    "results": (["text.parquet"], r"text\.parquet: that is results, not Python", "`bisect-torch judge text.parquet`"),
    "data": (["a.csv"], r"a\.csv: that is data, not Python", "name a case file"),
    "folder without files": (["empty"], r"empty: the folder holds no \*\.py", "name a file"),
    "syntax error": (
        ["syntax.py"],
        r"syntax\.py:3: invalid syntax",
        r"the line is `def broken\(:`; if it is right in a newer",
    ),
    "no case": (["none.py"], r"none\.py:1: .*declares no case", "@case"),
    "same name twice": (["twice.py"], r"twice\.py:5|twice\.py:6: the case 'a' was declared before, in line 3", "name"),
    "parameter that is a list": (["list.py"], r"list\.py:2: case 'a': the parameter 'n' has the value \[1\]", ""),
    "parameter that is not taken": (["other.py"], r"other\.py:2: case 'a': .*'m'", ""),
    "parameter without values": (["nothing.py"], r"nothing\.py:2: case 'a': .*'n' has an empty list", ""),
    "unknown suite": (["--suite", "default,smoke"], "--suite 'smoke' is not known", "default, large-index, decoding"),
    "no suite": (["--suite", ","], "--suite: ',' names nothing", "--help"),
    "unreadable -k": (["ok.py", "-k", "and and"], "-k 'and and': a name is missing before 'and'", "for example"),
    "-k that fits nothing": (["ok.py", "-k", "softmax"], "-k 'softmax' fits none of 2 instances", "fine"),
    "unknown version": (["ok.py", "--versions", "2.5.9"], r"torch 2\.5\.9 does not exist.*2\.5\.0 and 2\.6\.0", "rel"),
    "no version": (["ok.py", "--versions", " , "], "--versions: ' , ' names nothing", "--help"),
    "unknown --from": (["ok.py", "--from", "9.9.9"], r"torch 9\.9\.9 does not exist.*2\.6\.0", "releases"),
    "unknown --to": (["ok.py", "--to", "1.0"], r"torch 1\.0 does not exist.*2\.4\.1", "releases"),
    "not a version": (["ok.py", "--from", "newest"], "'newest' is not a version", "without --to"),
    "reversed range": (["ok.py", "--from", "2.6.0", "--to", "2.4.1"], "the range is reversed", r"--from 2\.4\.1"),
    "empty range": (["ok.py", "--exclude", "2.4.1,2.5.0,2.6.0"], "the range is empty", r"known are 2\.4\.1"),
    "unknown program": (
        ["--", "/nowhere/program", "--dry-run"],
        "/nowhere/program: no such program",
        "options and all",
    ),
    "unknown interpreter": (
        ["ok.py", "--versions", "/nowhere/python"],
        "no Python interpreter at /nowhere",
        "path of a python program",
    ),
    "--python that is no version": (
        ["ok.py", "--python", "newest"],
        "--python newest: not a version",
        r"--python 3\.12",
    ),
    "--python that is not there": (
        ["ok.py", "--python", "/nowhere"],
        "--python /nowhere: not a Python",
        r"such as 3\.12",
    ),
    "no jobs": (["ok.py", "--jobs", "0"], "--jobs: '0' is not a number above zero", "--help"),
    "endless time": (["ok.py", "--timeout", "nan"], "--timeout: 'nan' is not a number above zero", "--help"),
    "half a repeat": (["ok.py", "--repeat", "1.5"], "--repeat: '1.5' is not", "--help"),
    "unknown size": (["ok.py", "--max-memory", "lots"], "'lots' is not a size", "--help"),
    "device typo": (["ok.py", "--device", "gpu"], "'gpu' is not a device; known are cpu, cuda", "--help"),
    "device number": (["ok.py", "--device", "cuda:x"], "'cuda:x' is not a device", "--help"),
    "no device": (["ok.py", "--device", ""], "--device: '' names nothing", "--help"),
    "unknown backend": (["ok.py", "--torch-backend", "gpu"], "'gpu' is not a backend; known are pypi", "--help"),
    "results in a folder's place": (["ok.py", "-o", "empty"], "empty is no file", "name another file"),
    "results that are not Parquet": (["ok.py", "-o", "text.parquet"], "is not a Parquet file", "another"),
    "results of somebody else": (["ok.py", "-o", "foreign.parquet"], "no results file of bisect-torch", "another"),
    "results in no folder": (["ok.py", "-o", "no/x.parquet"], "the folder .*/no does not exist", "make it"),
    "unreadable expression": (["ok.py", "--bad-if-output", "("], r"--bad-if-output '\('", r"nan\|inf"),
    "requirement": (["ok.py", "--with", "!!"], "--with !!: not a requirement", "--with torchvision"),
    "torch beside torch": (["ok.py", "--with", "torch==2.5.0"], "each environment has its own torch", "--versions"),
    "no project": (["ok.py", "--with-editable", "empty"], "no project there", "pyproject"),
    "nothing after --": (["--"], "there is no command after --", "COMMAND"),
    "index folder that is not there": (["ok.py", "--index-url", "nowhere"], "index folder nowhere does not", "https"),
    "a name that is too long": (["x" * 300 + ".py"], "File name too long", "another file"),
    "results under a report's ending": (["ok.py", "-o", "x.pdf"], r"x\.pdf: results are kept as Parquet", r"x\.html"),
    "a file that is no text": (["binary.py"], r"binary\.py:1: ", ""),
    "a file in another encoding": (["latin.py"], r"latin\.py:\d: ", "UTF-8"),
    "nested too deeply": (["deep.py"], r"deep\.py:1: cannot be read as Python", "Python"),
    "more instances than anybody runs": (["many.py"], r"many\.py:3: case 'a': .* 997002999 choices", ""),
    "unknown need": (["need.py"], r"need\.py:2: case 'a': needs", ""),
    "negative time": (["time.py"], r"time\.py:2: case 'a': timeout is a positive number", ""),
    "unreadable memory": (["size.py"], r"size\.py:2: case 'a': memory is a number of bytes", ""),
    "-k of a thousand parentheses": (["ok.py", "-k", "(" * 5000], r"-k .*nested too deeply", "not float64"),
    "interpreter with a name too long": (
        ["ok.py", "--versions", "/" + "x" * 300],
        "no Python interpreter at",
        "path of a python program",
    ),
    "interpreter in nobody's home": (
        ["ok.py", "--versions", "~nobody-here/python"],
        "no Python interpreter at",
        "path of a python program",
    ),
    "version with an escape in it": (
        ["ok.py", "--versions", "2.5\x1b[31m.1"],
        "is not a version",
        "versions look like",
    ),
    "version with a line in it": (["ok.py", "--versions", "2.5\n.1"], "is not a version", "versions look like"),
    "version of full-width digits": (["ok.py", "--versions", "２.４.１x"], "is not a version", "versions look like"),
    "unknown --exclude": (["ok.py", "--exclude", "7.7"], r"torch 7\.7 does not exist", "releases"),
    "a day that no calendar has": (["ok.py", "--versions", "nightly:2026-02-30"], "2026-02-30", "versions look like"),
    "results with a name too long": (["ok.py", "-o", "x" * 300], "File name too long", "another"),
    "results that link to themselves": (["ok.py", "-o", "loop.parquet"], "loop.parquet", "another"),
    "results that are damaged": (["ok.py", "-o", "damaged.parquet"], "not a Parquet file, or a damaged one", "another"),
    "results with a folder for a journal": (["ok.py", "-o", "j.parquet"], "j.parquet.journal is no file", "another"),
    "a suite that is not there": (["--dry-run", "--pytest", "empy"], "--pytest empy: no such file or folder", "empty"),
    "unknown option": (["ok.py", "--form", "2.4.1"], "unknown option '--form'", "--from"),
}


@pytest.fixture(scope="module")
def index() -> Iterator[FakeIndex]:
    with FakeIndex(releases(dict.fromkeys(("2.4.1", "2.5.0", "2.6.0"), ""))) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, index: FakeIndex, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a user: case files, and a store elsewhere."""
    here = tmp_path / "work"
    (here / "empty").mkdir(parents=True)
    for name, text in FILES.items():
        (here / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (here / "j.parquet.journal").mkdir()
    (here / "loop.parquet").symlink_to("loop.parquet")
    for name, files in LOCKS.items():
        (here / name).mkdir()
        for file, text in files.items():
            (here / name / file).write_bytes(text)
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), here / "foreign.parquet")
    for name in [name for name in os.environ if name.startswith(("UV_", "BISECT_TORCH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
    monkeypatch.setenv("BISECT_TORCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(here)
    return here


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Name to size and modification time, of files and folders."""
    found = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {str(path): (status.st_size, status.st_mtime_ns) for path, status in found.items()}


@pytest.mark.parametrize("name", ["pypi", "auto", "cpu", "xpu", "cu128", "rocm", "rocm6.4"])
def test_every_backend_that_is_offered_is_taken(name: str) -> None:
    assert backend(name) == name


def environments(folder: Path) -> list[Path]:
    return [path for kind in ("envs", "tmp", "quarantine") for path in (folder.parent / "store" / kind).glob("*")]


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_line_is_refused_in_one_line_and_nothing_is_done(
    name: str, folder: Path, index: FakeIndex, capsys: pytest.CaptureFixture[str], tally: Tally
) -> None:
    words, message, hint = REFUSED[name]
    tally.add("bad input: command lines and case files", tried=1, survived=1)
    before = contents(folder)
    index.requests.clear()
    if "--python" not in words:
        words = ["--python", PYTHON, *words]

    assert main(["run", *words]) == 2

    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0].startswith("error: ")
    assert re.search(message, lines[0])
    assert len(lines) == (2 if hint else 1)
    assert not hint or re.match(f"hint: .*{hint}", lines[1])
    assert contents(folder) == before
    assert environments(folder) == []
    assert index.requested("/files/*.whl") == []


OUR_SIDE: dict[str, tuple[list[str], str]] = {
    # exit 3: the line is right, and the machine or the network is not
    "store in a file's place": (["ok.py", "--store", "text.parquet"], "the store .*text.parquet cannot be written"),
    "index that does not answer": (["ok.py", "--index-url", "http://127.0.0.1:9/simple"], "cannot be reached"),
}


@pytest.mark.parametrize("name", OUR_SIDE)
def test_a_failure_on_our_side_ends_with_3_and_a_hint(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, message = OUR_SIDE[name]
    before = contents(folder)
    assert main(["run", "--python", PYTHON, *words]) == 3
    error, hint = capsys.readouterr().err.splitlines()
    assert re.search(message, error)
    assert hint.startswith("hint: ")
    assert contents(folder) == before


def test_a_disk_that_is_too_small_is_refused_before_anything_is_downloaded(
    folder: Path, index: FakeIndex, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000_000))
    monkeypatch.setattr("bisect_torch.environments.store.Store.free_bytes", lambda self: 1_000_000)
    index.requests.clear()
    assert main(["run", "--python", PYTHON, "ok.py"]) == 3
    error, hint = capsys.readouterr().err.splitlines()
    assert re.search(r"the disk is too small: a single environment needs 0\.1 GB, and 0\.0 GB of the disk", error)
    assert "--store" in hint
    assert index.requested("/files/*.whl") == []
    assert environments(folder) == []


def test_a_dry_run_makes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(folder)
    assert main(["run", "--python", PYTHON, "ok.py", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 builds: 0 environments are there, 3 to be made"
    assert lines[-3:] == ["would run 2 instances on each build", "  fine[n=1]", "  fine[n=2]"]
    assert contents(folder) == before
    assert environments(folder) == []


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (["run", "--versions", "2.6.0"], "2.6.0 gets no environment, and a"),
        (["run"], "2.6.0, the newest build, gets no environment, and a"),
        (["run", "--json"], "2.6.0, the newest build, gets no environment, and a"),
        (
            ["bisect", "--good", "2.4.1", "--bad", "2.6.0"],
            "none of the builds that the search begins with gets an environment, and a",
        ),
    ],
)
def test_a_dry_run_ends_as_the_run_would_where_a_package_does_not_exist(
    words: list[str], ends: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Locks are made for the plan, and tell it without anything being installed."""
    line = [*words, "--python", PYTHON, "ok.py", "--with", "no-such-package", "--dry-run"]

    assert main(line) == 3

    out, err = capsys.readouterr()
    error, hint = err.splitlines()
    assert error == f"error: {ends} run would end with 3: no-such-package is not in the package index"
    assert hint == "hint: are name and version right? --with takes what `pip install` takes"
    assert "no-such-package is not in the package index" in out
    assert out.count("no-such-package") == 1 or "--json" in words  # one line for all builds
    assert environments(folder) == []
    if "bisect" not in words:
        line.remove("--dry-run")
        assert main([*line, "-q"]) == 3


@pytest.mark.parametrize("command", [["run"], ["bisect", "--good", "2.4.1", "--bad", "2.6.0"]])
def test_an_option_behind_the_dashes_is_said_in_one_line(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--python", PYTHON, "--dry-run", "--", "python", "-m", "x", "--from", "2.5.0"]) == 0
    said = capsys.readouterr().err
    assert said == "note: --from after -- goes to the command; options of bisect-torch stand before --\n"


@pytest.mark.parametrize("command", [["run"], ["bisect", "--good", "2.4.1", "--bad", "2.6.0"]])
def test_a_program_that_is_found_nowhere_is_said_before_environments_are_made(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And is not refused: an environment may bring it."""
    for program, told in (("nosuchprog", True), ("sh", False), ("python3.12", False), ("torchrun", False)):
        assert main([*command, "--python", PYTHON, "--dry-run", "--", program, "-m", "x"]) == 0
        said = capsys.readouterr().err
        assert ("nosuchprog is not on PATH: " in said) == told
        assert bool(said) == told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["judge", "missing.parquet"], "there are no results at .*missing.parquet"),
        (["judge", "text.parquet"], "is not a Parquet file"),
        (["judge", "foreign.parquet"], "no results file of bisect-torch"),
        (["judge", "foreign.parquet", "--rtol", "-1"], "--rtol: '-1' is not a number from zero up"),
        (["envs", "path", "9.9"], "there is no environment of 9.9"),
        (["envs", "remove"], "name the versions to remove, or --all"),
        (["envs"], "COMMAND"),
        (["releases", "--from", "newest"], "'newest' is not a version"),
    ],
)
def test_the_other_commands_refuse_as_clearly(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(folder)
    assert main(words) == 2
    error, *hint = capsys.readouterr().err.splitlines()
    assert re.search(message, error)
    assert all(line.startswith("hint: ") for line in hint)
    assert contents(folder) == before


@pytest.mark.parametrize("name", LOCKS)
def test_a_wrong_lock_or_catalogue_is_refused_in_one_line(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str], tally: Tally
) -> None:
    before = contents(folder)
    with tally("bad input: locks and catalogues"):
        assert main(["envs", "check", "--folder", name]) == 3
        lines = capsys.readouterr().err.splitlines()
        assert lines[0].startswith("error: ")
        assert "a fault of bisect-torch" not in "".join(lines)
        assert all(line.startswith("hint: ") for line in lines[1:])
        assert contents(folder) == before


_FILE = {"filename": "torch-2.5.0-py3-none-any.whl", "url": "torch.whl", "hashes": {"sha256": "ab"}}
ANSWERS: dict[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "a number": b"5",
    "a list": b"[]",
    "an empty object": b"{}",
    "files that are a number": b'{"meta": {"api-version": "1.1"}, "name": "torch", "files": 3}',
    "files that are numbers": b'{"meta": {"api-version": "1.1"}, "name": "torch", "files": [1]}',
    "a version of tomorrow": b'{"meta": {"api-version": "9.0"}, "name": "torch", "files": []}',
    "nested deeply": b"[" * 100_000,
    "no text": b"\xff\xfe\x00",
    "a page": b"<html><body>Login</body></html>",
    **{
        f"{key} that is {value!r:.20}": json.dumps(
            {"meta": {"api-version": "1.1"}, "name": "torch", "files": [{**_FILE, key: value}]}
        ).encode()
        for key, value in [
            ("filename", 5),
            ("filename", None),
            ("filename", "torch"),
            ("filename", "torch-not.a.version-py3-none-any.whl"),
            ("filename", "../../torch-2.5.0-py3-none-any.whl"),
            ("filename", "torch-2.5.0-py3-none-any.whl\x1b[31m\n"),
            ("url", None),
            ("url", "http://["),
            ("hashes", None),
            ("hashes", {"sha256": 5}),
            ("size", "big"),
            ("size", -1),
            ("upload-time", "yesterday"),
            ("requires-python", "=="),
            ("requires-python", 3),
            ("yanked", 5),
        ]
    },
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_wrong_answer_of_an_index_is_refused_in_one_line(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    """Or what is wrong in it is passed over: the other fields of a file say enough."""
    before = contents(folder)
    with FakeIndex(releases({"2.5.0": ""}), form="json") as wrong, tally("bad input: answers of an index"):
        wrong.fault("/simple/torch/", Fault(body=ANSWERS[name]))
        monkeypatch.setenv("UV_DEFAULT_INDEX", wrong.url)
        code = main(["run", "--python", PYTHON, "ok.py", "--dry-run"])
        out, err = capsys.readouterr()
        assert code in (0, 2, 3)
        assert "a fault of bisect-torch" not in err
        if code:
            error, *hint = err.splitlines()
            assert error.startswith("error: ")
            assert all(line.startswith("hint: ") for line in hint)
            print(error)
            assert out == ""
        assert "\x1b" not in out + err
        assert environments(folder) == []
    assert contents(folder) == before


def silently(words: list[str]) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        return main(words), err.getvalue()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=14))
def test_no_text_is_taken_for_a_version_that_is_none(folder: Path, tally: Tally, text: str) -> None:
    assume(
        not {part.strip().removeprefix("v") for part in text.split(",")}
        & {"2.4.1", "2.5.0", "2.6.0", "nightly", "test"}
    )
    with tally("bad input: version strings"):
        code, err = silently(["run", "--python", PYTHON, "ok.py", "--dry-run", f"--versions={text}"])
        assert code == 2, err
        error, *hint = err.splitlines()
        assert error.startswith("error: ")
        assert "a fault of bisect-torch" not in err
        assert len(hint) <= 1
    assert environments(folder) == []


WORDS = (
    "ok.py", "syntax.py", "missing.py", "empty", "--from", "--to", "--versions", "--exclude", "2.4.1", "2.6.0", "9.9",
    "--device", "cpu", "--repeat", "3", "-1", "nan", "--timeout", "1e9", "--jobs", "--max-memory", "1 GiB", "-o",
    "x.parquet", "text.parquet", "-k", "fine", "and", "--fresh", "--isolation", "fork", "--", "--pytest", "--suite",
    "default", "--with", "numpy", "!!", "--seed", "--quiet", "--json", "--offline", "--python", "3.11", "/nowhere", "",
    "--torch-backend", "cu128", "--threads", "--bad-if-output", "(", "--thorough", "é\ud800", "\x1b[31m", "--max-disk",
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(WORDS), max_size=7))
def test_no_command_line_ends_unexpectedly(folder: Path, tally: Tally, words: list[str]) -> None:
    before = contents(folder)
    with tally("bad input: command lines of chance"):
        code, err = silently(["run", "--dry-run", *words])
        assert code in (0, 2, 3), err
        assert "a fault of bisect-torch" not in err
        assert "Traceback" not in err
        if code:
            error, *hint = [line for line in err.splitlines() if not line.startswith("note: ")]
            assert error.startswith("error: ")
            assert len(hint) <= 1
    assert contents(folder) == before
    assert environments(folder) == []

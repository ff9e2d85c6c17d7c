"""``run --pytest``, end to end: real uv, a real pytest, small fake torch wheels."""

from __future__ import annotations

import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bisect_torch.cases import PYTEST_REQUIREMENTS
from bisect_torch.results import ResultsFile
from tests.support.index import FakeIndex
from tests.support.project import commit_all, editable_project
from tests.support.pytest_wheels import pytest_wheels
from tests.support.tool import Answer, Tool
from tests.support.wheels import fake_torch, releases

OLD = "newer = True\ndef answer(): return 42"
NEW = "def answer(): return 41"

TESTS = """
import os
import torch

def test_answer():
    assert torch.answer() == 42

def test_dies():
    if torch.answer() != 42:
        os.abort()

def test_goes_on():
    assert torch.answer()

if not hasattr(torch, "newer"):
    def test_of_the_newer():
        assert torch.answer() == 41
"""


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    with ExitStack() as stack:
        pinned = PYTEST_REQUIREMENTS[0].partition(";")[0].partition("==")[2]
        wheels = [*releases({"2.1.0": OLD, "2.2.0": NEW}), *pytest_wheels(pinned)]
        project = tmp_path / "project"
        project.mkdir()
        yield Tool(project, stack.enter_context(FakeIndex(wheels)), store=tmp_path / "store")


def write(tool: Tool, name: str, text: str) -> None:
    (tool.folder / name).parent.mkdir(exist_ok=True)
    tool.write(name, text)


def cells(answer: Answer) -> dict[str, list[str]]:
    return {
        series["instance"]: [cell["signature"] for cell in series["cells"].values()] for series in answer.data["series"]
    }


def test_each_test_is_a_row_and_the_same_line_again_runs_nothing(tool: Tool) -> None:
    write(tool, "tests/test_all.py", TESTS)
    write(tool, "tests/test_gone.py", "from torch import newer\n\ndef test_gone(): pass\n")
    answer = tool.run("--json", "--timeout", "20", "--pytest", "tests")
    assert cells(answer) == {
        "test_answer": ["ok", "wrong"],
        "test_dies": ["ok", "crash:SIGABRT"],
        "test_goes_on": ["ok", "ok"],
        "test_of_the_newer": ["skip", "ok"],
        "test_gone": ["ok", "broken"],
        "(collection)": ["skip", "broken"],
    }
    assert answer.code == 1
    assert answer.sentences() == [
        "test_answer fails an assertion from 2.2.0 on (last good 2.1.0).",
        "test_dies crashes with SIGABRT from 2.2.0 on (last good 2.1.0).",
    ]
    assert "pytest==" in answer.stderr
    assert {each["reason"] for each in answer.data["unjudged"]} >= {
        "pytest does not collect it on this build",
        "pytest cannot collect it: ImportError: cannot import name 'newer' from 'torch'",
    }
    rows = pq.read_table(tool.folder / "results.parquet").to_pylist()
    ends = [row for row in rows if row["instance"] == "test_answer" and row["build"] == "2.2.0"]
    assert sorted(row["isolation"] for row in ends) == ["process", "process", "session"]
    assert len({row["worker"] for row in ends}) == 3
    assert not list(tool.folder.glob("tests/__pycache__"))
    runs_only_the_test_that_a_report_is_about(tool, "test_dies")
    # What was broken is tried again; all else is known, although the results lie in the project.
    again = tool.run("--json", "--timeout", "20", "--pytest", "tests")
    assert cells(again) == cells(answer)
    assert len(ResultsFile.open(tool.folder / "results.parquet").runs) == 2
    tried = pq.read_table(tool.folder / "results.parquet").to_pylist()[len(rows) :]
    assert {row["instance"] for row in tried} == {"test_gone", "(collection)"}


def runs_only_the_test_that_a_report_is_about(tool: Tool, name: str) -> None:
    report = tool.call(tool.words("report", "results.parquet", name))
    (line,) = [line for line in report.stdout.splitlines() if line.startswith("bisect-torch run")]
    assert line.endswith(f" --pytest tests/test_all.py::{name}")
    again = tool.run("-o", "again.parquet", "--json", *shlex.split(line)[2:])
    assert cells(again) == {name: ["ok", "crash:SIGABRT"]}, again.stderr
    (tool.folder / "again.parquet").unlink()


def test_an_editable_project_s_commit_is_part_of_what_is_known(tool: Tool) -> None:
    project = editable_project(tool.folder)
    (project / "mine.py").write_text("import torch\n\ndef twice(): return 2 * torch.answer()\n")
    (project / "test_mine.py").write_text("import mine\n\ndef test_twice(): assert mine.twice() == 82\n")
    commit = commit_all(project)
    words = ["--versions", "2.2.0", "--with-editable", ".", "--json", "--pytest", "-q", "test_mine.py"]
    answer = tool.run(*words)
    assert (answer.code, cells(answer)) == (0, {"test_twice": ["ok"]})
    assert f"{project.name} at {commit[:12]}" in answer.stderr
    (run,) = ResultsFile.open(project / "results.parquet").runs
    assert run["projects"] == [{"name": project.name, "commit": commit, "dirty": False, "files": None}]
    (project / "mine.py").write_text("def twice(): return 84\n")
    changed = tool.run(*words)
    assert (changed.code, cells(changed)) == (1, {"test_twice": ["wrong"]})
    latest = ResultsFile.open(project / "results.parquet").runs[-1]
    assert [(each["commit"], each["dirty"]) for each in latest["projects"]] == [(commit, True)]


def test_what_the_tool_itself_writes_leaves_the_tests_known_and_attribute_finds_them(tool: Tool) -> None:
    project = editable_project(tool.folder)
    (project / "tests").mkdir()
    (project / "tests" / "test_mine.py").write_text("import torch\n\ndef test_it(): assert torch.answer() == 42\n")
    commit_all(project)

    def run(out: str) -> str:
        words = tool.run_words("--with-editable", ".", "--profile", "trace.json", "--pytest", "tests")
        with (project / out).open("w") as stdout, (project / f"{out}.err").open("w") as stderr:
            done = subprocess.run(words, cwd=project, env=tool.variables(), stdout=stdout, stderr=stderr, timeout=300)
        assert done.returncode == 1
        return (project / f"{out}.err").read_text()

    def runs() -> int:
        return len(ResultsFile.open(project / "results.parquet").runs)

    run("out1.txt")
    for out in ("out1.txt", "out2.txt", "out3.txt"):
        assert "again" not in run(out)
        assert runs() == 1
    attribute = tool.words("attribute", "results.parquet", "test_it", "--json", "--store", str(tool.store))
    assert tool.call(attribute).data["instance"] == "test_it"
    # Anything else may be what a test reads.
    (project / "more.txt").write_text("data")
    refused = tool.call(attribute)
    assert refused.code == 2
    assert "test_mine.py is as it was when it ran, but project is not as it was: more.txt is new" in refused.stderr
    assert "the tests run again: project is not as it was: more.txt is new" in run("out4.txt")
    assert runs() > 1


@pytest.mark.parametrize(
    ("words", "told", "hint"),
    [
        (["run", "--pytest", "tests/absent.py"], "tests/absent.py: no such file", ""),
        (["run", "--pytest", "-n", "4"], "could not be blamed", "--jobs"),
        (["run", "--bad-if-output", "x", "--pytest"], "--bad-if-output", ""),
        (["releases", "--pytest", "tests"], "releases takes no --pytest", "run --pytest"),
    ],
    ids=["absent", "xdist", "output", "command"],
)
def test_what_cannot_be_a_suite_is_refused_at_once(tool: Tool, words: list[str], told: str, hint: str) -> None:
    answer = tool.call(tool.words(*words))
    assert answer.code == 2
    assert told in answer.stderr
    assert hint in answer.stderr


@pytest.mark.slow
def test_a_search_over_a_suite_finds_each_test_s_boundary(tool: Tool) -> None:
    tool.index.add(
        fake_torch("2.3.0", NEW, upload_time="2024-12-01"), fake_torch("2.4.0", NEW, upload_time="2025-01-01")
    )
    write(tool, "tests/test_all.py", TESTS)
    write(tool, "tests/test_gone.py", "from torch import newer\n\ndef test_gone(): pass\n")
    ends = ["--good", "2.1.0", "--bad", "2.4.0", "--json", "--pytest", "tests", "-k", "answer or newer or gone"]
    answer = tool.call(["bisect" if word == "run" else word for word in tool.run_words(*ends)])
    assert answer.code == 1
    assert cells(answer)["test_answer"][:2] == ["ok", "wrong"]
    assert "test_answer fails an assertion from 2.2.0 on (last good 2.1.0)." in answer.sentences()

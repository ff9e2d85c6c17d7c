"""What a worker tells of a project's pytest suite: one answer for each test, whatever the others do."""

from __future__ import annotations

import contextlib
import json
import re
import venv
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from bisect_torch import analysis
from bisect_torch.cases import collection_of, read_suite
from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.plan import CellRun
from bisect_torch.engine.sessions import run_tests
from bisect_torch.engine.worker_process import WorkerProcess
from bisect_torch.model import Build, BuildKind, Isolation, Observation
from tests.support.pytest_wheels import pytest_wheels
from tests.worker.support import StartWorker

BUILD = Build(BuildKind.LOCAL, "0.0", "local")


@pytest.fixture(scope="session")
def with_pytest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with pytest and a torch that has a testing module."""
    folder = tmp_path_factory.mktemp("suite") / "env"
    venv.create(folder, symlinks=True, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for wheel in pytest_wheels():
        zipfile.ZipFile(BytesIO(wheel.content)).extractall(site)
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("def misuse():\n    assert False, 'misuse'\n")
    (site / "torch" / "testing.py").write_text("def fail():\n    raise AssertionError('not close')\n")
    return folder / "bin" / "python"


class Project:
    """A project with tests, asked and run through a worker."""

    def __init__(self, folder: Path, start: Callable[[], WorkerProcess]) -> None:
        self.folder = folder
        self.start = start
        self.notes: list[str] = []
        self.sessions = 0
        self.facts: list[tuple[str, Mapping[str, Any]]] = []

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}

    def collect(self, *words: str) -> list[dict[str, Any]]:
        with self.start() as worker:
            return worker.collect(CellRequest(self.folder, "pytest", "", argv=words, cwd=self.folder))

    def run(
        self, *words: str, isolation: Isolation = Isolation.SESSION, timeout_s: float = 30.0, only: str = ""
    ) -> dict[str, str]:
        """Test to signature, of all tests that pytest collects for the words."""
        collection = collection_of(read_suite(words, self.folder), self.collect(*words))
        chosen = [test for test in collection.tests if only in test.name]
        runs = [CellRun(test, BUILD, "cpu", 0, isolation) for test in chosen]

        def request(runs: Any) -> CellRequest:
            self.sessions += 1
            tests = tuple((str(run.instance.case.file.path), run.instance.name) for run in runs)
            return CellRequest(
                self.folder, "pytest", "", argv=words, tests=tests, cwd=self.folder, isolation=isolation,
                timeout_s=timeout_s, memory_bytes=2**30,
            )  # fmt: skip

        run_tests(
            runs,
            start=lambda: contextlib.nullcontext(self.start()),
            request=request,
            began=lambda run: None,
            ended=lambda run, facts: self.facts.append((run.instance.name, facts)),
            note=self.notes.append,
            stopped=lambda: False,
        )
        assert sorted(name for name, _ in self.facts) == sorted(run.instance.name for run in runs)
        return {name: analysis.judge(_observation(facts)).signature for name, facts in self.facts}

    def of(self, name: str) -> Mapping[str, Any]:
        return dict(self.facts)[name]


def _observation(facts: Mapping[str, Any]) -> Observation:
    known = dict.fromkeys(
        ("key", "run_id", "build", "build_name", "build_kind", "case_file", "case_file_hash", "case", "instance"), ""
    )
    return Observation(**{**known, "repeat": 0, "device": "cpu", **facts})


@pytest.fixture
def project(start: StartWorker, with_pytest: Path, tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder, lambda: start("none", python=with_pytest))


RULES = {
    "test_passes": "ok",
    "test_asserts": "wrong",
    "test_asserts_in_a_helper": "wrong",
    "test_torch_testing": "wrong",
    "test_fails_by_pytest": "wrong",
    "test_nothing_raised": "wrong",
    "test_raises": "error:ValueError",
    "test_torch_itself_asserts": "error:AssertionError",
    "test_the_library_asserts": "error:AssertionError",
    "test_skips": "skip",
    "test_fails_as_expected": "ok",
    "test_passes_unexpectedly": "ok",
    "test_passes_though_strictly_expected_to_fail": "wrong",
    "test_setup_raises": "error:RuntimeError",
    "test_setup_asserts": "wrong",
    "test_teardown_raises": "error:RuntimeError",
    "test_without_module": "broken",
    "test_without_memory": "oom",
    "test_exits_0": "error:SystemExit(0)",
    "test_exits_125": "error:SystemExit(125)",
    "test_stops_pytest": "broken",
    "test_parameters[one]": "ok",
    "test_parameters[a,b=c::d]": "wrong",
    "Test::test_method": "ok",
    "TestCase::test_of_unittest": "wrong",
    "test_aborts": "crash:SIGABRT",
    "test_leaves_with_0": "crash:exit 0",
    "test_leaves_with_125": "crash:exit 125",
    "test_hangs": "timeout",
    "test_last": "ok",
}

SUITE = """
import os, signal, sys, time, unittest, warnings
import pytest, torch, torch.testing
import library
from helpers import close

@pytest.fixture
def broken_setup(): raise RuntimeError("setup")
@pytest.fixture
def asserting_setup(): assert 1 == 2
@pytest.fixture
def broken_teardown():
    yield
    raise RuntimeError("teardown")

def test_passes():
    print("out" * 100_000)
    warnings.warn("careful")
def test_asserts(): assert 41 == 42
def test_asserts_in_a_helper(): close()
def test_torch_testing(): torch.testing.fail()
def test_fails_by_pytest(): pytest.fail("no")
def test_nothing_raised():
    with pytest.raises(ValueError): pass
def test_raises(): raise ValueError("no")
def test_torch_itself_asserts(): torch.misuse()
def test_the_library_asserts(): library.misuse()
def test_skips(): pytest.skip("not here")
@pytest.mark.xfail
def test_fails_as_expected(): assert 0
@pytest.mark.xfail
def test_passes_unexpectedly(): pass
@pytest.mark.xfail(strict=True)
def test_passes_though_strictly_expected_to_fail(): pass
def test_setup_raises(broken_setup): pass
def test_setup_asserts(asserting_setup): pass
def test_teardown_raises(broken_teardown): pass
def test_without_module(): import nothing_there
def test_without_memory(): raise MemoryError
def test_exits_0(): sys.exit(0)
def test_exits_125(): sys.exit(125)
def test_stops_pytest(): pytest.exit("enough")
@pytest.mark.parametrize("n", [1, 2], ids=["one", "a,b=c::d"])
def test_parameters(n): assert n == 1
class Test:
    def test_method(self): pass
class TestCase(unittest.TestCase):
    def test_of_unittest(self): self.assertEqual(1, 2)
def test_aborts(): os.abort()
def test_leaves_with_0(): os._exit(0)
def test_leaves_with_125(): os._exit(125)
def test_hangs():
    while True: time.sleep(1)
def test_last(): pass
"""


def test_every_test_has_its_own_answer_whatever_the_others_do(project: Project) -> None:
    project.write("tests/unit/test_rules.py", SUITE)
    project.write("tests/helpers.py", "def close():\n    assert 1 == 2\n")
    project.write("tests/conftest.py", "import os, sys\nsys.path.append(os.path.dirname(__file__))\n")
    project.write("library.py", "def misuse():\n    assert False\n")
    project.write("pytest.ini", "[pytest]\npythonpath = .\naddopts = -x --lf\n")
    before = project.files()
    assert project.run("tests", timeout_s=2.0) == RULES
    # The first, and one after each of those that ended pytest or its process.
    assert project.sessions == 6
    assert project.notes == []
    assert project.files() == before
    assert len(project.of("test_passes")["stdout_tail"]) < 20_000
    assert json.loads(project.of("test_passes")["warnings"]) == ["UserWarning: careful"]
    words = {name: json.loads(facts.get("measurements", "{}")).get("pytest") for name, facts in project.facts}
    assert words["test_fails_as_expected"] == "xfailed"
    assert words["test_passes_unexpectedly"] == "xpassed"
    assert words["test_setup_raises"] == "error in setup"
    assert words["test_teardown_raises"] == "error in teardown"
    assert words["test_asserts"] == "failed"
    assert project.of("test_skips")["reason"] == "not here"
    assert "test_hangs" in project.of("test_hangs")["stack"]
    assert project.of("test_aborts")["frame"] == "test_rules:test_aborts"
    assert "assert 41 == 42" in project.of("test_asserts")["traceback"]


def test_a_test_alone_in_its_process_answers_for_the_exit_too(project: Project) -> None:
    project.write(
        "test_exit.py", "import atexit, os\ndef test_it(): atexit.register(os.abort)\ndef test_other(): pass\n"
    )
    alone = project.run(only="it", isolation=Isolation.PROCESS)
    assert (alone, project.of("test_it")["phase"]) == ({"test_it": "crash:SIGABRT"}, "exit")
    project.facts.clear()
    assert project.run() == {"test_it": "ok", "test_other": "ok"}
    assert project.notes == [
        "the process of 2 tests did not leave as it should, after all of them had ended: SIGABRT",
    ]


def test_only_files_with_a_wanted_test_are_imported(project: Project) -> None:
    project.write("test_a.py", "def test_a(): pass\n")
    project.write("test_b.py", "import os\nif os.environ.get('SAID'): os.abort()\ndef test_b(): pass\n")
    rows = project.collect()
    assert [(Path(row["file"]).name, row["test"], row["line"]) for row in rows] == [
        ("test_a.py", "test_a", 1),
        ("test_b.py", "test_b", 3),
    ]
    project.write("test_b.py", "import os\nos.abort()\n")
    request = CellRequest(
        project.folder, "pytest", "", tests=((str(project.folder / "test_a.py"), "test_a"),), cwd=project.folder
    )
    said: list[dict[str, Any]] = []
    with project.start() as worker:
        end = worker.session(request, said.append)
    assert (end["blamed"], end["at_exit"]) == (None, None)
    assert [message["facts"]["outcome"] for message in said if "facts" in message] == ["returned"]


def test_what_cannot_be_collected_is_said_file_by_file(project: Project) -> None:
    project.write("tests/test_fine.py", "def test_fine(): pass\n")
    project.write("tests/test_old.py", "from os import not_there_yet\ndef test_it(): pass\n")
    project.write("tests/test_syntax.py", "def test_it(:\n")
    project.write("tests/test_skip.py", "import pytest\npytest.importorskip('nothing_there')\n")
    rows = project.collect("tests")
    assert [row["test"] for row in rows if "test" in row] == ["test_fine"]
    said = {Path(row["problem"]).name: (row["outcome"], row["reason"]) for row in rows if "problem" in row}
    assert said["test_old.py"] == ("environment_broken", "ImportError: cannot import name 'not_there_yet' from 'os'")
    assert said["test_syntax.py"][1].startswith("SyntaxError")
    assert said["test_skip.py"] == ("skipped", "could not import 'nothing_there': No module named 'nothing_there'")


def test_a_script_that_leaves_when_it_is_imported_says_why_and_the_others_go_on(project: Project) -> None:
    project.write("test_fine.py", "def test_fine(): pass\n")
    project.write("test_main.py", "import unittest\nclass T(unittest.TestCase):\n    pass\nunittest.main()\n")
    project.write("test_exit.py", "import sys\nsys.exit('unittest.main')\n")
    rows = project.collect()
    assert [row["test"] for row in rows if "test" in row] == ["test_fine"]
    under = 'while it is imported: put that under if __name__ == "__main__"'
    assert {Path(row["problem"]).name: (row["outcome"], row["reason"]) for row in rows if "problem" in row} == {
        "test_main.py": ("environment_broken", f"it calls unittest.main() {under}"),
        "test_exit.py": ("environment_broken", f"it leaves Python {under}"),
    }


@pytest.mark.parametrize(
    ("files", "words", "reason"),
    [
        ({"conftest.py": "import nothing_there\n"}, [], "No module named 'nothing_there'"),
        ({}, ["--no-such-option"], r"usage error\): .*no-such-option"),
        ({}, [], "no test collected"),
        ({"pytest.ini": "[pytest]\nminversion = 99\n"}, [], "usage error"),
        ({"test_crash.py": "import os\nos.abort()\n"}, [], "died while pytest collected the tests: SIGABRT"),
    ],
    ids=["conftest", "usage", "nothing", "setting", "crash"],
)
def test_a_suite_that_pytest_cannot_begin_is_broken(
    project: Project, files: dict[str, str], words: list[str], reason: str
) -> None:
    for name, text in files.items():
        project.write(name, text)
    (row,) = project.collect(*words)
    assert (row["problem"], row["outcome"]) == ("", "environment_broken")
    assert re.search(reason, row["reason"])


def test_without_pytest_the_environment_is_broken(start: StartWorker, interpreter: Path, tmp_path: Path) -> None:
    with start("none", python=interpreter) as worker:
        (row,) = worker.collect(CellRequest(tmp_path, "pytest", "", cwd=tmp_path))
    assert (row["outcome"], row["reason"]) == ("environment_broken", "No module named 'pytest'")

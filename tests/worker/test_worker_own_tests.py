"""A script that runs tests is judged by what they say, not by the bare status with which these leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bisect_torch.analysis import judge
from bisect_torch.engine.worker_process import WorkerProcess
from bisect_torch.model import ASSERTION, UNEXPECTED_SUCCESS, Judgement, Observation
from tests.worker.support import StartWorker
from tests.worker.test_worker_scripts import run, script

UNITTEST = """\
import unittest
class T(unittest.TestCase):
    def test_a(self): {}
    def test_b(self): {}
    def test_c(self): self.skipTest('no such device')
{}
"""
MAIN = "unittest.main()"


@pytest.fixture
def worker(start: StartWorker) -> WorkerProcess:
    return start()


def judged(facts: dict[str, object]) -> Judgement:
    known = {name: None for name in ("key", "run_id", "build", "build_name", "build_kind", "case_file_hash", "case")}
    return judge(Observation(**{**known, "case_file": "t.py", "instance": "t", "repeat": 0, **facts}))  # type: ignore[arg-type]


def signature(facts: dict[str, object]) -> str:
    return judged(facts).signature


@pytest.mark.parametrize(
    ("first", "second", "end", "expected"),
    [
        ("pass", "pass", MAIN, "ok"),
        ("self.assertEqual(1, 2)", "pass", MAIN, "wrong"),
        ("raise KeyError('x')", "assert False", MAIN, "error:KeyError"),
        ("import module_not_there", "pass", MAIN, "broken"),
        ("self.skipTest('x')", "self.skipTest('x')", MAIN, "skip"),
        ("self.skipTest('x')", "pass", MAIN, "ok"),
        ("pass", "pass", "unittest.main(argv=['x', 'T.test_c'])", "skip"),
        ("\n        with self.subTest(n=1): assert 0", "pass", MAIN, "wrong"),
        ("assert False", "pass", "import sys; unittest.main(exit=False); sys.exit(125)", "skip"),
        ("pass", "pass", "sys = __import__('sys'); sys.exit(3)", "error:exit 3"),
    ],
)
def test_the_first_test_that_fails_decides(
    worker: WorkerProcess, tmp_path: Path, first: str, second: str, end: str, expected: str
) -> None:
    facts = run(worker, script(tmp_path, UNITTEST.format(first, second, end)))
    assert signature(facts) == expected, facts


def test_it_is_told_with_its_message_its_frame_and_the_names_of_all(worker: WorkerProcess, tmp_path: Path) -> None:
    text = UNITTEST.format("self.assertEqual(1, 2)", "raise KeyError('x')", MAIN)
    facts = run(worker, script(tmp_path, text))
    assert (facts["message"], facts["frame"], facts["exit_code"]) == ("1 != 2", "repro:test_a", 1)
    assert "in test_a" in str(facts["traceback"])
    assert json.loads(str(facts["measurements"])) == {"failed_tests": ["__main__.T.test_a", "__main__.T.test_b"]}


def test_tests_that_skip_beside_others_are_named_with_their_reasons(worker: WorkerProcess, tmp_path: Path) -> None:
    facts = run(worker, script(tmp_path, UNITTEST.format("self.skipTest('not for 2.7')", "pass", MAIN)))
    skipped = [["__main__.T.test_a", "not for 2.7"], ["__main__.T.test_c", "no such device"]]
    assert json.loads(str(facts["measurements"])) == {"skipped_tests": skipped}


@pytest.mark.parametrize(
    ("other", "end", "expected"),
    [
        ("pass", MAIN, ("error:exit 1", UNEXPECTED_SUCCESS)),
        ("self.assertEqual(1, 2)", MAIN, ("wrong", ASSERTION)),
        ("pass", "unittest.main(exit=False)", ("ok", "")),
        ("pass", "import sys; unittest.main(exit=False); sys.exit(125)", ("skip", "")),
    ],
)
def test_a_test_that_is_expected_to_fail_and_passes_is_told_where_nothing_else_failed(
    worker: WorkerProcess, tmp_path: Path, other: str, end: str, expected: tuple[str, str]
) -> None:
    text = UNITTEST.format("pass", other, end).replace(
        "    def test_a", "    @unittest.expectedFailure\n    def test_a"
    )
    found = judged(run(worker, script(tmp_path, text)))
    assert (found.signature, found.failure) == expected


def test_a_script_without_any_test_was_not_judged(worker: WorkerProcess, tmp_path: Path) -> None:
    facts = run(worker, script(tmp_path, "import unittest\nunittest.main()\n"))
    assert (facts["outcome"], facts["reason"]) == ("skipped", "it ran no test")


def test_a_failed_test_at_which_the_script_does_not_look_is_noted(worker: WorkerProcess, tmp_path: Path) -> None:
    text = UNITTEST.format("self.assertEqual(1, 2)", "pass", "unittest.main(exit=False)")
    facts = run(worker, script(tmp_path, text))
    assert (facts["outcome"], facts["warnings"]) == ("returned", '["ignored in a test: AssertionError: 1 != 2"]')


@pytest.fixture
def with_pytest(tmp_path: Path) -> Path:
    """A folder in which scripts find the pytest that runs this test."""
    packages = Path(pytest.__file__).parents[1]
    for pattern in (
        "pytest",
        "_pytest",
        "py.py",
        "pluggy*",
        "iniconfig",
        "packaging",
        "pygments",
        "exceptiongroup",
        "tomli",
    ):
        for package in packages.glob(pattern):
            (tmp_path / package.name).symlink_to(package)
    return tmp_path


PYTEST = "def test_a(): assert 1 == 2\ndef test_b(): raise KeyError\nif __name__ == '__main__':\n    "


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("sys.exit(pytest.main([__file__, '-p', 'no:cacheprovider']))", "wrong"),
        ("raise SystemExit(pytest.main([__file__, '-k', 'test_b', '-p', 'no:cacheprovider']))", "error:KeyError"),
        ("sys.exit(pytest.main([__file__, '-k', 'nothing', '-p', 'no:cacheprovider']))", "skip"),
        ("pytest.main([__file__, '-p', 'no:cacheprovider'])", "ok"),
    ],
)
def test_pytest_in_a_script(worker: WorkerProcess, with_pytest: Path, end: str, expected: str) -> None:
    facts = run(worker, script(with_pytest, f"import sys, pytest\n{PYTEST}{end}\n"))
    assert signature(facts) == expected, facts
    assert ("ignored in a test: AssertionError: assert 1 == 2" in str(facts["warnings"])) is (expected == "ok")

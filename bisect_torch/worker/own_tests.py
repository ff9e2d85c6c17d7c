"""What became of the tests that a script runs itself: with unittest (also by torch's ``run_tests`` or absl) or pytest.

These end the process with a bare status. What the cell is judged by is the exception of the first test that failed, as
if the script had raised it; a script whose tests all skip does not apply here.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any, Callable, Dict, List, Optional, Sequence

from bisect_torch.worker import outcome, recording
from bisect_torch.worker.ignored import Ignored

_NO_TEST_RAN = 5
"""With which pytest leaves, and unittest from Python 3.12 on, where there is no test."""

UNEXPECTED = "a test that is expected to fail passes"
"""Why the script leaves with a status, where no test of it raised anything."""

_MOST_NAMES = 50
_LONGEST_REASON = 500
_LONGEST_NAMED = 100
"""Of a reason that is kept for each skipped test."""

_UNITTEST = re.compile(rb"\bunittest\b|\babsltest\b|\brun_tests\b|\bTestCase\b")
_PYTEST = re.compile(rb"\bpytest\b")


class OwnTests:
    """Takes note of each test that ends.

    Args:
        path: The script.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._began = False
        self._passed = 0
        self._skipped: Dict[str, str] = {}
        self._failed: List[str] = []
        self._unexpected: List[str] = []
        self._raised: Optional[BaseException] = None

    def watch(self, source: bytes) -> None:
        """Where the text of the script names one of them: from now on. They are loaded here, as the script will do."""
        if _UNITTEST.search(source):
            self._watch_unittest()
        if _PYTEST.search(source):
            with contextlib.suppress(ImportError):  # which the script will meet itself
                self._watch_pytest()

    def facts(self, status: Optional[int], passed_over: Ignored) -> Dict[str, Any]:
        """What is to be recorded beside, or instead of, how the script ended; often nothing.

        Args:
            status: With which it left by ``sys.exit``; None where it came to its end.
            passed_over: Told of a failed test at which the script does not look.
        """
        facts: Dict[str, Any] = {}
        if not self._failed:
            if self._began and not self._passed and status in (0, _NO_TEST_RAN):
                return {"outcome": "skipped", "reason": self._why_none_ran()}
            if self._skipped:
                skipped = [[name, reason[:_LONGEST_NAMED]] for name, reason in self._skipped.items()]
                facts.update(recording.also(skipped_tests=skipped[:_MOST_NAMES]))
            return facts
        facts.update(recording.also(failed_tests=self._failed[:_MOST_NAMES]))
        if self._raised is not None and status == outcome.SKIP_STATUS:
            return facts  # the script has looked, and says that it does not apply
        if self._raised is not None and status:
            facts.update(outcome.facts_of(self._raised, self._path))
        elif status and status != outcome.SKIP_STATUS and set(self._unexpected) == set(self._failed):
            facts["reason"] = UNEXPECTED
        elif self._raised is not None:
            passed_over.note("a test", self._raised)
        return facts

    def _why_none_ran(self) -> str:
        if not self._skipped:
            return "it ran no test"
        return "all of its tests skip: %s" % next(iter(self._skipped.values()))[:_LONGEST_REASON]

    def _fail(self, name: str, raised: Optional[BaseException]) -> None:
        if name not in self._failed:
            self._failed.append(name)
        if self._raised is None:
            self._raised = raised

    # --- unittest

    def _watch_unittest(self) -> None:
        from unittest import TestResult

        def began(*_: Any) -> None:
            self._began = True

        def passed(*_: Any) -> None:
            self._passed += 1

        def skipped(test: Any, reason: str) -> None:
            self._skipped.setdefault(test.id(), str(reason))

        def failed(test: Any, error: Any = (None, None)) -> None:
            self._fail(test.id(), error[1])

        def unexpected(test: Any) -> None:
            self._unexpected.append(test.id())
            failed(test)

        def subtest(_: Any, test: Any, error: Any) -> None:
            if error is not None:
                failed(test, error)

        _after(TestResult, "startTestRun", began)
        _after(TestResult, "addSuccess", passed)
        _after(TestResult, "addExpectedFailure", passed)
        _after(TestResult, "addSkip", skipped)
        _after(TestResult, "addUnexpectedSuccess", unexpected)
        for name in ("addFailure", "addError"):
            _after(TestResult, name, failed)
        _after(TestResult, "addSubTest", subtest)

    # --- pytest, whose hooks these are

    def _watch_pytest(self) -> None:
        import pytest

        main = pytest.main

        @functools.wraps(main)
        def watched(args: Any = None, plugins: Optional[Sequence[Any]] = None) -> Any:
            return main(args, [*(plugins or ()), self])

        pytest.main = watched

    def pytest_sessionstart(self) -> None:
        """pytest's hook."""
        self._began = True

    def pytest_exception_interact(self, node: Any, call: Any) -> None:
        """pytest's hook: a test or a file failed, by something other than a skip."""
        self._fail(node.nodeid, call.excinfo.value)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """pytest's hook: the setup, the call or the teardown of a test has ended."""
        if report.failed:
            self._fail(report.nodeid, None)
        elif report.skipped and not hasattr(report, "wasxfail"):
            told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._skipped.setdefault(report.nodeid, str(told).replace("Skipped: ", "", 1))
        elif report.when == "call":
            self._passed += 1


def _after(kind: type, name: str, note: Callable[..., None]) -> None:
    """Let ``note`` see what a method is called with, once that has done its work."""
    method = getattr(kind, name)

    @functools.wraps(method)
    def noted(self: Any, *arguments: Any) -> Any:
        given = method(self, *arguments)
        note(*arguments)
        return given

    setattr(kind, name, noted)

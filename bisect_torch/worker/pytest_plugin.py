"""What pytest does, as messages: which tests there are, which one runs, and what happened to each.

Imported only where pytest is installed. The facts come from pytest's own hooks, exceptions included, never from text.
"""

from __future__ import annotations

import json
import os
import re
import traceback
from typing import Any, Callable, Dict, Generator, List, Optional, Sequence, Tuple

import pytest

from bisect_torch.worker import circumstances, outcome, recording

Key = Tuple[str, str]
"""Path of the file, and what stands after ``::`` in the node id."""

_LONGEST_OUTPUT = 16 * 1024
_LONGEST_REASON = 500
_PLACE = re.compile(r" \((?:/[^()]*|unknown location)\)$")
_TEST_FOLDERS = ("test", "tests", "testing")


def key_of(node: "pytest.Item") -> Key:
    """What names a test on every build."""
    return str(node.path), node.nodeid.partition("::")[2] or node.name


class Problem:
    """Something that pytest could not collect, or that skips as a whole.

    Args:
        path: The file or folder.
        inside: Class in it, empty for all of it.
        outcome: ``environment_broken`` or ``skipped``.
        reason: In words.
    """

    def __init__(self, path: str, inside: str, outcome: str, reason: str) -> None:
        self.path = path
        self.inside = inside
        self.outcome = outcome
        self.reason = reason

    def covers(self, key: Key) -> bool:
        """Whether a test belongs to what could not be collected."""
        if self.inside:
            return key[0] == self.path and key[1].startswith(self.inside + "::")
        return key[0] == self.path or key[0].startswith(self.path + os.sep)

    def as_row(self) -> Dict[str, Any]:
        """As it travels."""
        return {"problem": self.path, "inside": self.inside, "outcome": self.outcome, "reason": self.reason}


class Collected:
    """Notes which tests there are and what could not be collected. Registered with pytest as a plugin."""

    def __init__(self) -> None:
        self.problems: List[Problem] = []
        self.rows: List[Dict[str, Any]] = []

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_make_collect_report(self, collector: "pytest.Collector") -> Generator[None, Any, None]:
        """pytest's hook."""
        result = yield
        if result.excinfo is not None and issubclass(result.excinfo[0], SystemExit):
            # pytest would end here, and say no more than that. The other files have nothing to do with it.
            reason = _why_it_left(result.excinfo[2])
            result.force_result(pytest.CollectReport(collector.nodeid, "failed", reason, []))
        report = result.get_result()
        if report.outcome == "passed":
            return
        call = getattr(report, "call", None)
        raised = call.excinfo.value if call is not None and call.excinfo is not None else None
        skipped = report.outcome == "skipped"
        inside = collector.nodeid.partition("::")[2]
        reason = _reason(raised, skipped) if raised is not None else str(report.longrepr)[:_LONGEST_REASON]
        self.problems.append(
            Problem(str(collector.path), inside, "skipped" if skipped else "environment_broken", reason)
        )

    def pytest_collection_finish(self, session: "pytest.Session") -> None:
        """pytest's hook: after every other plugin has chosen."""
        seen = set()
        for item in session.items:
            key = key_of(item)
            if key not in seen:
                seen.add(key)
                line = item.location[1]
                self.rows.append({"file": key[0], "test": key[1], "line": 1 if line is None else line + 1})
        self.rows += [problem.as_row() for problem in self.problems]


def _why_it_left(trace: Any) -> str:
    """What to say of a file that leaves Python when it is imported."""
    modules = {frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(trace)}
    does = "calls unittest.main()" if "unittest.main" in modules else "leaves Python"
    return 'it %s while it is imported: put that under if __name__ == "__main__"' % does


def _reason(raised: BaseException, skipped: bool) -> str:
    if skipped:
        return outcome.message_of(raised)[:_LONGEST_REASON]
    root = outcome.root_of(raised)
    lines = outcome.message_of(root).strip().splitlines() or [""]
    # Where a module lies is another place in each environment, and no reason.
    line = _PLACE.sub("", lines[0])
    return ("%s: %s" % (outcome.type_name(root), line))[:_LONGEST_REASON]


class Reporter(Collected):
    """Lets only the wanted tests run, and tells of each when it begins and what became of it.

    Args:
        wanted: The tests; their place in the list is their number in the messages.
        send: Sends a message to the supervisor.
    """

    def __init__(self, wanted: Sequence[Key], send: Callable[[Dict[str, Any]], object]) -> None:
        super().__init__()
        self._numbers = {key: number for number, key in enumerate(wanted)}
        self._send = send
        self._running: Optional[_Running] = None
        self._root = ""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: "pytest.Config") -> None:
        """pytest's hook: files without a wanted test need not be imported."""
        self._root = str(config.rootpath)
        files = list(dict.fromkeys(path for path, _ in self._numbers))
        if all(os.path.exists(path) for path in files):
            config.args = files

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: "pytest.Config", items: List["pytest.Item"]) -> None:
        """pytest's hook."""
        kept: Dict[Key, pytest.Item] = {}
        for item in items:
            if key_of(item) in self._numbers:
                kept.setdefault(key_of(item), item)
        chosen = {id(item) for item in kept.values()}
        left = [item for item in items if id(item) not in chosen]
        if left:
            config.hook.pytest_deselected(items=left)
        items[:] = list(kept.values())
        for key in self._numbers:
            if key not in kept:
                self._tell_missing(key)

    def _tell_missing(self, key: Key) -> None:
        facts = {"outcome": "environment_broken", "phase": "load"}
        facts["reason"] = "pytest did not collect it this time: its id may change from process to process"
        for problem in self.problems:
            if problem.covers(key):
                facts.update(outcome=problem.outcome, reason=problem.reason)
        self._send({"event": "test_ended", "test": self._numbers[key], "facts": facts})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: "pytest.Item") -> Generator[None, Any, None]:
        """pytest's hook: the whole of one test, its fixtures included."""
        number = self._numbers[key_of(item)]
        self._send({"event": "test_began", "test": number})
        self._running = _Running(item, self._root)
        result = yield
        facts = self._running.facts(result.excinfo)
        self._running = None
        self._send({"event": "test_ended", "test": number, "facts": facts})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: "pytest.Item", call: Any) -> Generator[None, Any, None]:
        """pytest's hook: here the exception itself is at hand."""
        result = yield
        report = result.get_result()
        if report.outcome == "failed" and call.excinfo is not None and self._running is not None:
            report.bisect_torch = self._running.facts_of(call.excinfo.value)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        """pytest's hook: the last word on each part of a test, after plugins that run it again."""
        if self._running is not None:
            self._running.take(report)

    def pytest_warning_recorded(self, warning_message: Any, when: str) -> None:
        """pytest's hook."""
        if when == "runtest" and self._running is not None:
            circumstances.note_warning(self._running.warnings, warning_message.category, warning_message.message)


class _Running:
    """The test that is running."""

    def __init__(self, item: "pytest.Item", root: str) -> None:
        recording.forget_records()
        self.warnings: List[str] = []
        self._path = str(item.path)
        self._folder = _folder_of_tests(self._path, root)
        self._failure: Optional[Dict[str, Any]] = None
        self._skipped: Optional[str] = None
        self._word = "passed"
        self._sections: List[Tuple[str, str]] = []
        self._clock = circumstances.Clock()
        self._clock.start()

    def facts_of(self, raised: BaseException) -> Dict[str, Any]:
        """The facts of an exception that failed the test."""
        if isinstance(raised, SystemExit):
            # pytest goes on after it, so that it is an exception like any other, whatever the status.
            name = "SystemExit(%s)" % outcome.exit_status(raised)
            return {"outcome": "raised", "error_type": name, "root_type": name, "message": outcome.message_of(raised)}
        return outcome.facts_of(raised, self._path, folder=self._folder)

    def take(self, report: Any) -> None:
        """One part of the test has ended: setup, call or teardown, or a subtest."""
        self._sections = list(report.sections) or self._sections
        expected = hasattr(report, "wasxfail")
        if report.outcome == "failed" and self._failure is None:
            self._word = "failed" if report.when == "call" else "error in %s" % report.when
            self._failure = getattr(report, "bisect_torch", None) or _failed_without_exception(report)
        elif report.outcome == "skipped" and expected:
            self._word = "xfailed"
        elif report.outcome == "skipped":
            self._skipped = _skip_reason(report)
        elif report.outcome == "passed" and expected and report.when == "call":
            self._word = "xpassed"

    def facts(self, stopped: Any) -> Dict[str, Any]:
        """What is known of it at its end.

        Args:
            stopped: What left pytest's protocol, as ``sys.exc_info`` gives it; None as a rule.
        """
        facts: Dict[str, Any] = {"phase": "run", "warnings": json.dumps(self.warnings)}
        self._clock.stop(facts)
        if stopped is not None:
            reason = "it stopped pytest: %s: %s" % (stopped[0].__name__, outcome.message_of(stopped[1]))
            facts.update(outcome="environment_broken", reason=reason[:_LONGEST_REASON])
        elif self._failure is not None:
            facts.update(self._failure)
        elif self._skipped is not None:
            facts.update(outcome="skipped", reason=self._skipped)
        else:
            facts.update(outcome="returned", phase=None)
        own = json.loads(recording.recorded() or "{}")
        facts["measurements"] = json.dumps({**own, "pytest": "skipped" if self._skipped else self._word})
        for name in ("stdout", "stderr"):
            text = "".join(content for title, content in self._sections if title.startswith("Captured %s" % name))
            facts["%s_tail" % name] = outcome.bounded(text, _LONGEST_OUTPUT)
        return facts


def _folder_of_tests(path: str, root: str) -> str:
    """The outermost folder of that kind around a test file: what lies in it belongs to the tests."""
    found = folder = os.path.dirname(path)
    while folder.startswith(root + os.sep):
        if os.path.basename(folder) in _TEST_FOLDERS:
            found = folder
        folder = os.path.dirname(folder)
    return found


def _failed_without_exception(report: Any) -> Dict[str, Any]:
    """A strict expected failure that passed, failed subtests: pytest's own statement, like ``pytest.fail``."""
    text = outcome.bounded(str(report.longrepr), _LONGEST_OUTPUT)
    return {
        "outcome": "raised",
        "error_type": "Failed",
        "message": text,
        "root_type": "Failed",
        "root_message": text,
        "frame_origin": "pytest",
    }


def _skip_reason(report: Any) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(told).replace("Skipped: ", "", 1)[:_LONGEST_REASON]

"""A pytest session under watch: many tests in one process, each answered for by itself.

The time limit is a test's. When the process dies or hangs, the test that was running is blamed; who asked starts
another session with the rest.
"""

from __future__ import annotations

import os
import signal
from typing import Any, Callable, Dict, List, Optional

from bisect_torch.worker.conclude import conclude
from bisect_torch.worker.ending import Ending
from bisect_torch.worker.output import BoundedOutput
from bisect_torch.worker.supervise import Watch

Tell = Callable[[Dict[str, Any]], None]

_STATUS = {2: "interrupted", 3: "internal error", 4: "usage error", 5: "no test collected"}
_LONGEST_REASON = 500


class SessionWatch(Watch):
    """As :class:`Watch`; also notes which test is running and hands on what the tests' messages say.

    Args:
        tell: Takes ``{"began": n}`` and ``{"ended": n, "facts": …}``; None where tests are only listed.
    """

    def __init__(self, *args: Any, tell: Optional[Tell] = None, **keywords: Any) -> None:
        self._tell = tell
        self.running: Optional[int] = None
        super().__init__(*args, **keywords)

    def _take(self, message: Dict[str, Any]) -> None:
        event = message.get("event")
        if event == "test_began" and self._tell is not None:
            self.running = message["test"]
            self._enter("run")
            self._fresh_output()
            self._tell({"began": self.running})
        elif event == "test_ended" and self._tell is not None:
            self.running = None
            self._enter("run")
            self._tell({"ended": message["test"], "facts": message["facts"]})
        else:
            super()._take(message)

    def _fresh_output(self) -> None:
        """What a test that crashes has written is not to be looked for among the output of those before it."""
        self._ending.stdout, self._ending.stderr = BoundedOutput(), BoundedOutput()
        self._streams[self._child.stdout] = self._ending.stdout
        self._streams[self._child.stderr] = self._ending.stderr


def end_of(request: Dict[str, Any], ending: Ending, running: Optional[int]) -> Dict[str, Any]:
    """How a session ended.

    Returns:
        ``blamed`` (number of a test, or None) with its ``facts``; ``reason`` why tests without an answer have none;
        ``lost``, whether that says nothing about the environment; ``at_exit``, the facts of a process that had told
        everything and then died.
    """
    if running is not None:
        facts = conclude(request, ending)
        if facts["outcome"] == "exited":
            facts["phase"] = "exit"  # a test that leaves the process has ended abnormally, whatever the status
        return {"blamed": running, "facts": facts, "reason": "", "lost": False, "at_exit": None}
    at_exit = None
    if ending.result is not None and (ending.timed_out or ending.status):
        at_exit = conclude(dict(request, kind="pytest"), ending)
    reason = why_ended(request, ending)
    lost = ending.result is None and conclude(request, ending)["outcome"] == "lost"
    return {"blamed": None, "facts": {}, "reason": reason, "lost": lost, "at_exit": at_exit}


def why_ended(request: Dict[str, Any], ending: Ending) -> str:
    """Why pytest did no more than it did, in words."""
    result = ending.result
    if result is not None and result["facts"]:
        return str(result["facts"]["reason"])
    if result is not None:
        status = int(result["status"])
        said = _said(ending.stderr.text()) if status in (3, 4) else ""
        words = "pytest ended with status %d (%s)" % (status, _STATUS.get(status, "tests ran"))
        return "%s%s" % (words, ": %s" % said if said else "")
    if ending.timed_out:
        return "pytest had not collected the tests after %d s" % request["load_timeout_s"]
    facts = conclude(request, ending)
    if facts.get("reason"):
        return str(facts["reason"])
    how = facts.get("signal") or "exit status %s" % facts.get("exit_code")
    where = " in %s" % facts["frame"] if facts.get("frame") else ""
    return "the process died while pytest collected the tests: %s%s" % (how, where)


def _said(text: str) -> str:
    """pytest's own word for it: the last line that it marks as an error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line[2:].strip() for line in lines if line.startswith("E ")]
    marked = marked or [line for line in lines if line.startswith("ERROR: ") or "error: " in line]
    return (marked or lines or [""])[-1][:_LONGEST_REASON]


def rows_of(request: Dict[str, Any], ending: Ending) -> List[Dict[str, Any]]:
    """What there is to run: a row for each test, and for each thing that could not be collected; never empty."""
    result = ending.result
    rows: List[Dict[str, Any]] = list(result["rows"]) if result is not None else []
    # Killed after its last word: what it said then holds, since nothing of it is a verdict.
    whole = result is not None and not result["facts"] and result["status"] in (0, 1, 2, 5) and bool(rows)
    if whole:
        return rows
    killed = os.WIFSIGNALED(ending.status) and os.WTERMSIG(ending.status) == signal.SIGKILL
    outcome = "lost" if result is None and killed and not ending.timed_out else "environment_broken"
    return [{"problem": "", "inside": "", "outcome": outcome, "reason": why_ended(request, ending)}]

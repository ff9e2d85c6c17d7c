"""From what the supervisor and the cell saw to the facts of the observation. Pure.

The exit status outranks the result that was sent before it.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import signal
from typing import Any, Dict

from bisect_torch.worker import ignored
from bisect_torch.worker.ending import Ending
from bisect_torch.worker.outcome import SKIP_STATUS
from bisect_torch.worker.protocol import VERSION

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
"""Signals that users, other programs and the system send, or a script itself; torch dies of none of them by itself."""

_MAY_FOLLOW_A_KILL = ("raised", "exited", "signalled", "timed_out")
"""How a cell may end when the kernel has killed a process on which it waits: a worker of a data loader, a compiler."""

_NO_MODULE = re.compile(r"(?:ModuleNotFoundError|\S*python[\d.]*): No module named '?([\w.]+)'?")
_NO_SCRIPT = re.compile(r"\S*python[\d.]*: can't open file ")
"""What Python itself says where it has nothing to start."""

_LOADS_TORCH = re.compile(r'/torch/__init__\.py", line \d+ in <module>$', re.MULTILINE)
"""A frame of a stack: torch is being imported."""

_CRASH_FRAME = re.compile(r'most recent call first\):\s+File "([^"]+)", line \d+ in (\S+)')


def conclude(request: Dict[str, Any], ending: Ending) -> Dict[str, Any]:
    """The facts of a cell that has ended.

    Args:
        request: As the orchestrator sent it.
    """
    facts: Dict[str, Any] = {}
    if ending.result is not None:
        facts.update(ending.result["facts"])
    facts.update(_how_it_ended(request, ending))
    if ending.kernel_killed and facts["outcome"] in _MAY_FOLLOW_A_KILL:
        reason = "the kernel killed a process for lack of memory while it ran; it then ended so: %s" % facts["outcome"]
        facts.update(outcome="lost", reason=reason)
    if facts["outcome"] in ("returned", "skipped"):
        facts["phase"] = None
    else:
        facts["phase"] = facts.get("phase") or ending.phase
    if ending.stdout.matched or ending.stderr.matched:
        facts["mismatch"] = "output matches %s" % request["bad_if_output"]
    if ending.read:  # of a module that it imported the hash is known without the time
        beside = {**ending.read, **json.loads(facts.get("local_modules", "{}"))}
        facts["local_modules"] = json.dumps(beside, sort_keys=True)
    facts.setdefault("elapsed_s", ending.elapsed_s)
    if ending.peak_bytes:
        facts.setdefault("peak_rss_bytes", ending.peak_bytes)
    stderr = ending.stderr.text()
    passed_over = [*ending.ignored, *ignored.printed(stderr)]
    if passed_over:
        facts["warnings"] = json.dumps(ignored.together(json.loads(facts.get("warnings") or "[]"), passed_over))
    facts.update(
        started_at=_moment(ending.began_ns) if ending.began_ns else None,
        device=request["device"],
        seed=request["seed"],
        stdout_tail=ending.stdout.text(),
        stderr_tail=stderr,
        output_bytes=ending.stdout.total + ending.stderr.total,
        protocol=VERSION,
    )
    return {name: _storable(fact) for name, fact in facts.items() if fact is not None}


def _moment(nanoseconds: int) -> str:
    """ISO 8601, UTC, to the microsecond."""
    found = datetime.datetime.fromtimestamp(nanoseconds // 10**9, datetime.timezone.utc)
    return "%s.%06dZ" % (found.strftime("%Y-%m-%dT%H:%M:%S"), nanoseconds // 1000 % 10**6)


def _storable(fact: Any) -> Any:
    # Paths and messages may hold bytes that are no text; UTF-8 files refuse what stands for them in Python.
    return fact.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(fact, str) else fact


def _how_it_ended(request: Dict[str, Any], ending: Ending) -> Dict[str, Any]:
    if ending.over_memory is not None:
        reason = "it used %d bytes of the %d allowed" % (ending.over_memory, request["memory_bytes"])
        return {"outcome": "out_of_memory", "reason": reason, "phase": ending.phase}
    if ending.timed_out:
        return _timed_out(request, ending)
    if os.WIFSIGNALED(ending.status):
        return _killed(os.WTERMSIG(ending.status), ending)
    status = os.WEXITSTATUS(ending.status)
    if request["kind"] == "command":
        return _command(status, ending)
    if ending.result is None:
        return _left_without_result(status, ending)
    if status != ending.result["exit_status"]:
        return {"outcome": "exited", "exit_code": status, "phase": "exit"}
    return {}


def _timed_out(request: Dict[str, Any], ending: Ending) -> Dict[str, Any]:
    """A script that sets variables imports torch itself, and the time that this takes is no answer of the build."""
    facts: Dict[str, Any] = {"outcome": "timed_out", "phase": ending.phase, "stack": ending.stack or None}
    if ending.phase == "run" and _LOADS_TORCH.search(ending.stack):
        reason = "torch was still being loaded when its %g s were over" % request["timeout_s"]
        facts.update(phase="load", reason=reason)
    elif ending.phase == "load":
        facts["reason"] = "torch and what its file imports were not loaded after %g s" % request["load_timeout_s"]
    return facts


def _killed(number: int, ending: Ending) -> Dict[str, Any]:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "signal %d" % number
    if number == signal.SIGKILL and ending.kernel_killed:
        reason = "the kernel killed it for lack of memory"
        return {"outcome": "out_of_memory", "signal": name, "reason": reason, "phase": ending.phase}
    if number in _FROM_OUTSIDE:
        kernel = "the kernel for lack of memory, " if number == signal.SIGKILL else ""
        reason = "ended by %s, which %ssomebody or the script itself may have sent" % (name, kernel)
        return {"outcome": "lost", "signal": name, "reason": reason, "phase": ending.phase}
    facts = {"outcome": "signalled", "signal": name, "phase": ending.phase}
    match = _CRASH_FRAME.search(ending.stderr.text())
    if match:
        facts["frame"] = "%s:%s" % (os.path.splitext(os.path.basename(match.group(1)))[0], match.group(2))
    return facts


def _command(status: int, ending: Ending) -> Dict[str, Any]:
    if status == 0:
        return {"outcome": "returned", "exit_code": 0}
    if status == SKIP_STATUS:
        return {"outcome": "skipped", "exit_code": status, "reason": "exit status %d" % SKIP_STATUS}
    if status in (126, 127):
        last = ending.stderr.text().strip().splitlines()[-1:] or ["the command cannot be started"]
        reason = "exit status %d: %s" % (status, last[0][:500])
        return {"outcome": "environment_broken", "exit_code": status, "reason": reason, "phase": "load"}
    facts: Dict[str, Any] = {"outcome": "exited", "exit_code": status, "phase": "run"}
    last = ending.stderr.text().strip().splitlines()[-1:]
    if last:
        facts["message"] = last[0][:500]
        # What Python prints when an import fails: the environment lacks something, as for a script.
        missing = _NO_MODULE.match(last[0])
        if missing:
            facts["missing_module"] = missing.group(1)
        elif status == 2 and _NO_SCRIPT.match(last[0]):
            facts.update(outcome="environment_broken", reason=last[0][:500], phase="load")
    return facts


def _left_without_result(status: int, ending: Ending) -> Dict[str, Any]:
    if not ending.started:
        last = ending.stderr.text().strip().splitlines()[-1:] or ["no message"]
        reason = "the interpreter does not start, exit status %d: %s" % (status, last[0][:500])
        return {"outcome": "environment_broken", "exit_code": status, "reason": reason, "phase": "load"}
    return {"outcome": "exited", "exit_code": status, "phase": ending.phase}

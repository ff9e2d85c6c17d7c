"""Exceptions that Python prints, or not even that, and passes over: the process ends with 0 all the same.

Of a cell they are facts like warnings: the verdict is Python's, and the user is told.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import re
import sys
import threading
from typing import Any, Callable, Dict, List

from bisect_torch.worker import outcome

MOST = 20
"""Texts of a cell: one that fails in a loop says no more with the next."""

_LONGEST = 500

_PRINTED = re.compile(
    r"^(?:Process (?P<process>\S+)|Exception in thread .+):\n"
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(?P<raised>\S.*)",
    re.MULTILINE,
)
"""How Python prints an exception that ends a process of ``multiprocessing``, or a thread."""

_QUALIFIED = re.compile(r"^[\w.]*\.(?=\w+(?:$|:))")


def told(where: str, raised: BaseException) -> str:
    """How it stands among the warnings of a cell: ``ignored in a thread: AssertionError: …``."""
    return _text(where, "%s: %s" % (outcome.type_name(raised), outcome.message_of(raised)))


def _text(where: str, raised: str) -> str:
    return ("ignored in %s: %s" % (where, raised)).rstrip(": ")[:_LONGEST]


def printed(stderr: str) -> List[str]:
    """The same of what processes and threads have printed: those of a command, and of all that a cell has started."""
    if "Traceback" not in stderr:
        return []
    return [
        _text("a process" if found["process"] else "a thread", _QUALIFIED.sub("", found["raised"]))
        for found in itertools.islice(_PRINTED.finditer(stderr), MOST)
    ]


def together(warnings: List[str], more: List[str]) -> List[str]:
    """Warnings of a cell with further texts, without those that are the beginning of one that is there."""
    kept = list(warnings)
    for text in more:
        if not any(each.startswith(text) for each in kept):
            kept.append(text)
    return kept


class Ignored:
    """Tells the supervisor of each such exception in this process, as it happens.

    The hooks of Python that were there go on printing. One that the code under test sets takes the place of ours: who
    sets it looks after these exceptions.

    Args:
        send: Sends a message without waiting; False where it could not be sent now.
    """

    def __init__(self, send: Callable[[Dict[str, Any]], bool]) -> None:
        self._send = send
        self._told: List[str] = []
        self._waiting: List[str] = []
        self._in_thread = threading.excepthook
        self._unraisable = sys.unraisablehook

    def watch(self) -> None:
        """From now on, until Python takes its modules apart."""
        threading.excepthook = self._thread_raised
        sys.unraisablehook = self._nobody_to_raise_to
        atexit.register(self._leave)

    def note(self, where: str, raised: BaseException) -> None:
        """Tell of one more."""
        self._tell(told(where, raised))

    def finish(self) -> None:
        """Tell of what could not be sent before."""
        self._send_waiting()

    def _leave(self) -> None:
        # Threads have ended by now, and those of executors too.
        self.finish()
        if sys.unraisablehook == self._nobody_to_raise_to:
            sys.unraisablehook = self._unraisable

    def _thread_raised(self, arguments: Any) -> None:
        raised = arguments.exc_value
        # Python does not even print one that leaves the thread.
        if raised is not None and not (isinstance(raised, SystemExit) and outcome.exit_status(raised) == 0):
            self.note("a thread", raised)
        self._in_thread(arguments)

    def _nobody_to_raise_to(self, arguments: Any) -> None:
        if arguments.exc_value is not None:
            self.note(getattr(arguments.object, "__qualname__", None) or "a callback", arguments.exc_value)
        self._unraisable(arguments)

    def _tell(self, text: str) -> None:
        if text in self._told or len(self._told) >= MOST:
            return
        self._told.append(text)
        self._waiting.append(text)
        self._send_waiting()

    def _send_waiting(self) -> None:
        """What comes while another message is being written, in this thread or another, waits for the next."""
        with contextlib.suppress(IndexError):
            while True:
                text = self._waiting.pop(0)
                if not self._send({"event": "ignored", "text": text}):
                    self._waiting.append(text)
                    return

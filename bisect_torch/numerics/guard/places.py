"""Whose line called: the innermost Python frame outside torch and the guard."""

from __future__ import annotations

import linecache
import os
import sys
import threading
from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch

_PASSED_OVER = (
    os.path.dirname(os.path.abspath(torch.__file__)) + os.sep,
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    "<eval_with_key",
    "<frozen ",
    "<torch",
)
_MOST_LINES = 1 << 16


class Place(NamedTuple):
    """A line of Python: file, line counted from 1, name of the function."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        source = linecache.getline(self.file, self.line).strip()
        return "%s:%d in %s%s" % (self.file, self.line, self.function, ": " + source if source else "")


def caller() -> Optional[Place]:
    """The innermost line outside torch and the guard; None where there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PASSED_OVER):
            return Place(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


class ForwardLines:
    """Which line made a node of the autograd graph.

    A node is known by its sequence number, which torch counts per thread; so where two threads have made a node of
    the same number, the line is not known.
    """

    def __init__(self) -> None:
        self._lines: Dict[int, Tuple[int, Optional[Place]]] = {}

    def note(self) -> None:
        """Note the caller for the node that autograd has just made for the operation that is being dispatched."""
        if torch._C._current_autograd_node() is not None or not torch.is_grad_enabled():
            return
        number = torch.autograd._get_sequence_nr() - 1
        thread = threading.get_ident()
        known = self._lines.get(number)
        if known is None:
            if len(self._lines) >= _MOST_LINES:
                self._lines.clear()
            self._lines[number] = (thread, caller())
        elif known[0] != thread:
            self._lines[number] = (thread, None)

    def of_current_node(self) -> Optional[Place]:
        """The forward's line for the node whose backward is running; None outside backward or where not known."""
        node = torch._C._current_autograd_node()
        number = getattr(node, "_sequence_nr", None)
        if number is None:
            return None
        return self._lines.get(number(), (0, None))[1]

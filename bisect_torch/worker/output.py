"""What a cell writes: all of it is read, little of it is kept."""

from __future__ import annotations

import re
from typing import Optional

HEAD_BYTES = 8 * 1024
TAIL_BYTES = 64 * 1024
_LONGEST_LINE = 64 * 1024


class BoundedOutput:
    """The beginning and the end of a stream, its length, and whether a regular expression matched on one of its lines.

    Args:
        pattern: Searched in every line; a longer line than 64 KiB is searched in pieces.
    """

    def __init__(self, pattern: Optional[str] = None) -> None:
        self.total = 0
        self.matched = False
        self._head = bytearray()
        self._tail = bytearray()
        self._pattern = re.compile(pattern.encode("utf-8", "surrogateescape")) if pattern is not None else None
        self._line = bytearray()

    def feed(self, data: memoryview) -> None:
        """Take in the next bytes."""
        self.total += len(data)
        if self._pattern is not None and not self.matched:
            self._search(bytes(data))
        room = HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= TAIL_BYTES:
            self._tail[:] = data[-TAIL_BYTES:]
        else:
            self._tail += data
            # Trimmed seldom, so that many small writes do not move the whole tail each time.
            if len(self._tail) > 2 * TAIL_BYTES:
                del self._tail[:-TAIL_BYTES]

    def _search(self, data: bytes) -> None:
        assert self._pattern is not None
        self._line += data
        end = self._line.rfind(b"\n") + 1
        if not end and len(self._line) > _LONGEST_LINE:
            end = len(self._line)
        lines = bytes(self._line[:end])
        del self._line[:end]
        self.matched = any(self._pattern.search(line) for line in lines.splitlines())

    def finish(self) -> None:
        """Search the last line, which has no newline."""
        if self._pattern is not None and not self.matched and self._line:
            self.matched = self._pattern.search(bytes(self._line)) is not None

    def text(self) -> str:
        """What was kept, with a line in the middle that says how much was left out."""
        tail = bytes(self._tail[-TAIL_BYTES:])
        left_out = self.total - len(self._head) - len(tail)
        middle = b"\n[... %d bytes left out ...]\n" % left_out if left_out else b""
        return (bytes(self._head) + middle + tail).decode("utf-8", "replace")

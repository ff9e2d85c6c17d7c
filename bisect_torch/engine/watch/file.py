"""Whether a file has been saved, by looking at it now and then: editors that rename are no matter."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable
from pathlib import Path

SETTLE_S = 0.03
"""A change is believed once nothing has changed for this long: editors write in several steps."""

GONE_S = 0.3
"""A file is gone once it has been for this long: editors that rename have a moment without it."""

Signature = tuple[int, int, int] | None


class Look(enum.Enum):
    """What a look at the file tells."""

    SAME = "same"
    WRITING = "writing"  # it has changed a moment ago; look again
    SAVED = "saved"
    GONE = "gone"  # told once


class FileWatch:
    """Remembers how a file and its neighbours looked.

    Args:
        path: The file; it is followed by its name, not by its inode.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._paths: tuple[Path, ...] = (path,)
        self._known = self._signatures()
        self._seen = self._known
        self._since = 0.0
        self._told_gone = False

    def follow(self, neighbours: Iterable[Path]) -> None:
        """Look at these files too: what the file imports."""
        paths = (self._path, *sorted(set(neighbours) - {self._path}))
        if paths != self._paths:
            old = dict(zip(self._paths, self._known, strict=True))
            self._paths = paths
            self._known = tuple(old[path] if path in old else signature(path) for path in paths)
            self._seen = self._known

    def look(self, now: float) -> Look:
        """What has become of the file since the last look.

        Args:
            now: Monotonic seconds.
        """
        current = self._signatures()
        if current != self._seen:
            self._seen, self._since = current, now
        if current[0] is None:
            if now - self._since < GONE_S or self._told_gone:
                return Look.WRITING if not self._told_gone else Look.SAME
            self._told_gone = True
            return Look.GONE
        if current == self._known and not self._told_gone:
            return Look.SAME
        if now - self._since < SETTLE_S:
            return Look.WRITING
        self._known, self._told_gone = current, False
        return Look.SAVED

    def _signatures(self) -> tuple[Signature, ...]:
        return tuple(signature(path) for path in self._paths)


def signature(path: Path) -> Signature:
    """Inode, time of the last change in nanoseconds and size; None where there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size

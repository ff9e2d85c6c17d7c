"""Whether the files of a case are still what was read before the run: a cell that ran other code says nothing.

Data that it reads may change as it runs, by its own doing too: each cell tells what it saw (``known``, the reports).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from bisect_torch.cases.imports import sha256
from bisect_torch.model import CaseFile, CaseKind

_PROGRAMS = (".py", ".sh")
"""Of the files that a command names; others it may write itself."""


class Unchanged:
    """Looks at files again, at their content only where size, time or inode differ. For several threads."""

    def __init__(self) -> None:
        self._sound: dict[tuple[Path, str], tuple[int, int, int]] = {}

    def what_changed(self, file: CaseFile) -> str | None:
        """Name of a file that is gone or is another one than was read; None where all are the same."""
        return next((path.name for path, digest in _files(file) if not self._is_same(path, digest)), None)

    def _is_same(self, path: Path, digest: str) -> bool:
        try:
            status = os.stat(path)
            looks = status.st_size, status.st_mtime_ns, status.st_ino
            if self._sound.get((path, digest)) == looks:
                return True
            if sha256(path) != digest:
                return False
        except OSError:
            return False
        self._sound[path, digest] = looks
        return True


def _files(file: CaseFile) -> Iterator[tuple[Path, str]]:
    if file.kind is CaseKind.PYTEST:
        return  # its hash is one of many files, and tests may write there
    command = file.kind is CaseKind.COMMAND
    if not command:
        yield file.path, file.sha256
    for name, digest in file.local_modules.items():
        if not command or name.endswith(_PROGRAMS):
            yield (file.path if command else file.path.parent) / name, digest

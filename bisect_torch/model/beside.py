"""What an observation tells of the files beside the case file: modules that were imported, files that were read."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass

_SHA256 = 64
_WITHOUT_TIME = ("absent", "many")


@dataclass(frozen=True)
class FileRead:
    """A file that a cell opened for reading.

    Args:
        value: As the column ``local_modules`` holds it; see :func:`bisect_torch.worker.beside.read_files`.
        what: SHA-256, ``5 bytes`` of a large file, ``changed`` (while the cell ran), ``absent``, ``unreadable``; and
            ``many`` for more files than were looked at.
        when: Its last change before it was read: ISO 8601, UTC; empty for what is not there, and where an earlier tool
            did not keep it.
        own: It was written while the cell ran: by the cell, or by another at the same time.
    """

    value: str
    what: str
    when: str
    own: bool = False

    @property
    def is_input(self) -> bool:
        """Whether it was there before the cell: what a cell finds missing or makes itself need not be brought."""
        return self.what != "absent" and not self.own

    @property
    def sha256(self) -> str | None:
        """Of its content, where that is known."""
        return self.what if len(self.what) == _SHA256 else None

    @property
    def content(self) -> str:
        """What it was, to be compared between cells: of a large file with its time."""
        return self.value if self.what.endswith(" bytes") else self.what

    @property
    def words(self) -> str:
        """What it was, to be told."""
        if self.sha256:
            return f"SHA-256 {self.what}"
        return "changed while it ran" if self.what == "changed" else self.what

    def is_as(self, now: str) -> bool:
        """Whether a file is still what was read.

        Args:
            now: What it is now, as :meth:`bisect_torch.worker.beside.Contents.of` says.
        """
        return now in (self.what, self.value)


@dataclass(frozen=True)
class Beside:
    """Both kinds, by path relative to the case file's folder."""

    modules: Mapping[str, str]
    read: Mapping[str, FileRead]


@functools.lru_cache(maxsize=4096)
def beside(local_modules: str) -> Beside:
    """What the column ``local_modules`` of an observation says; nothing where it is no JSON object.

    The tool's own modules, which look like neighbours where its store lies below the case's folder, are left out.
    """
    try:
        found = json.loads(local_modules)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return Beside({}, {})
    values = {str(name): str(value) for name, value in sorted(found.items()) if "/bisect_torch/" not in name}
    read = {name: file for name, value in values.items() if (file := _file_read(value)) is not None}
    return Beside({name: value for name, value in values.items() if name not in read}, read)


def _file_read(value: str) -> FileRead | None:
    """None for a module."""
    if value in _WITHOUT_TIME:
        return FileRead(value, value, "")
    what, _, when = value.rpartition(" ")
    own = when.startswith("own")
    return FileRead(value, what, when.removeprefix("own").removeprefix("@"), own) if what else None

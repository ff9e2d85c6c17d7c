"""The journal beside a results file: one line per record, appended when a cell ends.

A line is ``<digest> <JSON>``. Each is written by one ``write`` under an exclusive lock of the journal itself, so
that several runs may append to it; the lock is the kernel's and ends with its holder. What a killed writer left half
written at the end is cut off by the next one. A line whose digest does not fit is never used, and is reported.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.errors import InfrastructureError

_DIGEST_BYTES = 8
_SECONDS_BETWEEN_SYNCS = 1.0


@dataclass(frozen=True)
class JournalContent:
    """What a journal holds.

    Args:
        records: Sound records, in order.
        damaged: Lines that do not fit their digest, as they stand there.
        torn: The last line has no end: its writer was killed.
    """

    records: tuple[Mapping[str, object], ...] = ()
    damaged: tuple[bytes, ...] = ()
    torn: bool = False


class Journal:
    """An append-only file of records. Safe for several threads and several processes.

    Args:
        path: It is made by the first append.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None
        self._guard = threading.Lock()
        self._synced_at = 0.0
        self._unsynced = False
        self._own: int | None = None

    def append(self, record: Mapping[str, object]) -> None:
        """Add one record.

        Raises:
            InfrastructureError: It cannot be written, for example because the disk is full. The journal is as before.
        """
        line = encode(record)
        try:
            with self.locked() as fd:
                size = _mend_end(fd)
                _write_whole(fd, line, size)
                if self._own == size:
                    self._own += len(line)
            self._sync_sometimes()
        except OSError as error:
            raise InfrastructureError(
                f"cannot write {self.path}: {error.strerror}", hint="what had been written before is kept"
            ) from error

    def read(self) -> JournalContent:
        """All records. A journal that does not exist is empty.

        Raises:
            InfrastructureError: It cannot be read.
        """
        try:
            return decode(self.path.read_bytes())
        except FileNotFoundError:
            return JournalContent()
        except OSError as error:
            raise InfrastructureError(
                f"cannot read {self.path}: {error.strerror}",
                hint="give yourself the right to read it, or name another results file",
            ) from error

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the journal against every other writer. Gives its file descriptor.

        Raises:
            OSError: It cannot be opened.
        """
        with self._guard:
            fd = self._lock_current_file()
            try:
                yield fd
            finally:
                if self._fd is not None:
                    fcntl.flock(fd, fcntl.LOCK_UN)

    def is_own_locked(self, fd: int) -> bool:
        """Whether every byte of the file, while it is :meth:`locked`, was appended through this object."""
        return self._own is not None and os.fstat(fd).st_size == self._own

    def remove_locked(self) -> None:
        """Remove the file, while it is :meth:`locked`. Writers that wait for it notice, and begin a new one."""
        self.path.unlink(missing_ok=True)
        self._close()

    def sync(self) -> None:
        """Bring to the disk what has been written."""
        with self._guard:
            if self._fd is not None and self._unsynced:
                os.fsync(self._fd)
                self._unsynced = False

    def close(self) -> None:
        """Bring to the disk what has been written and let go of the file."""
        self.sync()
        with self._guard:
            self._close()

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._unsynced = False

    def _lock_current_file(self) -> int:
        while True:
            if self._fd is None:
                self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
                self._own = None
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if self._own is None and os.fstat(self._fd).st_size == 0:
                self._own = 0
            if os.fstat(self._fd).st_nlink:
                return self._fd
            self._close()  # another run wrote it into the results file and removed it

    def _sync_sometimes(self) -> None:
        with self._guard:
            self._unsynced = True
            now = time.monotonic()
            if self._fd is not None and now - self._synced_at >= _SECONDS_BETWEEN_SYNCS:
                self._synced_at = now
                self._unsynced = False
                os.fsync(self._fd)


_JSON = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


def encode(record: Mapping[str, object]) -> bytes:
    """The line of a record, with its end."""
    text = _JSON.encode(record).encode()
    return _digest(text) + b" " + text + b"\n"


def decode(data: bytes) -> JournalContent:
    """The records of a journal's bytes."""
    lines = data.split(b"\n")
    end = lines.pop()
    torn = bool(end) and not _is_sound(end)
    if end and not torn:
        lines.append(end)  # only its line feed is missing
    records: list[Mapping[str, object]] = []
    damaged: list[bytes] = []
    for line in lines:
        record = _record(line)
        if record is None:
            damaged.append(line)
        else:
            records.append(record)
    return JournalContent(tuple(records), tuple(damaged), torn)


def _record(line: bytes) -> Mapping[str, object] | None:
    """What stands in a line; None when it is damaged."""
    if not _is_sound(line):
        return None
    try:
        record = json.loads(line.partition(b" ")[2])
    except (ValueError, RecursionError):
        return None  # whoever gave it a digest that fits
    return record if isinstance(record, dict) else None


def _is_sound(line: bytes) -> bool:
    digest, space, text = line.partition(b" ")
    return bool(space) and digest == _digest(text)


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode()


def _mend_end(fd: int) -> int:
    """Cut off a last line that is torn, or end it where only its line feed is missing. The size afterwards."""
    size = os.fstat(fd).st_size
    if size == 0 or os.pread(fd, 1, size - 1) == b"\n":
        return size
    data = os.pread(fd, size, 0)
    start = data.rfind(b"\n") + 1
    if _is_sound(data[start:]):
        return size + os.write(fd, b"\n")
    os.ftruncate(fd, start)
    return start


def _write_whole(fd: int, line: bytes, size: int) -> None:
    try:
        written = os.write(fd, line)
        while written < len(line):  # the disk is full; the next write says so
            written += os.write(fd, line[written:])
    except OSError:
        os.ftruncate(fd, size)
        raise

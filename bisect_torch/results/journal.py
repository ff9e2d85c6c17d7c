"""The journal beside a results file: one line per record, appended when a cell ends.

A line is ``<digest> <JSON>``. Each is written by one ``write`` under an exclusive lock of the journal itself, so
that several runs may append to it; the lock is the kernel's and ends with its holder. What a killed writer left half
written at the end is cut off by the next one. A line whose digest does not fit is never used, and is reported.

What stands in the JSON is said in :mod:`bisect_torch.results.records`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.errors import InfrastructureError

_DIGITS = 16
"""Of a line's digest, hexadecimal: 64 bits of BLAKE2b."""

_BYTES_AT_ONCE = 2**18
_SECONDS_BETWEEN_SYNCS = 1.0


@dataclass(frozen=True)
class Part:
    """What a part of a journal holds.

    Args:
        texts: JSON of the sound records, in order.
        damaged: Lines that do not fit their digest, as they stand there.
        torn: The last line has no end: its writer was killed.
    """

    texts: Sequence[bytes] = ()
    damaged: Sequence[bytes] = ()
    torn: bool = False


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
        self._own: int | None = None  # how much of the file was read or written through this object, if all of it
        self._seen: tuple[int, int, int] | None = None  # which file was read, when it was changed, and how much of it
        self._end: int | None = None  # where the last write of this object ended, with a whole line

    def append(self, record: Mapping[str, object]) -> None:
        """Add one record.

        Raises:
            InfrastructureError: It cannot be written, for example because the disk is full. The journal is as before.
        """
        self.write(encode(record))

    def write(self, lines: bytes) -> None:
        """Add records that are lines already (:func:`line`), all by one ``write``.

        Raises:
            InfrastructureError: They cannot be written. The journal is as before.
        """
        try:
            with self._guard:
                fd, size = self._lock_current_file()
                try:
                    if size != self._end:
                        size = _mend_end(fd, size)
                    _write_whole(fd, lines, size)
                    self._end = size + len(lines)
                    if self._own == size:
                        self._own = self._end
                finally:
                    fcntl.flock(fd, fcntl.LOCK_UN)
                self._sync_sometimes(fd)
        except OSError as error:
            raise InfrastructureError(
                f"cannot write {self.path}: {error.strerror}", hint="what had been written before is kept"
            ) from error

    def read(self) -> JournalContent:
        """All records. A journal that does not exist is empty.

        Raises:
            InfrastructureError: It cannot be read.
        """
        return _content(self.parts())

    def parts(self) -> Iterator[Part]:
        """What stands there, some megabytes at a time. Of a journal that does not exist, nothing.

        Raises:
            InfrastructureError: It cannot be read.
        """
        self._seen = None
        try:
            with open(self.path, "rb", buffering=0) as file:
                yield from parts(iter(lambda: file.read(_BYTES_AT_ONCE), b""))
                found = os.fstat(file.fileno())
                self._seen = found.st_ino, found.st_mtime_ns, file.tell()
        except FileNotFoundError:
            return
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
            fd, _ = self._lock_current_file()
            try:
                yield fd
            finally:
                if self._fd is not None:
                    fcntl.flock(fd, fcntl.LOCK_UN)

    def is_own_locked(self, fd: int) -> bool:
        """Whether every byte of the file, while it is :meth:`locked`, was read or appended through this object."""
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

    def _lock_current_file(self) -> tuple[int, int]:
        """The file's descriptor and size, while nobody else writes."""
        while True:
            if self._fd is None:
                self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
                self._own = self._end = None
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            found = os.fstat(self._fd)
            if self._own is None:
                self._own = 0 if not found.st_size else self._read_of(found)
            if found.st_nlink:
                return self._fd, found.st_size
            self._close()  # another run wrote it into the results file and removed it

    def _read_of(self, found: os.stat_result) -> int | None:
        """How much of a file was read by :meth:`parts`, where that was all of it."""
        same = self._seen == (found.st_ino, found.st_mtime_ns, found.st_size)
        self._seen = None
        return found.st_size if same else None

    def forget_read(self) -> None:
        """What was read must be read again."""
        self._seen = None

    def _sync_sometimes(self, fd: int) -> None:
        self._unsynced = True
        now = time.monotonic()
        if now - self._synced_at >= _SECONDS_BETWEEN_SYNCS:
            self._synced_at = now
            self._unsynced = False
            os.fsync(fd)


_JSON = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


def encode(record: Mapping[str, object]) -> bytes:
    """The line of a record, with its end."""
    return line(_JSON.encode(record).encode())


def line(text: bytes) -> bytes:
    """The line of a record that is JSON already, with its end."""
    return b"%b %b\n" % (_digest(text), text)


def decode(data: bytes) -> JournalContent:
    """The records of a journal's bytes."""
    return _content(parts([data]))


def parts(blocks: Iterable[bytes]) -> Iterator[Part]:
    """What stands in a journal that is read block by block."""
    left = b""
    for block in blocks:
        *lines, left = (left + block).split(b"\n")
        if lines:
            yield _part(lines)
    if left and _is_sound(left):
        yield _part([left])  # only its line feed is missing
    elif left:
        yield Part(torn=True)


def _part(lines: Iterable[bytes]) -> Part:
    texts, damaged = [], []
    for each in lines:
        digest, _, text = each.partition(b" ")
        if digest == _digest(text):
            texts.append(text)
        else:
            damaged.append(each)
    return Part(texts, damaged)


def _content(of: Iterable[Part]) -> JournalContent:
    records: list[Mapping[str, object]] = []
    damaged: list[bytes] = []
    torn = False
    for part in of:
        damaged += part.damaged
        torn = torn or part.torn
        for text in part.texts:
            record = record_in(text)
            if record is None:
                damaged.append(line(text).rstrip(b"\n"))
            else:
                records.append(record)
    return JournalContent(tuple(records), tuple(damaged), torn)


def record_in(text: bytes) -> Mapping[str, object] | None:
    """What a sound text says; None where whoever gave it a digest that fits wrote no record."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _is_sound(each: bytes) -> bool:
    return not _part([each]).damaged


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGITS // 2).hexdigest().encode()


def _mend_end(fd: int, size: int) -> int:
    """Cut off a last line that is torn, or end it where only its line feed is missing. The size afterwards."""
    if size == 0 or os.pread(fd, 1, size - 1) == b"\n":
        return size
    data = os.pread(fd, size, 0)
    start = data.rfind(b"\n") + 1
    if _is_sound(data[start:]):
        return size + os.write(fd, b"\n")
    os.ftruncate(fd, start)
    return start


def _write_whole(fd: int, lines: bytes, size: int) -> None:
    try:
        written = os.write(fd, lines)
        while written < len(lines):  # the disk is full; the next write says so
            written += os.write(fd, lines[written:])
    except OSError:
        os.ftruncate(fd, size)
        raise

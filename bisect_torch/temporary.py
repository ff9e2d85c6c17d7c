"""Temporary folders and files of this process, named so that a later one can tell whether their owner still lives."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

_PREFIX = "bt-"
"""Begins the names of folders: short, since Unix sockets that lie in them may have 107 characters."""

_REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENOTSUP, errno.EINVAL)

_SHORT = Path("/tmp")
_LONGEST = 28
"""Characters that the system's place may have. torch puts a socket of 33 characters into a cell's folder, whose own
name below that place has up to 41; the longest that a socket can have is 107 on Linux and 103 on macOS."""


@functools.cache
def owner() -> str:
    """This process as part of a file's name: ``PID.START``.

    The number alone would not do: it is given again, in a container often to the very next run.
    """
    return f"{os.getpid()}.{_started(os.getpid())}"


def is_gone(text: str) -> bool:
    """Whether the process that called itself ``text`` by :func:`owner` has ended. Other text names no process."""
    pid, _, started = text.partition(".")
    if not pid.isdigit():
        return False
    return not _alive(int(pid)) or (bool(started) and started != _started(int(pid)))


def make_folder(parent: Path | None = None) -> Path:
    """A new folder of this process.

    Args:
        parent: The system's own place when None, by a name that is short enough for sockets.
    """
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{owner()}-", dir=parent or _short(Path(tempfile.gettempdir()))))


@functools.cache
def _short(place: Path) -> Path:
    """The same place by a shorter name, where its own is too long: a link, removed when this process ends.

    With a long TMPDIR sharing tensors fails in torch itself, which would be taken for the build's fault.
    """
    link = _SHORT / f"{_PREFIX}{owner()}"
    if len(os.fspath(place)) <= _LONGEST:
        return place
    try:
        link.symlink_to(place, target_is_directory=True)
    except OSError:  # it cannot be written, or another thread or user was quicker
        return link if _is_our(stat.S_ISLNK, link) and link.readlink() == place else place
    atexit.register(link.unlink, missing_ok=True)
    return link


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A new folder of this process, removed at the end."""
    made = make_folder()
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def why_unwritable(parent: Path) -> str:
    """Why no file can be made in a folder, in the system's words; empty where one can, or where only room is missing.

    Rights alone do not tell: root has all of them on ``/proc`` too. Nothing appears there where files can be nameless.
    """
    try:
        if hasattr(os, "O_TMPFILE"):
            with contextlib.suppress(OSError):
                os.close(os.open(parent, os.O_TMPFILE | os.O_RDWR, 0o600))
                return ""
        made = parent / f".{_PREFIX}{owner()}.{threading.get_ident()}"
        os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        made.unlink()
    except OSError as error:
        if error.errno == errno.ENOENT and parent.is_dir():
            return "it takes no files"
        return (error.strerror or str(error)).lower() if error.errno in _REFUSALS else ""
    return ""


def sweep(parent: Path | None = None) -> None:
    """Remove the folders whose process was killed, and its short name for their place.

    Args:
        parent: Where they were made; the system's own place when None.
    """
    for link in _SHORT.glob(f"{_PREFIX}*"):
        if is_gone(link.name.removeprefix(_PREFIX)) and _is_our(stat.S_ISLNK, link):
            link.unlink(missing_ok=True)
    for each in (parent or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*-*"):
        if is_gone(each.name.removeprefix(_PREFIX).partition("-")[0]) and _is_our(stat.S_ISDIR, each):
            _make_writable(each)
            shutil.rmtree(each, ignore_errors=True)


def _is_our(kind: Callable[[int], bool], path: Path) -> bool:
    """Whether it is there, of this kind (``stat.S_ISDIR``, ``stat.S_ISLNK``) and of this user."""
    try:
        status = path.lstat()
    except OSError:  # another run was quicker
        return False
    return kind(status.st_mode) and status.st_uid == os.getuid()


def _make_writable(top: Path) -> None:
    """A case may have taken away the right to write in what it left."""
    for parent, folders, _ in os.walk(top):
        for name in folders:
            path = os.path.join(parent, name)
            with contextlib.suppress(OSError):  # another run is quicker
                if not os.path.islink(path):
                    os.chmod(path, stat.S_IRWXU)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's process
    return True


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks; nothing where that is not told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The command's name stands in parentheses and may hold anything, parentheses too.
    return text.rpartition(")")[2].split()[19]

"""What can be done in a folder, found out with files that have no name: nothing appears there, and nothing stays."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CLONE = 0x40049409
"""``FICLONE`` of ``linux/fs.h``."""

_BLOCK = b"\xa5" * 65536
_OF_THE_SYSTEM = frozenset(
    ["bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devfs", "devpts", "devtmpfs", "proc", "securityfs", "sysfs"]
)
"""Kinds of file systems that are no disk, nor memory for files."""

_NOT_KNOWN = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL, errno.ENOSYS)
"""What a file system or kernel that has no files without names answers."""


@dataclass(frozen=True)
class Probe:
    """What was found.

    Args:
        folder: The folder, or the nearest one above that exists.
        problem: Why nothing can be written there, in words; empty where it can.
        locks: Files can be locked.
        clones: Files can share their blocks (reflinks).
    """

    folder: Path
    problem: str = ""
    locks: bool = True
    clones: bool = False


def probe(path: Path) -> Probe:
    """Look at a folder, or at the nearest one above it where it is not there yet."""
    folder = path.absolute()
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return Probe(folder.parent, f"{folder.name} is not a folder")
    if _is_the_systems(folder):
        return Probe(folder, "the system shows itself there, and keeps no files")
    try:
        with _nameless(folder) as one, _nameless(folder) as other:
            if one is None or other is None:
                may = os.access(folder, os.W_OK | os.X_OK)
                return Probe(folder, "" if may else "may not be written")
            os.write(one, _BLOCK)
            return Probe(folder, locks=_can_lock(one), clones=_can_clone(one, other))
    except OSError as error:
        return Probe(folder, (error.strerror or str(error)).lower())


def _is_the_systems(folder: Path) -> bool:
    """Whether it lies where the kernel shows processes and devices: root may write there, but not make a file that
    stays."""
    place = Path(os.path.realpath(folder))
    devices = place.is_relative_to("/dev") and not place.is_relative_to("/dev/shm")
    return devices or file_system(place) in _OF_THE_SYSTEM


@contextlib.contextmanager
def _nameless(folder: Path) -> Iterator[int | None]:
    """A file that vanishes when it is closed; None where there is no such thing."""
    if not sys.platform.startswith("linux"):
        yield None
        return
    try:
        descriptor = os.open(folder, os.O_RDWR | os.O_TMPFILE, 0o600)
    except OSError as error:
        if error.errno not in _NOT_KNOWN:
            raise
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _can_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _can_clone(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _CLONE, source)
    except OSError:
        return False
    return True


def file_system(folder: Path) -> str:
    """The kind of file system below a folder: ``ext4``; empty where the system does not tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    place = os.path.realpath(folder)
    best, kind = "", ""
    for line in lines:
        # number, parent, device, root, mount point (blanks as \040), options …, "-", kind, source, options
        left, _, right = line.partition(" - ")
        mount = left.split()[4].encode().decode("unicode_escape", "replace")
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):  # of two at one place the later one covers the other
            best, kind = mount, right.split()[0]
    return kind

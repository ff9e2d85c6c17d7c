"""Files in ``/dev/shm``, POSIX semaphores among them, that a killed cell has made without anybody who keeps a list.

Such a file does not tell who made it. It is taken away only if all of this is so: a process of the cell held it open
for writing, or mapped to be written and shared, when it was killed; it was not there when the cell began; it is this
user's; and the kernel gives a write lease on it, which it does only where no other process has it open or mapped. A
file of a cell that died by itself has shown nobody who held it, and stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import stat
from typing import Collection, Dict, Set

from bisect_torch.worker import system

FOLDER = "/dev/shm"

_MAPPED = re.compile(r"^\S+ .w.s \S+ \S+ (\d+) +%s/" % FOLDER, re.MULTILINE)
_FLAGS = re.compile(r"^flags:\s*([0-7]+)", re.MULTILINE)


def there() -> Dict[int, str]:
    """Inode to path of what lies there now."""
    try:
        with os.scandir(FOLDER) as entries:
            return {entry.inode(): entry.path for entry in entries}
    except OSError:
        return {}


def held_by(process: int) -> Set[int]:
    """Inodes of what a living process could write to. A semaphore's is not known there by the name that it has now."""
    found = {int(inode) for inode in _MAPPED.findall(system.read_file("/proc/%d/maps" % process))}
    folder = "/proc/%d/fd" % process
    with contextlib.suppress(OSError):  # it ends meanwhile
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.path.realpath(path).startswith(FOLDER + "/") and _for_writing(process, name):
                found.add(os.stat(path).st_ino)
    return found


def _for_writing(process: int, descriptor: str) -> bool:
    flags = _FLAGS.search(system.read_file("/proc/%d/fdinfo/%s" % (process, descriptor)))
    return flags is not None and int(flags.group(1), 8) & os.O_ACCMODE != os.O_RDONLY


def remove(held: Collection[int], before: Collection[int]) -> None:
    """Remove what is certainly a cell's and nobody's any more.

    Args:
        held: Inodes of what its processes held, which are gone now.
        before: Inodes of what was there when it began.
    """
    wanted = set(held).difference(before)
    if not wanted:
        return
    for inode, path in there().items():
        if inode in wanted:
            with contextlib.suppress(OSError):  # it is gone, or not to be opened, or others have it
                _remove(path, inode)


def _remove(path: str, inode: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or (found.st_ino, found.st_uid, found.st_nlink) != (inode, os.geteuid(), 1):
            return
        # Who opens it from now on waits, and this process hears of it by a signal that does nothing.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # type: ignore[attr-defined,unused-ignore]
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)  # type: ignore[attr-defined,unused-ignore]
        if os.stat(path).st_ino == inode:
            os.unlink(path)
    finally:
        os.close(descriptor)

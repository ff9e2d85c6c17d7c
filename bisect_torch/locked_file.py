"""A lock that other processes see. The kernel takes it back from a process that ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

_LOOK_AGAIN_S = 0.1


class LockedFile:
    """A held lock, until :meth:`release`.

    Args:
        descriptor: Of the open file, locked.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back. The file stays: who removed it could remove one that another process has just locked."""
        os.close(self._descriptor)


def try_lock(path: Path) -> LockedFile | None:
    """Lock a file, which is made if it is not there; None while another process or thread holds it.

    Raises:
        OSError: The file cannot be made, or its file system knows no locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return LockedFile(descriptor)


@contextlib.contextmanager
def locked(path: Path, *, cancel: threading.Event | None = None) -> Iterator[bool]:
    """Hold the lock of a file; waits for as long as another process or thread holds it.

    Args:
        cancel: Ends the waiting when set.

    Returns:
        Whether it is held; False where the waiting was ended.

    Raises:
        OSError: As :func:`try_lock`.
    """
    stop = cancel or threading.Event()
    held = try_lock(path)
    while held is None and not stop.is_set():
        stop.wait(_LOOK_AGAIN_S)
        held = try_lock(path)
    try:
        yield held is not None
    finally:
        if held is not None:
            held.release()

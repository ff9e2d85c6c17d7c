"""Shared memory outlives the processes that made it: what a cell has left of it is taken away.

Segments with a name are removed by whoever keeps their list, once everybody whom it serves has gone: Python's resource
tracker, and torch's manager of tensors that are shared by name. So these are not killed with the cell but given the
time to do it. System V segments have the number of their maker (semaphores and queues have not, and stay). For a file
that code under test makes in ``/dev/shm`` by other means see :mod:`bisect_torch.worker.shared_files`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Collection, Dict, FrozenSet, Set

from bisect_torch.worker import shared_files, system

_PAUSE_S = 0.005
_IPC_RMID = 0
_SEGMENTS = "/proc/sysvipc/shm"
_libc = ctypes.CDLL(None, use_errno=True)


_before: FrozenSet[int] = frozenset()
_files_before: FrozenSet[int] = frozenset()
_held: Set[int] = set()


def begin() -> None:
    """Note what is there before the first cell: numbers of processes are given again, and that is not a cell's."""
    global _before
    _before = frozenset(_segments())


def begin_cell() -> None:
    """Note which files are there before a cell."""
    global _files_before
    _files_before = frozenset(shared_files.there())
    _held.clear()


def killing(process: int) -> None:
    """Note what a process holds that is about to be killed."""
    _held.update(shared_files.held_by(process))


def remove_files() -> None:
    """Remove what those that were killed had made, once they are gone: while they live, they may be somebody else."""
    shared_files.remove(_held, _files_before)
    _held.clear()


def release(cell: int, limit_s: float = 15.0) -> None:
    """Kill everything below this process, and have removed what a cell has left.

    Args:
        cell: Its process; it may have gone.
        limit_s: How long those who keep a list may take: one that has just been started must get ready first, which
            takes seconds on a machine where others compute.
    """
    makers = {cell}
    deadline = time.monotonic() + limit_s
    while system.reap():
        below = system.descendants(os.getpid())
        makers.update(below)
        keepers = [process for process in below if _keeps_a_list(process)]
        for process in set(below).difference(keepers):
            killing(process)
            system.kill(process, signal.SIGKILL)
        if not keepers or time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_S)
    _remove_segments(makers)


def _keeps_a_list(process: int) -> bool:
    words = system.read_file("/proc/%d/cmdline" % process).split("\0")
    if not words[0]:  # it has gone, or is just becoming another program, which one is not told yet
        state = system.read_file("/proc/%d/stat" % process).rpartition(")")[2].split()[:1]
        return state not in ([], ["Z"], ["X"])
    tracker = any(word.startswith("from multiprocessing.resource_tracker import main") for word in words)
    return tracker or os.path.basename(words[0]) == "torch_shm_manager"


def _remove_segments(makers: Collection[int]) -> None:
    for segment, maker in _segments().items():
        if maker in makers and segment not in _before:
            _libc.shmctl(segment, _IPC_RMID, None)  # the kernel drops it when the last one lets go of it


def _segments() -> Dict[int, int]:
    """System V segments of this machine to the process that made each."""
    rows = [line.split() for line in system.read_file(_SEGMENTS).splitlines()[1:]]
    return {int(row[1]): int(row[4]) for row in rows}

"""What a worker asks of the operating system. Every function does its best and says what it could not do.

Linux has all of it; elsewhere (macOS) the parts without an equivalent are left out.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import Dict, List, Optional, Set

LINUX = sys.platform.startswith("linux")

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MADV_COLLAPSE = 25  # Linux 6.1 and newer; older kernels refuse it
_HUGE_PAGE = 2**21
_libc = ctypes.CDLL(None, use_errno=True)

STACK_SIGNAL = int(signal.SIGRTMAX) - 1 if hasattr(signal, "SIGRTMAX") else int(signal.SIGUSR2)
"""Asks a cell for the Python stacks of its threads. Code under test rarely uses real-time signals."""


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that forked it ends."""
    if LINUX:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent has gone, so that none escapes the sweep."""
    if LINUX:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def arm_lifeline(reader: int) -> None:
    """Have the kernel kill this process's whole group when the other end of a pipe or socket is closed or written to.

    PR_SET_PDEATHSIG reaches only the child itself; this reaches what it has started in its group too, with no thread in
    the cell and even when it hangs in native code.
    """
    if not LINUX:
        return
    import fcntl

    fcntl.fcntl(reader, fcntl.F_SETOWN, -os.getpgrp())  # type: ignore[attr-defined,unused-ignore]
    fcntl.fcntl(reader, fcntl.F_SETSIG, signal.SIGKILL)  # type: ignore[attr-defined,unused-ignore]
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)  # type: ignore[attr-defined,unused-ignore]


def peer_has_gone(connection: socket.socket) -> bool:
    """Whether the other end of a socket is closed already, in which case no signal comes any more.

    What it has sent before may still be there to be read.
    """
    hung_up = select.poll()
    hung_up.register(connection, 0)
    if hung_up.poll(0):
        return True
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def disarm_lifeline(reader: int) -> None:
    """Undo :func:`arm_lifeline`."""
    if not LINUX:
        return
    import fcntl

    fcntl.fcntl(reader, fcntl.F_SETFL, 0)
    fcntl.fcntl(reader, fcntl.F_SETSIG, 0)  # type: ignore[attr-defined,unused-ignore]


def use_huge_pages() -> int:
    """Put the heap and other private memory of this process on huge pages where the kernel can; gives how many.

    A fork and its exit then copy and drop one entry for 512 pages: measured with torch 2.14.0, a fork with a small case
    took 11 ms of processor time instead of 25. It takes a few tenths of a second itself.
    """
    if not LINUX:
        return 0
    collapsed = 0
    for line in read_file("/proc/self/maps").splitlines():
        words = line.split()
        if words[1] != "rw-p" or (len(words) > 5 and words[5] != "[heap]"):
            continue
        low, _, high = words[0].partition("-")
        start = -(-int(low, 16) // _HUGE_PAGE) * _HUGE_PAGE
        end = int(high, 16) // _HUGE_PAGE * _HUGE_PAGE
        for address in range(start, end, _HUGE_PAGE):
            done = _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(_HUGE_PAGE), _MADV_COLLAPSE) == 0
            collapsed += done
    return collapsed


def no_core_file() -> None:
    """This process and its children leave none."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def first_to_be_killed() -> None:
    """When memory is short, the kernel shall take the cell and not the worker, the user's editor or the tool."""
    write_file("/proc/self/oom_score_adj", "1000")


def write_file(path: str, text: str) -> bool:
    """Whether it could be written."""
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(descriptor, text.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def read_file(path: str) -> str:
    """Its text, empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def thread_count() -> int:
    """Number of threads of this process, native ones included; 1 where it cannot be known."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def parents() -> Dict[int, int]:
    """Process to its parent, for every process that can be seen."""
    found: Dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdigit():
            # The command's name stands in parentheses and may hold anything, parentheses too.
            fields = read_file("/proc/%s/stat" % name).rpartition(")")[2].split()
            if len(fields) > 1:
                found[int(name)] = int(fields[1])
    return found


def descendants(root: int) -> List[int]:
    """All processes below ``root``, nearest first."""
    children: Dict[int, List[int]] = {}
    for process, parent in parents().items():
        children.setdefault(parent, []).append(process)
    found: List[int] = []
    level = [root]
    while level:
        level = [child for process in level for child in children.get(process, [])]
        found.extend(level)
    return found


def has_children() -> bool:
    """Whether this process has any child, dead or alive."""
    if not hasattr(os, "waitid"):  # macOS, where no cell is forked
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def sweep(limit_s: float = 5.0) -> bool:
    """Kill and reap every descendant of this process; whether none is left."""
    deadline = time.monotonic() + limit_s
    pause = 0.0
    while reap():
        for process in descendants(os.getpid()):
            kill(process, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(0.05, pause + 0.002)
    return True


def reap() -> bool:
    """Reap what has died below this process; whether children are left."""
    while True:
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if process == 0:
            return True


def kill(process: int, number: int) -> None:
    """Send a signal. That the process has gone, or may not be sent one, is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def kill_group(leader: int) -> None:
    """Kill a process group, as far as it is there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def marked_processes(marker: str) -> Set[int]:
    """Processes that were started with the word ``marker`` (``NAME=value``) in their environment."""
    found: Set[int] = set()
    wanted = marker.encode()
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.add(int(name))
        except OSError as problem:
            if problem.errno not in (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM):
                raise
    return found


def resident_bytes(process: int) -> int:
    """Resident memory of a process, 0 when it has gone."""
    fields = read_file("/proc/%d/statm" % process).split()
    return int(fields[1]) * resource.getpagesize() if len(fields) > 1 else 0


def core_wait_s(process: int) -> float:
    """Seconds that the main thread of a process was ready to run and had no core; 0.0 where that is not known."""
    fields = read_file("/proc/%d/schedstat" % process).split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0


def reset_peak() -> Optional[int]:
    """Start to measure this process's peak resident memory anew; gives what is resident now, None where unknown."""
    if not write_file("/proc/self/clear_refs", "5"):
        return None
    return resident_bytes(os.getpid())


def peak_bytes() -> int:
    """Peak resident memory of this process since :func:`reset_peak`, 0 where unknown."""
    for line in read_file("/proc/self/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def kernel_kills() -> int:
    """How many processes the kernel has killed for lack of memory so far, on this machine and in this control group."""
    return _count("/proc/vmstat", "oom_kill") + sum(_count(path, "oom_kill") for path in _memory_group_files())


def _count(path: str, name: str) -> int:
    for line in read_file(path).splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name:
            return int(words[1])
    return 0


def _memory_group_files() -> List[str]:
    files = []
    for line in read_file("/proc/self/cgroup").splitlines():
        number, controllers, group = ([*line.split(":", 2), "", ""])[:3]
        if number == "0" and not controllers:
            files.append("/sys/fs/cgroup%s/memory.events" % group.rstrip("/"))
        elif "memory" in controllers.split(","):
            files.append("/sys/fs/cgroup/memory%s/memory.oom_control" % group.rstrip("/"))
    return files

"""Where a cell is whose time is over: the stacks of its threads, taken from outside before it is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import Callable, List

from bisect_torch.worker import system

_STACK_WAIT_S = 1.0
_DEBUGGER_LIMIT_S = 10.0
_MOST_THREADS = 32


def python_stacks(process: int, path: str) -> str:
    """The Python stacks that a cell writes when it is asked to, as far as they come within a second.

    Args:
        process: The cell. It must have installed its handler: without, the request kills it.
        path: The file that it writes.
    """
    system.kill(process, system.STACK_SIGNAL)
    deadline = time.monotonic() + _STACK_WAIT_S
    last = -1
    while time.monotonic() < deadline:
        size = _size(path)
        if size and size == last:
            break
        last = size
        time.sleep(0.05)
    return system.read_file(path)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def thread_states(process: int) -> str:
    """One line per thread: what the kernel says it does. Cheap; a hint where no debugger is present."""
    lines: List[str] = []
    folder = "/proc/%d/task" % process
    try:
        threads = sorted(os.listdir(folder), key=int)
    except OSError:
        return ""
    for thread in threads[:_MOST_THREADS]:
        state = system.read_file("%s/%s/stat" % (folder, thread)).rpartition(")")[2].split()[:1]
        name = system.read_file("%s/%s/comm" % (folder, thread)).strip()
        waits = system.read_file("%s/%s/wchan" % (folder, thread)).strip()
        where = " in %s" % waits if waits not in ("", "0") else ""
        lines.append("thread %s %s: %s%s" % (thread, name, "".join(state), where))
    return "\n".join(lines)


def native_stack(process: int, give_up: Callable[[], bool]) -> str:
    """The native stack of every thread where gdb is present, else what the kernel says.

    Args:
        give_up: Asked ten times a second; ends it.
    """
    gdb = shutil.which("gdb")
    if gdb is None:
        return thread_states(process)
    command = [gdb, "-nx", "-batch", "-p", str(process), "-ex", "thread apply all backtrace 24"]
    deadline = time.monotonic() + _DEBUGGER_LIMIT_S
    try:
        debugger = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return thread_states(process)
    text = None
    while text is None:
        try:
            text, _ = debugger.communicate(timeout=0.1)
        except subprocess.TimeoutExpired:
            if give_up() or time.monotonic() > deadline:
                debugger.kill()
                debugger.communicate()
                return thread_states(process)
    lines = text.decode("utf-8", "replace").splitlines()
    kept = [line for line in lines if line.startswith(("#", "Thread "))]
    return "\n".join(kept) or thread_states(process)

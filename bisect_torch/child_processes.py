"""The one place where the orchestrator starts a child process.

A child dies with the orchestrator: it is started through a few lines that ask the kernel for a signal on the
parent's death (Linux) before they become the real program. The wrapper is a program of its own, not a ``preexec_fn``,
because the orchestrator has threads and running Python between fork and exec can deadlock there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.redaction import without_secrets

_DIE_WITH_PARENT = (
    "import ctypes,fcntl,os,signal,sys;"
    "ctypes.CDLL(None).prctl(1,signal.SIGKILL,0,0,0);"
    "f=int(sys.argv[2]);"
    "f<0 or(fcntl.fcntl(f,fcntl.F_SETOWN,-os.getpgrp()),fcntl.fcntl(f,10,signal.SIGKILL),"  # 10: F_SETSIG
    "fcntl.fcntl(f,fcntl.F_SETFL,os.O_ASYNC));"
    "os.getppid()==int(sys.argv[1]) or os._exit(1);"
    "os.execvp(sys.argv[3],sys.argv[3:])"
)


@dataclass(frozen=True)
class Completed:
    """How a child process ended.

    Args:
        returncode: Exit status, or minus the signal's number.
        stdout: All of it, decoded.
        stderr: All of it, decoded.
        timed_out: It was killed because its time was over.
    """

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False


def with_parent(argv: Sequence[str | os.PathLike[str]], *, lifeline: int = -1) -> list[str]:
    """The command line that runs ``argv`` and is killed when the thread that started it ends.

    The kernel's signal follows the spawning *thread*: start it from a thread that waits for the child.

    Args:
        lifeline: Read end of a pipe whose other end only the orchestrator has. When that goes, the kernel kills the
            child's whole process group: what the child itself has started does not get the parent's signal.
    """
    words = [os.fspath(word) for word in argv]
    if not sys.platform.startswith("linux"):
        return words
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), str(lifeline), *words]


def run_process(
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float | None = None,
    on_stderr_line: Callable[[str], None] | None = None,
    cancel: threading.Event | None = None,
    hopeless: Callable[[], bool] = lambda: False,
) -> Completed:
    """Run a program to its end, in its own process group, with no stdin.

    Args:
        env: The whole environment of the child; the parent's without its secrets when None.
        timeout_s: Seconds after which the group is killed.
        on_stderr_line: Called with each line of stderr as it comes, from another thread.
        cancel: When set, the group is killed; the result then has the signal's return code.
        hopeless: Asked all the time; the same happens when it says so.

    Raises:
        OSError: The program cannot be started.
    """
    lifeline, held = os.pipe()
    try:
        child = subprocess.Popen(
            with_parent(argv, lifeline=lifeline),
            env=without_secrets(os.environ) if env is None else dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            pass_fds=(lifeline,),
        )
    except OSError:
        os.close(held)
        raise
    finally:
        os.close(lifeline)
    try:
        return _to_its_end(child, timeout_s, on_stderr_line, lambda: hopeless() or bool(cancel and cancel.is_set()))
    finally:
        os.close(held)


def _to_its_end(
    child: subprocess.Popen[str],
    timeout_s: float | None,
    on_stderr_line: Callable[[str], None] | None,
    stop: Callable[[], bool],
) -> Completed:
    stdout: list[str] = []
    stderr: list[str] = []

    def read_stdout() -> None:
        assert child.stdout is not None
        stdout.extend(child.stdout)

    def read_stderr() -> None:
        assert child.stderr is not None
        for line in child.stderr:
            stderr.append(line)
            if on_stderr_line is not None:
                on_stderr_line(line.rstrip("\n"))

    readers = [threading.Thread(target=read, daemon=True) for read in (read_stdout, read_stderr)]
    for reader in readers:
        reader.start()
    timed_out = False
    waited = 0.0
    while True:
        try:
            child.wait(timeout=0.1)
            break
        except subprocess.TimeoutExpired:
            waited += 0.1
        timed_out = timeout_s is not None and waited >= timeout_s
        if timed_out or stop():
            kill_group(child.pid)
            child.wait()
            break
    for reader, stream in zip(readers, (child.stdout, child.stderr), strict=True):
        reader.join(timeout=5)
        # A reader that still runs has a pipe that a grandchild keeps open: closing it would wait for that one.
        if stream is not None and not reader.is_alive():
            stream.close()
    return Completed(child.returncode, "".join(stdout), "".join(stderr), timed_out)


def kill_group(pid: int) -> None:
    """Send SIGKILL to the process group that ``pid`` leads; nothing happens when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)

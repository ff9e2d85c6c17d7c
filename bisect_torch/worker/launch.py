"""Start one cell: a child in a process group of its own, cut off from everything but its pipes.

The worker is single-threaded, so Python code may run between fork and exec.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import socket
import stat
import tempfile
import traceback
from typing import Callable, Dict, Optional, Sequence

from bisect_torch.worker import system

# Far above the descriptors that code under test opens or guesses.
_CHANNEL_FROM = 200
_PIPE_BYTES = 2**20
_FAILED = 70


class Child:
    """A running cell as its supervisor sees it.

    Args:
        pid: Also the process group.
        channel: The supervisor's end of the message channel.
        stdout: Read end.
        stderr: Read end.
        lifeline: Write end; when it is closed, the kernel kills the group.
        folder: The cell's own temporary folder.
        began_ns: When it was made, in nanoseconds, by the clock that files are dated with.
    """

    def __init__(
        self, pid: int, channel: socket.socket, stdout: int, stderr: int, lifeline: int, folder: str, began_ns: int
    ) -> None:
        self.pid = pid
        self.channel = channel
        self.stdout = stdout
        self.stderr = stderr
        self.lifeline = lifeline
        self.folder = folder
        self.began_ns = began_ns

    @property
    def stack_file(self) -> str:
        """Where the cell writes the stacks of its threads when asked."""
        return stack_file(self.folder)

    def close(self) -> None:
        """Close every descriptor and remove the folder."""
        self.channel.close()
        for descriptor in (self.stdout, self.stderr, self.lifeline):
            os.close(descriptor)
        remove_folder(self.folder)


class CellEnds:
    """What a cell has of its own after the start.

    Args:
        channel: The message channel's descriptor.
        lifeline: Read end of the lifeline.
    """

    def __init__(self, channel: int, lifeline: int, folder: str) -> None:
        self.channel = channel
        self.lifeline = lifeline
        self.folder = folder


def stack_file(folder: str) -> str:
    """Path of the file to which a cell writes its stacks."""
    return os.path.join(folder, ".stack")


def launch(
    body: Callable[[CellEnds], None], *, base: str, cwd: Optional[str], close: Sequence[int] = (), new_cwd: bool = True
) -> Child:
    """Fork a cell that runs ``body``, which does not come back unless by SystemExit.

    Args:
        base: Folder in which the cell's temporary folder is made.
        cwd: Working directory of the cell; with ``new_cwd`` its own temporary folder.
        close: Descriptors of the supervisor that the cell must not hold.

    Raises:
        OSError: No process, pipe or folder could be made.
    """
    folder = tempfile.mkdtemp(prefix="c", dir=base)
    began_ns = os.stat(folder).st_mtime_ns
    ours, theirs = socket.socketpair()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    life_read, life_write = os.pipe()
    for descriptor in (out_read, err_read):
        _widen(descriptor)
        os.set_blocking(descriptor, False)
    ours.setblocking(False)
    supervisor = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        for end in (ours, theirs):
            end.close()
        for descriptor in (out_read, out_write, err_read, err_write, life_read, life_write):
            os.close(descriptor)
        remove_folder(folder)
        raise
    if pid == 0:
        os.setsid()
        _cut_off(supervisor, out_write, err_write)
        lowest = min(_CHANNEL_FROM, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        channel = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest)
        lifeline = fcntl.fcntl(life_read, fcntl.F_DUPFD_CLOEXEC, lowest)
        for end in (ours, theirs):
            end.close()
        for descriptor in (out_read, out_write, err_read, err_write, life_read, life_write, *close):
            os.close(descriptor)
        try:
            system.arm_lifeline(lifeline)
            os.chdir(folder if new_cwd or cwd is None else cwd)
            body(CellEnds(channel, lifeline, folder))
        except Exception:  # noqa: BLE001 - the worker's outermost edge: no second supervisor may come back from here
            traceback.print_exc()
        os._exit(_FAILED)
    theirs.close()
    for descriptor in (out_write, err_write, life_read):
        os.close(descriptor)
    return Child(pid, ours, out_read, err_read, life_write, folder, began_ns)


def _cut_off(supervisor: int, stdout: int, stderr: int) -> None:
    """In the child: dies with the supervisor, has no stdin, leaves no core file, gives its memory first."""
    system.die_with_parent()
    if os.getppid() != supervisor:  # it died before the line above
        os._exit(_FAILED)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    system.no_core_file()
    system.first_to_be_killed()


def _widen(pipe: int) -> None:
    size = getattr(fcntl, "F_SETPIPE_SZ", 1031 if system.LINUX else None)
    if size is not None:
        with contextlib.suppress(OSError):  # the user's share of pipe memory is used up; a narrow pipe works too
            fcntl.fcntl(pipe, size, _PIPE_BYTES)


def cell_variables(folder: str) -> Dict[str, str]:
    """Environment variables of a cell: nothing that it writes to a cache or a temporary folder outlives it."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor"),
        "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
        # Else ~/.cache has one folder for all releases: what one has compiled, another would load.
        "TORCH_EXTENSIONS_DIR": os.path.join(folder, "extensions"),
        "TMPDIR": folder,
    }


def execute(argv: Sequence[str], variables: Dict[str, str], keep: Sequence[int] = ()) -> None:
    """Replace this process by a program; exit status 126 or 127 when that cannot be done, as a shell does.

    Args:
        keep: Descriptors that the program is to have.
    """
    for descriptor in keep:
        os.set_inheritable(descriptor, True)
    # Python ignores SIGPIPE, and what is ignored stays so in a program that is started.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), variables)
    except FileNotFoundError:
        os.write(2, ("%s: command not found\n" % argv[0]).encode("utf-8", "surrogateescape"))
        os._exit(127)
    except OSError as problem:
        os.write(2, ("%s: %s\n" % (argv[0], problem.strerror)).encode("utf-8", "surrogateescape"))
        os._exit(126)


def remove_folder(folder: str) -> None:
    """Remove a folder and all in it, also where the cell has taken the right to write."""
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
        return
    with contextlib.suppress(OSError):
        os.chmod(folder, stat.S_IRWXU)
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(parent, name), stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)

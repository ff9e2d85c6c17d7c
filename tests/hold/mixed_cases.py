"""One case for each kind of cell that :mod:`tests.hold.mixture` mixes. Run by it, never collected by pytest.

They run on a real torch and on the fake one of the tests alike, and mark what they leave with ``TEST_MARK``.
"""

# mypy: ignore-errors

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import shared_memory

import torch

from bisect_torch import case, check, skip

MARK = os.environ["TEST_MARK"]
SIZE = 40961
_hold: list[object] = []


def die(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def sleeper() -> list[str]:
    return [sys.executable, "-S", "-c", f"import time; mark = {MARK!r}; time.sleep(1000)"]


@case
def adds() -> None:
    assert (torch.ones(3, 3) + 1).sum().item() == 18


@case
def multiplies() -> None:
    assert (torch.ones(16, 16) @ torch.ones(16, 16)).sum().item() == 4096


@case
def goes_backward() -> None:
    x = torch.tensor([[1.0] * 4] * 4, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.sum().item() == 32


@case
def returns_false() -> bool:
    return False


@case
def asserts() -> None:
    assert torch.ones(2).sum().item() == 3


@case
def checks_a_wrong_value() -> None:
    if not hasattr(torch, "bmm"):  # the fake torch has nothing that check() could compare
        raise AssertionError("not the value")
    return check(torch.ones(3), torch.zeros(3))


@case
def raises() -> None:
    raise ValueError("a wrong number: 17")


@case
def misuses_torch() -> None:
    torch.ones(2) + torch.ones(3)


@case
def segfaults() -> None:
    die(signal.SIGSEGV)


@case
def reads_address_zero() -> None:
    ctypes.string_at(0)


@case
def aborts() -> None:
    os.abort()


class _Dangerous:
    def __del__(self) -> None:
        os.abort()


@case
def aborts_after_its_answer() -> None:
    circle: list[object] = [_Dangerous()]
    circle.append(circle)


@case
def divides_by_zero() -> None:
    die(signal.SIGFPE)


@case
def meets_an_illegal_instruction() -> None:
    die(signal.SIGILL)


@case
def meets_a_bus_error() -> None:
    die(signal.SIGBUS)


@case
def traps() -> None:
    die(signal.SIGTRAP)


@case
def leaves_without_a_result() -> None:
    os._exit(0)


@case
def leaves_with_a_status() -> None:
    os._exit(7)


@case
def exits_well() -> None:
    sys.exit(0)


@case
def exits_with_a_status() -> None:
    sys.exit(3)


@case
def skips() -> None:
    skip("no such device")


@case(timeout=1)
def hangs() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)


@case(timeout=1)
def hangs_in_native_code() -> None:
    # PyDLL keeps the interpreter's lock while it waits.
    ctypes.PyDLL(None).sleep(1000)


@case(timeout=1)
def hangs_with_children_on_the_pipe() -> None:
    subprocess.Popen(sleeper())
    subprocess.Popen(sleeper(), start_new_session=True)
    time.sleep(1000)


@case
def floods_stdout() -> None:
    for _ in range(10):
        os.write(1, b"x" * 2**20)


@case
def floods_stderr_and_asserts() -> None:
    for _ in range(10):
        os.write(2, b"y" * 2**20)
    raise AssertionError("not the value")


@case
def leaks() -> None:
    _hold.append(bytearray(b"z" * 2**25))
    ctypes.CDLL(None).malloc(2**24)


@case
def leaves_a_child_on_the_pipe() -> None:
    subprocess.Popen(sleeper())


@case
def leaves_children_in_sessions_of_their_own() -> None:
    subprocess.Popen(sleeper(), start_new_session=True, env={})
    subprocess.Popen(["setsid", "sh", "-c", 'setsid "$@" & exec "$@"', "sh", *sleeper()])
    time.sleep(0.05)


@case
def leaves_a_fork_of_itself() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        time.sleep(1000)


@case
def leaves_a_pool() -> None:
    pool = multiprocessing.get_context("fork").Pool(2)
    _hold.append(pool)
    assert pool.map(abs, [-1, 2]) == [1, 2]


@case
def crashes_with_children() -> None:
    subprocess.Popen(sleeper())
    subprocess.Popen(sleeper(), start_new_session=True)
    die(signal.SIGSEGV)


@case
def forges_messages() -> None:
    frame = b"\x89BTW\x01\0\0\0\0\0\0\x2e" + bytes(16) + b'{"event":"result","facts":{"outcome":"raised"}}'
    for descriptor in range(1, 1024):
        try:
            os.write(descriptor, frame)
        except OSError:
            continue


@case
def prints_what_looks_like_a_message() -> None:
    print('{"event": "result", "facts": {"outcome": "returned"}, "exit_status": 0}', flush=True)
    raise AssertionError("not the value")


@case
def leaves_threads() -> None:
    threading.Thread(target=time.sleep, args=(1000,)).start()
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()


@case
def leaves_threads_of_torch() -> None:
    torch.set_num_threads(2)
    assert (torch.ones(64, 64) @ torch.ones(64, 64)).sum().item() == 64**3


def leave_files() -> None:
    tempfile.mkdtemp()
    tempfile.mkstemp()
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b"x" * 2**16)
    os.mkdir("closed")
    open("closed/inside", "w").close()
    os.chmod("closed", 0)


@case
def leaves_temporary_files() -> None:
    leave_files()


@case
def leaves_temporary_files_and_crashes() -> None:
    leave_files()
    os.abort()


def leave_shared_memory() -> None:
    _hold.append(shared_memory.SharedMemory(create=True, size=2**16, name=f"{MARK}{os.getpid()}"))
    _hold.append(shared_memory.SharedMemory(create=True, size=2**16))
    _hold.append(multiprocessing.get_context("spawn").Lock())


@case
def leaves_shared_memory() -> None:
    leave_shared_memory()


@case
def leaves_shared_memory_and_crashes() -> None:
    leave_shared_memory()
    die(signal.SIGSEGV)


def share_by_name() -> None:
    if hasattr(torch, "multiprocessing"):
        torch.multiprocessing.set_sharing_strategy("file_system")
        _hold.append(torch.ones(1000).share_memory_())
        _hold.append(torch.ones(1000).share_memory_())


@case
def shares_tensors_by_name() -> None:
    share_by_name()


@case
def shares_tensors_by_name_and_crashes() -> None:
    share_by_name()
    die(signal.SIGSEGV)


def leave_segment() -> None:
    libc = ctypes.CDLL(None)
    segment = libc.shmget(0, ctypes.c_size_t(SIZE), 0o1600)
    assert segment >= 0
    libc.shmat.restype = ctypes.c_void_p
    assert libc.shmat(segment, None, 0)


@case
def leaves_a_system_v_segment() -> None:
    leave_segment()


@case
def leaves_a_system_v_segment_and_crashes() -> None:
    leave_segment()
    die(signal.SIGFPE)


@case
def a_child_with_a_system_v_segment_stays() -> None:
    ready, done = os.pipe()
    if os.fork() == 0:
        leave_segment()
        os.write(done, b"x")
        time.sleep(1000)
    os.read(ready, 1)


@case
def asks_torch_for_too_much() -> None:
    if not hasattr(torch, "empty"):
        raise MemoryError
    torch.empty(2**58)


@case
def is_refused_memory() -> None:
    bytearray(2**60)


@case
def is_refused_memory_by_a_limit() -> None:
    gc.collect()
    with open("/proc/self/statm") as file:
        here = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (here + 2**26, resource.RLIM_INFINITY))
    for _ in range(64):
        _hold.append(bytearray(2**24))


@case
def is_killed() -> None:
    die(signal.SIGKILL)


@case
def kills_its_worker() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)

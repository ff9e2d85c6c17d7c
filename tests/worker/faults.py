"""Cases that misbehave in every way that a cell can. Run by the tests of the worker, never collected by pytest."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import signal
import subprocess
import sys
import threading
import time

from bisect_torch import case, skip

_hold: list[object] = []


@case
def right() -> None:
    print("fine")


@case
def returns_false() -> bool:
    return False


@case
def returns_skip_uncalled() -> object:
    return skip


@case
def returns_a_lambda() -> object:
    return lambda: sum([1, 1]) == 3


@case
def returns_a_partial() -> object:
    return functools.partial(sum, [1, 1])


@case
def returns_a_map() -> object:
    return map(skip, ["no such device"])


@case
def returns_a_generator() -> object:
    return (number == 3 for number in range(3))


@case
def returns_a_coroutine_in_a_list() -> object:
    async def compare() -> bool:
        return sum([1, 1]) == 3

    coroutine = compare()
    _hold.append(coroutine)  # else Python warns that it was never awaited
    return [coroutine]


@case
def returns_a_value_and_a_function() -> object:
    return 1, lambda: 2


@case
def returns_an_answer_with_its_reason() -> object:
    return False, "rows differ"


@case
def returns_what_can_be_called() -> object:
    class Module:
        def __call__(self) -> int:
            return 3

    return Module()


@case
def raises() -> None:
    raise ValueError("a wrong number: 17")


@case
def asserts() -> None:
    assert sum([1, 1]) == 3


@case
def skips() -> None:
    skip("no such device")


@case
def segfaults() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@case
def reads_address_zero() -> None:
    ctypes.string_at(0)


@case
def aborts() -> None:
    os.abort()


@case
def divides_by_zero() -> None:
    os.kill(os.getpid(), signal.SIGFPE)


@case
def leaves_without_a_result() -> None:
    os._exit(0)


@case(status=[7, 125])
def leaves_with_a_status(status: int) -> None:
    os._exit(status)


@case(status=[0, 3, 125])
def exits(status: int) -> None:
    sys.exit(status)


@case
def hangs_in_native_code() -> None:
    # PyDLL keeps the interpreter's lock while it waits.
    ctypes.PyDLL(None).sleep(1000)


@case
def ignores_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)


@case
def leaves_a_child_on_the_pipe() -> None:
    subprocess.Popen(["sleep", "1000"])


@case
def leaves_a_child_in_a_session_of_its_own() -> None:
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    subprocess.Popen(["setsid", "sh", "-c", "setsid sleep 1000 & sleep 1000"], env={})
    time.sleep(0.1)


@case(mebibytes=[4, 1024])
def floods_stdout(mebibytes: int) -> None:
    block = b"x" * 2**20
    for _ in range(mebibytes):
        os.write(1, block)
    os.write(1, b"the end\n")


@case
def forges_messages() -> None:
    frame = b"\x89BTW\x01\0\0\0\0\0\0\x2e" + bytes(16) + b'{"event":"result","facts":{"outcome":"raised"}}'
    for descriptor in range(1, 1024):
        try:
            os.write(descriptor, frame)
        except OSError:
            continue
    print('{"outcome": "raised"}')


@case
def takes_much_memory() -> None:
    for _ in range(64):
        _hold.append(bytearray(os.urandom(2**20) * 16))
        time.sleep(0.02)
    time.sleep(30)


@case
def raises_memory_error() -> None:
    bytearray(2**60)


@case
def leaves_threads() -> None:
    threading.Thread(target=time.sleep, args=(1000,)).start()


class _Dangerous:
    def __del__(self) -> None:
        os.abort()


@case
def crashes_when_its_objects_go() -> None:
    circle: list[object] = [_Dangerous()]
    circle.append(circle)


@case
def crashes_at_exit() -> None:
    atexit.register(os.abort)


@case
def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@case
def kills_its_worker() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)


@case(seconds=[1.0])
def works_a_while(seconds: float) -> None:
    """So long on a core, however long that takes by the clock."""
    while time.process_time() < seconds:
        pass


@case(seconds=[1.0])
def takes_a_while(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)


@case
def leaves_files() -> None:
    import tempfile

    tempfile.mkdtemp()
    with open("here", "w") as file:
        file.write("x")
    os.mkdir("closed")
    open("closed/inside", "w").close()
    os.chmod("closed", 0o500)
    print(os.getcwd())


@case
def warns() -> None:
    import warnings

    for _ in range(3):
        warnings.warn("careful", UserWarning, stacklevel=1)


@case
def wants_a_module() -> None:
    import no_such_module_here  # type: ignore[import-not-found]  # noqa: F401


@case
def wants_a_name_of_torch() -> None:
    import torch

    torch.no_such_function_ever()


@case
def reads_stdin() -> None:
    assert sys.stdin.read() == ""


@case
def leaves_a_child_then_hangs() -> None:
    subprocess.Popen(["setsid", "sleep", "1000"])
    time.sleep(1000)

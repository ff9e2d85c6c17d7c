"""Work in a few threads: in order, and ended by the first thing that goes wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bisect_torch.threads import map_in_threads


def test_answers_come_in_the_order_of_the_items() -> None:
    def late(number: int) -> int:
        time.sleep((5 - number) * 0.01)
        return number * number

    assert map_in_threads(late, range(6), threads=3) == [0, 1, 4, 9, 16, 25]
    assert map_in_threads(late, [], threads=3) == []


def test_what_has_not_begun_never_does_after_an_exception() -> None:
    begun: list[int] = []
    go_on = threading.Event()

    def fails(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("no")
        go_on.wait(5)

    with pytest.raises(ValueError, match="no"):
        map_in_threads(fails, range(50), threads=2)
    go_on.set()
    time.sleep(0.05)
    assert len(begun) <= 4


def test_an_interrupted_program_does_not_wait_for_its_threads() -> None:
    program = "import os, signal, time, threading\nfrom bisect_torch.threads import map_in_threads\n"
    program += "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
    program += "map_in_threads(lambda _: time.sleep(60), range(20), threads=4)\n"
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[1], capture_output=True)
    assert b"KeyboardInterrupt" in done.stderr
    assert time.monotonic() - begin < 10


def test_threads_that_look_for_uv_at_once_all_find_it() -> None:
    """Before Python 3.12, the second to ask for the interpreter's settings met them half filled."""
    program = "import sys, threading, uv\nfrom bisect_torch.threads import map_in_threads\n"
    program += "sys.setswitchinterval(1e-6)\nat_once = threading.Barrier(4)\n"
    program += "def find(_):\n    at_once.wait()\n    return uv.find_uv_bin()\n"
    program += "assert len(set(map_in_threads(find, range(4), threads=4))) == 1\n"
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

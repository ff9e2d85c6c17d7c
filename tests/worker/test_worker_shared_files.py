"""What a killed cell has made in ``/dev/shm`` goes with it, and nothing that may be anybody else's."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.model import Isolation
from bisect_torch.worker import shared_files, system
from tests.worker.support import StartWorker

pytestmark = pytest.mark.skipif(not system.LINUX, reason="/dev/shm is Linux's")

CASES = """
import ctypes, mmap, os, time
from bisect_torch import case

NAME = {name!r}

def makes(kind):
    path = "/dev/shm/" + NAME
    if kind == "open":
        return open(path, "wb")
    if kind == "mapped":
        with open(path, "w+b") as file:
            file.write(bytes(4096))
            file.flush()
            return mmap.mmap(file.fileno(), 4096)
    if kind == "semaphore":
        libc = ctypes.CDLL(None)
        libc.sem_open.restype = ctypes.c_void_p
        return libc.sem_open(("/" + NAME[4:]).encode(), os.O_CREAT, 0o600, 1)
    if kind == "found":  # somebody else's, which is there already
        return open(path, "r+b")
    return open(path, "rb")  # read

@case(kind=["open", "mapped", "semaphore", "found", "read"])
def hangs(kind):
    held = makes(kind)
    time.sleep(1000)

@case(kind=["open", "mapped", "semaphore"])
def its_child_stays(kind):
    ready, done = os.pipe()
    if os.fork() == 0:
        os.setsid()
        held = makes(kind)
        os.write(done, b"x")
        time.sleep(1000)
    os.read(ready, 1)
"""


@pytest.fixture
def path() -> Iterator[Path]:
    """In ``/dev/shm``, with the name that a semaphore has there."""
    path = Path(shared_files.FOLDER, f"sem.bt{secrets.token_hex(6)}")
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def cases(path: Path, tmp_path: Path) -> Path:
    file = tmp_path / "cases.py"
    file.write_text(CASES.format(name=path.name))
    return file


def run(start: StartWorker, cases: Path, case: str, kind: str, isolation: Isolation = Isolation.FORK) -> str:
    request = CellRequest(cases, "case", case, parameters={"kind": kind}, timeout_s=0.5, isolation=isolation)
    return str(start().run(request)["outcome"])


@pytest.mark.parametrize("kind", ["open", "mapped", "semaphore"])
def test_what_a_cell_held_when_it_was_killed_goes_with_it(
    start: StartWorker, cases: Path, path: Path, kind: str, isolation: Isolation
) -> None:
    assert run(start, cases, "hangs", kind, isolation) == "timed_out"
    assert not path.exists()


@pytest.mark.parametrize("kind", ["open", "mapped", "semaphore"])
def test_what_a_child_held_that_a_cell_has_left_goes_too(
    start: StartWorker, cases: Path, path: Path, kind: str
) -> None:
    assert run(start, cases, "its_child_stays", kind) == "returned"
    assert not path.exists()


@pytest.mark.parametrize("kind", ["found", "read"])
def test_what_was_there_before_the_cell_stays(start: StartWorker, cases: Path, path: Path, kind: str) -> None:
    path.write_bytes(b"somebody else's")
    assert run(start, cases, "hangs", kind) == "timed_out"
    assert path.read_bytes() == b"somebody else's"


def made_and_held(path: Path) -> set[int]:
    with open(path, "wb"):
        held = shared_files.held_by(os.getpid())
    inode = path.stat().st_ino
    assert inode in held
    return {inode}


def test_what_another_process_has_open_or_mapped_stays(path: Path) -> None:
    held = made_and_held(path)
    for mode in ("rb", "r+b"):
        with open(path, mode):
            shared_files.remove(held, ())
            assert path.exists()
    shared_files.remove(held, ())
    assert not path.exists()


def test_what_another_process_has_only_mapped_stays(path: Path) -> None:
    import mmap

    held = made_and_held(path)
    path.write_bytes(bytes(4096))
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
    shared_files.remove(held, ())
    assert path.exists()
    mapped.close()


@pytest.mark.parametrize("how", ["another file of that name", "a second name", "another owner"])
def test_what_may_be_another_s_stays(path: Path, how: str) -> None:
    held = made_and_held(path)
    second = path.with_name(path.name + "-2")
    if how == "another file of that name":
        second.touch()  # so that the number is not given again
        path.unlink()
        path.touch()
    elif how == "a second name":
        os.link(path, second)
    elif os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        pytest.skip("only root can give a file away")
    try:
        shared_files.remove(held, ())
        assert path.exists()
    finally:
        second.unlink(missing_ok=True)


def test_what_is_only_read_is_not_held(path: Path) -> None:
    path.touch()
    with open(path, "rb"):
        assert path.stat().st_ino not in shared_files.held_by(os.getpid())

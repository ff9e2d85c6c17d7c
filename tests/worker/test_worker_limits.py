"""memory= and timeout= as functions of the parameters: what they tell for each instance, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_torch import cases
from bisect_torch.engine.worker_process import CaseFileError, WorkerProcess
from bisect_torch.model import Limits
from tests.worker.support import StartWorker

KINDS = ("cpu", "cuda", "mps", "xpu")
GIB = 2**30


@pytest.fixture
def worker(start: StartWorker) -> WorkerProcess:
    return start()


def write(folder: Path, options: str) -> Path:
    path = folder / "cases.py"
    path.write_text(f"from bisect_torch import case, thorough\n@case({options}, batch=[1, 2])\ndef f(batch): ...\n")
    return path


def limits(worker: WorkerProcess, path: Path, device: str, *, thorough: bool = False) -> list[Limits]:
    (found,) = cases.discover([path])
    assert found.instances is None, "a function is known only by running the file"
    instances = cases.from_expansion(found, worker.expand(path, thorough=thorough))
    return [instance.limits_on(device) for instance in instances]


@pytest.mark.parametrize(
    ("options", "device", "expected"),
    [
        ("memory=lambda batch: 10 * batch", "cuda:1", [dict.fromkeys(KINDS, 10), dict.fromkeys(KINDS, 20)]),
        ("memory=lambda: '1 GiB'", "cpu", [dict.fromkeys(KINDS, GIB)] * 2),
        ("memory=lambda **all: all['batch']", "cpu", [dict.fromkeys(KINDS, 1), dict.fromkeys(KINDS, 2)]),
        ("memory=lambda batch, unit=3: {'cuda': unit * batch}", "cuda", [{"cuda": 3}, {"cuda": 6}]),
        ("memory=lambda device, batch: {'cpu': 5, device: 7 * batch}", "cuda", [{"cpu": 5, "cuda": 7},
                                                                                {"cpu": 5, "cuda": 14}]),
        ("memory=lambda device, batch: {'cpu': 5, device: 7 * batch}", "cpu", [{"cpu": 7}, {"cpu": 14}]),
        ("memory=lambda device, batch: {'cpu': batch}", "mps", [{"cpu": 1}, {"cpu": 2}]),
        ("memory=lambda device, batch: batch if device == 'cuda' else None", "cuda:0", [{"cuda": 1}, {"cuda": 2}]),
        ("memory=lambda device, batch: batch if device == 'cuda' else None", "cpu", [{}, {}]),
        ("memory=lambda batch: None", "cpu", [{}, {}]),
    ],
)  # fmt: skip
def test_memory_of_an_instance(
    worker: WorkerProcess, tmp_path: Path, options: str, device: str, expected: list[dict[str, int]]
) -> None:
    found = limits(worker, write(tmp_path, options), device)
    assert [each.memory for each in found] == expected
    assert {each.timeout_s for each in found} == {None}


def test_time_of_an_instance(worker: WorkerProcess, tmp_path: Path) -> None:
    path = write(tmp_path, "timeout=lambda batch: 30 * batch, memory=7")
    assert limits(worker, path, "cpu") == [Limits(dict.fromkeys(KINDS, 7), seconds) for seconds in (30.0, 60.0)]
    path = write(tmp_path, "timeout=lambda device: {'mps': 5}.get(device)")
    assert [limits(worker, path, device)[0].timeout_s for device in ("mps", "cpu", "unheard")] == [5.0, None, None]


def test_a_thorough_run_may_need_more(worker: WorkerProcess, tmp_path: Path) -> None:
    path = write(tmp_path, "timeout=lambda: 900 if thorough() else 60")
    assert [limits(worker, path, "cpu", thorough=each)[0].timeout_s for each in (False, True)] == [60.0, 900.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("memory=lambda size: 1", "case 'f': memory=: its function takes 'size', which is no parameter"),
        ("memory=lambda batch, /: 1", "case 'f': memory=: its function takes 'batch' by position, not by name"),
        ("timeout=dict", "case 'f': timeout=: the arguments of <class 'dict'> cannot be known; use a lambda"),
        ("memory=lambda batch: 4 // (2 - batch)",
         "case 'f': memory=: its function raised for batch=2: ZeroDivisionError: integer division or modulo by zero"),
        ("memory=lambda batch: -batch", "case 'f': memory=: for batch=1: memory is a number of bytes or a text such as "
                                        '"14 GiB", not -1'),
        ("memory=lambda device: {'cuda:0': 1}",
         "case 'f': memory=: for batch=1: memory is given for a device type such as 'cuda', not for 'cuda:0'"),
        ("timeout=lambda: '5'", "case 'f': timeout=: for batch=1: timeout is a positive number of seconds, not '5'"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_limit_is_refused_with_case_and_option(
    worker: WorkerProcess, tmp_path: Path, options: str, message: str
) -> None:
    path = write(tmp_path, options)
    with pytest.raises(CaseFileError) as caught:
        worker.expand(path)
    # With the line, where something of the file was running.
    assert str(caught.value).replace(".py:2:", ".py") == f"{path} cannot be loaded: DeclarationError: {message}"

"""record(): named facts of a cell, kept whatever happens to it afterwards short of a crash."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.worker_process import WorkerProcess
from bisect_torch.model import FACT_FIELDS, Isolation
from bisect_torch.worker import recording
from tests.worker.support import StartWorker

CASES = """
from bisect_torch import case, check, record, skip

record(outside="a cell")

@case
def returns():
    record(compared=[[0, 3], [65535, 65536]], coverage=0.25)
    record(coverage=0.5, model=None, ok=True, name="é\\ud800")

@case
def nothing(): pass

@case
def raises():
    record(before=1)
    raise RuntimeError("no")

@case
def fails():
    record(before=[1, 2])
    assert False

@case
def skips():
    record(needed=17)
    skip("too little memory")

@case
def leaves():
    record(before="exit")
    raise SystemExit(3)

@case
def not_json():
    record(fine=1)
    record(also_fine=2, shape=object())

@case
def too_much():
    record(fine=1)
    record(tokens=list(range(5000)))
"""


@pytest.fixture
def worker(start: StartWorker) -> WorkerProcess:
    return start()


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "cases.py"
    path.write_text(CASES)
    return path


def measured(facts: dict[str, object]) -> object:
    return json.loads(str(facts["measurements"]))


@pytest.mark.parametrize(
    ("case", "outcome", "expected"),
    [
        ("returns", "returned", {"compared": [[0, 3], [65535, 65536]], "coverage": 0.5, "model": None, "ok": True,
                                 "name": "é\ud800"}),
        ("raises", "raised", {"before": 1}),
        ("fails", "raised", {"before": [1, 2]}),
        ("skips", "skipped", {"needed": 17}),
        ("leaves", "exited", {"before": "exit"}),
    ],
)  # fmt: skip
def test_what_was_recorded_is_kept_however_the_case_ends(
    worker: WorkerProcess, cases: Path, isolation: Isolation, case: str, outcome: str, expected: object
) -> None:
    facts = worker.run(CellRequest(cases, "case", case, isolation=isolation))
    assert (facts["outcome"], measured(facts)) == (outcome, expected)
    assert set(facts) - {"outcome"} <= FACT_FIELDS


def test_every_cell_begins_with_nothing(worker: WorkerProcess, cases: Path) -> None:
    assert "measurements" in worker.run(CellRequest(cases, "case", "returns"))
    assert "measurements" not in worker.run(CellRequest(cases, "case", "nothing"))


@pytest.mark.parametrize(
    ("case", "error", "message"),
    [
        (
            "not_json",
            "TypeError",
            "record(shape=…): texts, numbers, booleans, None and lists of such can be kept, not object",
        ),
        (
            "too_much",
            "ValueError",
            "record(tokens): the facts of a cell may take 16384 bytes of JSON, these take 23911",
        ),
    ],
)
def test_what_cannot_be_kept_is_an_error_of_the_case_and_loses_nothing_before_it(
    worker: WorkerProcess, cases: Path, case: str, error: str, message: str
) -> None:
    facts = worker.run(CellRequest(cases, "case", case))
    assert (facts["error_type"], facts["message"], facts["frame"]) == (error, message, f"cases:{case}")
    assert measured(facts) == {"fine": 1}


@pytest.mark.parametrize("end", ["", "raise SystemExit(125)", "skip('no')", "assert False", "1 / 0"])
def test_a_script_records_too(worker: WorkerProcess, tmp_path: Path, end: str) -> None:
    path = tmp_path / "repro.py"
    path.write_text(textwrap.dedent("from bisect_torch import record, skip\nrecord(batch=3)\n") + end)
    facts = worker.run(CellRequest(path, "script", "repro", isolation=Isolation.PROCESS, cwd=tmp_path))
    assert measured(facts) == {"batch": 3}


def test_numbers_that_json_does_not_have_are_kept_as_texts() -> None:
    recording.forget_records()
    recording.record(a=float("nan"), b=[float("inf"), -float("inf")], c=())
    assert recording.recorded() == '{"a":"nan","b":["inf","-inf"],"c":[]}'
    recording.forget_records()
    assert recording.recorded() is None

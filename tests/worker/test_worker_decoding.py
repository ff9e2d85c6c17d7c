"""Cells that decode in two processes, as a worker runs them: forked, in a process of their own, and killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.model import Isolation
from bisect_torch.shipped import shipped
from tests.worker.support import StartWorker

pytestmark = pytest.mark.real_torch

CASES = Path(str(shipped("cases"))) / "decoding_greedy.py"
TWO = {"dtype": "float32", "batch": 32}


@pytest.mark.slow
def test_threads_and_processes_are_the_case_s_own_in_forks_and_in_fresh_processes(
    start: StartWorker, real_python: Path
) -> None:
    worker = start("eager", python=real_python, threads=1)
    found = set()
    for isolation in Isolation:
        for case, parameters in (
            ("two_threads", {"dtype": "float32", "batch": 32, "padding": 23}),
            ("two_processes", TWO),
        ):
            facts = worker.run(
                CellRequest(CASES, "case", case, parameters=parameters, isolation=isolation, timeout_s=180.0, seed=1)
            )
            assert (facts["outcome"], facts["wrong_elements"]) == ("returned", 0), facts
            assert facts["threads"] == (2 if case == "two_threads" else 1)
            found.add(json.loads(str(facts["measurements"]))["tokens"])
    assert len(found) == 1


def test_a_cell_whose_time_is_over_takes_its_second_process_along(start: StartWorker, real_python: Path) -> None:
    """The fixture looks for what is left of the worker."""
    worker = start("eager", python=real_python, threads=1)
    facts = worker.run(CellRequest(CASES, "case", "two_processes", parameters=TWO, timeout_s=0.7, seed=1))
    assert facts["outcome"] == "timed_out"

"""The worker with real releases of torch."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bisect_torch.engine.cell_request import CellRequest
from bisect_torch.engine.worker_process import WorkerProcess
from bisect_torch.model import Isolation
from tests.worker.support import StartWorker

pytestmark = pytest.mark.real_torch

CASES = Path(__file__).with_name("real_torch_cases.py")


def run(worker: WorkerProcess, case: str, **options: object) -> dict[str, object]:
    return worker.run(CellRequest(CASES, "case", case, timeout_s=60.0, **options))  # type: ignore[arg-type]


def test_forks_of_a_worker_use_torch_as_a_fresh_process_does(start: StartWorker, real_python: Path) -> None:
    worker = start("eager", python=real_python, threads=2)
    for isolation in (Isolation.FORK, Isolation.PROCESS):
        facts = run(worker, "adds", isolation=isolation, seed=1)
        assert (facts["outcome"], facts["wrong_elements"], facts["threads"]) == ("returned", 0, 2)
        assert facts["isolation"] == isolation.value
        # Its own growth, not the some 500 MB that a process with torch has; kernels, too, are paged in by the cell.
        assert int(str(facts["peak_rss_bytes"])) < 200 * 2**20
    for case in ("multiplies_on_all_threads", "goes_backward") * 2:
        assert run(worker, case)["outcome"] == "returned"
    digests = {str(run(worker, "adds")["digest"]) for _ in range(20)}
    assert len(digests) == 1
    assert run(worker, "adds")["worker"] == worker.worker_id


def test_what_torch_raises_as_facts(start: StartWorker, real_python: Path) -> None:
    expected: dict[str, dict[str, object]] = {
        "asks_for_too_much": {"outcome": "out_of_memory"},
        "misses_a_function": {"absent_name": "torch.nn.functional.no_such_function"},
        "misses_a_method": {"absent_name": "torch.Tensor.no_such_method"},
        "misses_a_keyword": {"absent_name": "no_such_keyword=", "error_type": "TypeError"},
        "misses_an_operator": {"error_type": "AttributeError", "frame_origin": "torch"},
        "is_not_close": {"error_type": "AssertionError", "frame_origin": "torch.testing"},
        "fails_in_a_backend": {"error_type": "BackendCompilerFailed", "root_type": "KeyError"},
    }
    worker = start("eager", python=real_python)
    facts = {case: run(worker, case) for case in expected}
    assert {case: {name: facts[case].get(name) for name in expected[case]} for case in expected} == expected
    assert "no_such_operator" in str(facts["misses_an_operator"]["absent_name"])


def test_a_comparison_of_elements_is_no_answer(start: StartWorker, real_python: Path) -> None:
    worker = start("eager", python=real_python)
    assert "several truth values" in str(run(worker, "returns_a_comparison")["reason"])
    assert "reason" not in run(worker, "returns_a_comparison_that_holds")


@pytest.mark.slow
def test_a_compiled_case_starts_from_a_stage_that_has_loaded_inductor(start: StartWorker, real_python: Path) -> None:
    worker = start("eager", python=real_python, path=compiler_path(real_python))
    assert worker.prepare("compile") == ""
    facts = [run(worker, "compiles", needs_compile=True) for _ in range(2)]
    assert [each["outcome"] for each in facts] == ["returned", "returned"], facts
    assert {each["isolation"] for each in facts} == {"fork"}
    assert max(float(str(each["elapsed_s"])) for each in facts) < 45


@pytest.mark.slow
def test_without_a_compiler_the_failure_names_the_capability(start: StartWorker, real_python: Path) -> None:
    worker = start("eager", python=real_python, path=str(real_python.parent))
    facts = run(worker, "compiles", needs_compile=True)
    assert facts["outcome"] == "raised"
    assert "compile" in json.loads(str(facts["capabilities"]))
    assert facts.get("missing_module") is None


def compiler_path(python: Path) -> str:
    return os.pathsep.join([str(python.parent), os.environ["PATH"]])

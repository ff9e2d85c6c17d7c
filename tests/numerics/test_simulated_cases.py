"""The shipped simulated cells recognise every fault, fail when the judge is broken, and show a model's corruption."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("programs") / "simulated_cases.py"
ENDS = pytest.mark.parametrize("end", ["oldest", "newest"])


FEW = ['bmm{"fault": "tail not', 'bmm{"fault": "none']
QUICK = {
    "some": {"file": "large_index_simulated.py", "step": 4, "words": ["simulated"]},
    "models": {"file": "large_index_simulated.py", "step": 1, "words": FEW, "broken": "models"},
    "judge": {"file": "large_index_simulated.py", "step": 1, "words": FEW, "broken": "judge"},
    "classifier": {"file": "large_index_classifier.py", "step": 1, "words": ["_scaled", "none", "rules"]},
}
ALL = {"all": {"file": "large_index_simulated.py", "step": 1, "words": ["simulated"]}}


@lru_cache
def outcomes(python: Path, runs: str) -> dict[str, dict[str, dict[str, Any]]]:
    ended = subprocess.run([python, PROGRAM, REPOSITORY, runs], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def quick(real_torch: Mapping[str, Path], end: str, run: str) -> dict[str, dict[str, Any]]:
    return outcomes(interpreter(real_torch, end), json.dumps(QUICK))[run]


def interpreter(real_torch: Mapping[str, Path], end: str) -> Path:
    versions = sorted(real_torch, key=Version)
    return real_torch[versions[0 if end == "oldest" else -1]]


def wrong(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [name for name, cell in found.items() if cell["verdict"] != "ok"]


@pytest.mark.real_torch
@ENDS
def test_some_simulated_cells_recognise_their_fault(real_torch: Mapping[str, Path], end: str) -> None:
    found = quick(real_torch, end, "some")
    assert len(found) >= 9
    assert wrong(found) == []


@pytest.mark.slow
@pytest.mark.real_torch
@ENDS
def test_all_simulated_cells_recognise_their_fault(real_torch: Mapping[str, Path], end: str) -> None:
    found = outcomes(interpreter(real_torch, end), json.dumps(ALL))["all"]
    assert len(found) == 36
    assert wrong(found) == []
    assert {cell["simulated_verdict"] for cell in found.values()} == {"ok", "wrong", "error"}


@pytest.mark.real_torch
@ENDS
@pytest.mark.parametrize("broken", ["models", "judge"])
def test_a_broken_judge_makes_simulated_cells_wrong(real_torch: Mapping[str, Path], broken: str, end: str) -> None:
    found = quick(real_torch, end, broken)
    harmless = {name for name, cell in found.items() if cell["simulated_fault"] is None}
    assert harmless
    assert set(wrong(found)) == set(found) - harmless
    assert wrong(found)


@pytest.mark.real_torch
@ENDS
def test_the_classifier_gives_the_same_labels_in_one_batch(real_torch: Mapping[str, Path], end: str) -> None:
    scaled = [cell for name, cell in quick(real_torch, end, "classifier").items() if "_scaled" in name]
    assert len(scaled) == 2
    for cell in scaled:
        assert (cell["verdict"], cell["changed_labels"], cell["accuracy"]) == ("ok", 0, 1.0)


@pytest.mark.real_torch
@ENDS
def test_a_simulated_fault_corrupts_the_classifier(real_torch: Mapping[str, Path], end: str) -> None:
    cells = [cell for cell in quick(real_torch, end, "classifier").values() if "fault" in cell["choice"]]
    simulated = {(cell["choice"]["fault"], cell["choice"]["layout"]): cell for cell in cells}
    assert len(simulated) == 4
    for (fault, _), cell in simulated.items():
        assert cell["verdict"] == "ok"
        assert (cell["changed_labels"] > 0) == (fault != "none")
        assert cell["accuracy"] == 1.0  # in small batches, below the border
    by_rule_3 = simulated["the three rules of MPS", "contiguous"]
    # 28 texts of 2304 attention weights lie below 2**16: the labels of these stay.
    assert by_rule_3["first_changed_text"] >= 28
    assert by_rule_3["changed_to_majority"] == 1.0
    assert by_rule_3["collapsed_share"] > by_rule_3["expected_share"] + 0.1
    by_rule_1 = simulated["the three rules of MPS", "transposed"]
    assert by_rule_1["first_changed_text"] < 28
    assert by_rule_1["changed_share"] > by_rule_3["changed_share"]

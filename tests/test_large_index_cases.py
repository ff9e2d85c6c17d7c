"""The large-index cases beside ``bmm``: every rule of their program holds on the oldest and on the newest release."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from bisect_torch.shipped import shipped
from tests.numerics.test_on_real_torch import ends, outcomes, rules

PROGRAM = "large_index_cases"
CASES = Path(str(shipped("cases")))
FILES = ("large_index_neighbours.py", "large_index_wrappers.py")


@pytest.mark.real_torch
@pytest.mark.parametrize("end", ["oldest", "newest"])
@pytest.mark.parametrize("rule", rules(PROGRAM))
def test_rule(real_torch: Mapping[str, Path], rule: str, end: str) -> None:
    outcome = outcomes(ends(real_torch)[end], (PROGRAM,))[PROGRAM][rule]
    if isinstance(outcome, dict):
        pytest.fail(outcome["failed"], pytrace=False)


@pytest.mark.parametrize("file", FILES)
def test_every_case_states_its_memory_unless_it_is_small(file: str) -> None:
    functions = [node for node in ast.parse((CASES / file).read_text()).body if isinstance(node, ast.FunctionDef)]
    declared = {}
    for function in functions:
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call):
                declared[function.name] = {keyword.arg for keyword in decorator.keywords}
    assert len(declared) >= 6
    assert {name for name, keywords in declared.items() if "memory" not in keywords} <= {"bmm_of_long_sums"}

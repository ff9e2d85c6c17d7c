"""Every rule in ``programs/`` holds on the oldest and on the newest release, with and without vector instructions."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

PROGRAMS = Path(__file__).with_name("programs")
REPOSITORY = Path(__file__).resolve().parents[2]


def rules(program: str) -> list[str]:
    tree = ast.parse((PROGRAMS / f"{program}.py").read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("rule_")]


NAMES = ("comparing", "digesting", "running", "simulated_backend")
RULES = [(program, rule) for program in NAMES for rule in rules(program)]


@lru_cache
def outcomes(python: Path, programs: tuple[str, ...] = NAMES, capability: str = "") -> dict[str, dict[str, Any]]:
    variables = {**os.environ, **({"ATEN_CPU_CAPABILITY": capability} if capability else {})}
    command = [python, PROGRAMS / "runner.py", REPOSITORY, *(PROGRAMS / f"{name}.py" for name in programs)]
    ended = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def ends(real_torch: Mapping[str, Path]) -> dict[str, Path]:
    versions = sorted(real_torch, key=Version)
    return {"oldest": real_torch[versions[0]], "newest": real_torch[versions[-1]]}


@pytest.mark.real_torch
@pytest.mark.parametrize("end", ["oldest", "newest"])
@pytest.mark.parametrize(("program", "rule"), RULES)
def test_rule(real_torch: Mapping[str, Path], program: str, rule: str, end: str) -> None:
    outcome = outcomes(ends(real_torch)[end])[program][rule]
    if isinstance(outcome, dict):
        pytest.fail(outcome["failed"], pytrace=False)


@pytest.mark.real_torch
def test_digests_and_inputs_do_not_depend_on_release_or_instruction_set(real_torch: Mapping[str, Path]) -> None:
    oldest = outcomes(ends(real_torch)["oldest"])["digesting"]
    newest = outcomes(ends(real_torch)["newest"])["digesting"]
    plain = outcomes(ends(real_torch)["newest"], ("digesting",), "default")["digesting"]
    returned = {rule for rule, value in oldest.items() if value is not None}
    assert "rule_inputs_are_the_same_everywhere" in returned
    assert oldest == newest == plain

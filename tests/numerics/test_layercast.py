"""LayerCast is bit for bit the float32 model with rounded weights, on the oldest and the newest release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.numerics.test_on_real_torch import ends, outcomes, rules

PROGRAMS = ("casting", "casting_edges")


@pytest.mark.real_torch
@pytest.mark.parametrize("end", ["oldest", "newest"])
@pytest.mark.parametrize(("program", "rule"), [(program, rule) for program in PROGRAMS for rule in rules(program)])
def test_rule(real_torch: Mapping[str, Path], program: str, rule: str, end: str) -> None:
    outcome = outcomes(ends(real_torch)[end], PROGRAMS)[program][rule]
    if isinstance(outcome, dict):
        pytest.fail(outcome["failed"], pytrace=False)

"""Every rule in ``programs/large_index.py`` holds on the oldest and on the newest release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.numerics.test_on_real_torch import ends, outcomes, rules

PROGRAM = "large_index"


@pytest.mark.real_torch
@pytest.mark.parametrize("end", ["oldest", "newest"])
@pytest.mark.parametrize("rule", rules(PROGRAM))
def test_rule(real_torch: Mapping[str, Path], rule: str, end: str) -> None:
    outcome = outcomes(ends(real_torch)[end], (PROGRAM,))[PROGRAM][rule]
    if isinstance(outcome, dict):
        pytest.fail(outcome["failed"], pytrace=False)


@pytest.mark.real_torch
def test_inputs_do_not_depend_on_the_release(real_torch: Mapping[str, Path]) -> None:
    oldest, newest = (outcomes(python, (PROGRAM,))[PROGRAM] for python in ends(real_torch).values())
    assert oldest == newest
    assert oldest["rule_inputs_repeat_after_their_period_hold_no_zero_and_are_the_same_everywhere"] is not None

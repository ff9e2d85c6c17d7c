"""A name that a torch lacks is neither good nor bad in a search, unless it is what the search is for."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.engine.conftest import MakeTool
from tests.engine.test_bisect import bisect, pairs
from tests.engine.test_scenarios import ABSENT, CASES, OK, RAISES, WRONG


@dataclass(frozen=True)
class Scenario:
    bodies: list[str]
    boundaries: list[tuple[int, int]]
    sentences: list[str]
    words: list[str] = field(default_factory=list)
    code: int = 0
    swapped: bool = False


SCENARIOS = {
    "first available, told without being asked": Scenario(
        [ABSENT, ABSENT, ABSENT, OK, OK], [], ["is first available in 2.4.0 (absent up to 2.3.0)"],
    ),
    "first available, when asked": Scenario(
        [ABSENT, ABSENT, ABSENT, OK, OK], [(2, 3)], ["is first available in 2.4.0 (absent up to 2.3.0)"],
        ["--absent", "judge"], swapped=True,
    ),
    "first available in the newer of two": Scenario([ABSENT, OK], [], ["is first available in 2.2.0"]),
    "absence is not the bug": Scenario(
        [OK, OK, ABSENT, ABSENT, RAISES, RAISES], [(1, 4)],
        ["is gone from 2.3.0", "is available again in 2.5.0",
         "raises RuntimeError from 2.5.0 or an earlier release that was not run (last good 2.2.0)"],
        code=1,
    ),
    "gone": Scenario([OK, OK, ABSENT, ABSENT], [], ["is gone from 2.3.0 on (last available in 2.2.0)"], code=3),
    "gone, when asked": Scenario(
        [OK, OK, ABSENT, ABSENT], [(1, 2)], ["is gone from 2.3.0 on"], ["--absent", "judge"], code=1,
    ),
    "wrong since it is available": Scenario(
        [ABSENT, ABSENT, WRONG, WRONG], [], ["is first available in 2.3.0, where the case fails an assertion"],
        code=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "absence is not the bug" else pytest.mark.slow) for name in SCENARIOS],
)
def test_a_name_that_is_missing_here_and_there(make_tool: MakeTool, name: str) -> None:
    scenario = SCENARIOS[name]
    builds = [f"2.{minor}.0" for minor in range(1, len(scenario.bodies) + 1)]
    tool = make_tool(dict(zip(builds, scenario.bodies, strict=True)))
    tool.write("cases.py", CASES)
    good, bad = (builds[-1], builds[0]) if scenario.swapped else (builds[0], builds[-1])

    answer = bisect(tool, "cases.py", "--good", good, "--bad", bad, *scenario.words, "--json")

    assert pairs(answer) == [(builds[older], builds[newer]) for older, newer in scenario.boundaries], answer.stderr
    found = sorted(answer.sentences())
    assert len(found) == len(scenario.sentences), found
    for sentence in scenario.sentences:
        assert any(sentence in each for each in found), (sentence, found)
    assert not any("fixed" in each or "not confirmed" in each for each in found)
    assert answer.code == scenario.code
    if scenario.swapped:
        assert answer.data["search"]["rows"][0]["remarks"] == []

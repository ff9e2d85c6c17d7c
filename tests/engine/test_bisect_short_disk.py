"""A search on a disk that does not hold all the environments that it needs: they come and go, nothing else differs."""

from __future__ import annotations

import json
import re

import pyarrow.parquet as pq
import pytest

from tests.engine.conftest import MakeTool
from tests.engine.test_bisect import pairs
from tests.support.tool import Answer, Tool

OK, WRONG = "def answer(): return 42", "def answer(): return 41"
NAMES = [f"2.{minor}.0" for minor in range(1, 14)]
BROKE = "2.8.0"
VERSIONS = {name: WRONG if NAMES.index(name) >= NAMES.index(BROKE) else OK for name in NAMES}
ENDS = ("--good", NAMES[0], "--bad", NAMES[-1])

CASES = """
import os, sys
import torch
from bisect_torch import case, record

@case
def answers():
    record(environments=len(os.listdir(os.path.dirname(sys.prefix))))
    assert torch.answer() == 42
"""

ROOM = {1: "1080MB", 2: "1150MB", 3: "1210MB"}
"""Environments at once: a reserve of 1 GB, and each of some kilobytes is counted with 60 MB of bytecode."""


@pytest.fixture
def tool(make_tool: MakeTool) -> Tool:
    made = make_tool(VERSIONS)
    made.write("cases.py", CASES)
    return made


def bisect(tool: Tool, *words: str) -> Answer:
    own = ["--index-url", tool.index.url, "--python", tool.python, "--store", str(tool.folder / "store")]
    return tool.call(tool.words("bisect", "cases.py", *ENDS, *words, *own))


def measured(tool: Tool) -> list[int]:
    """How many environments stood side by side when each cell ran."""
    facts = pq.read_table(tool.folder / "results.parquet", columns=["measurements"]).column(0).to_pylist()
    return [json.loads(text)["environments"] for text in facts]


def made(tool: Tool) -> list[str]:
    """Every wheel of torch that was downloaded, in order."""
    wheels = [each for each in tool.index.requested("/files/torch-*.whl") if each.range is None]
    return [each.path.split("-")[1] for each in wheels if each.method == "GET"]


@pytest.fixture
def long(make_tool: MakeTool, tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """The same search with all the disk that it wants."""
    tool = make_tool(VERSIONS)
    tool = Tool(tmp_path_factory.mktemp("long"), tool.index)
    tool.write("cases.py", CASES)
    answer = bisect(tool, "--json")
    assert max(measured(tool)) == len(answer.data["search"]["made"])
    return answer


@pytest.mark.parametrize("at_once", ROOM)
def test_the_same_is_found_within_the_room(tool: Tool, long: Answer, at_once: int) -> None:
    short = bisect(tool, "--json", "--max-disk", ROOM[at_once])

    assert short.code == long.code == 1, short.stderr
    assert pairs(short) == pairs(long) == [("2.7.0", BROKE)]
    assert short.data["search"]["judged"] == long.data["search"]["judged"]
    (sentence,), (other) = short.data["findings"], long.data["findings"][0]
    assert (sentence["text"], sentence["evidence"]["confidence"]) == (other["text"], other["evidence"]["confidence"])
    assert set(measured(tool)) == set(range(1, at_once + 1))
    # What is made again are the ends of what was found, for the confirmation, and no more.
    again = sorted(name for name in set(made(tool)) if made(tool).count(name) > 1)
    assert set(again) <= {NAMES[0], "2.7.0", BROKE, NAMES[-1]}
    assert max(made(tool).count(name) for name in NAMES) <= 2
    plan = " ".join(short.stderr.split())
    assert re.search(r"--max-disk 1\.\d GB: environments of the search are made one after another", plan)
    standing = list((tool.folder / "store" / "envs").iterdir())
    assert len(standing) <= at_once
    assert list((tool.folder / "store" / "caches").iterdir()) == []


def test_what_a_search_left_makes_room_for_the_next(tool: Tool) -> None:
    assert bisect(tool, "--max-disk", ROOM[2]).code == 1
    assert list((tool.folder / "store" / "envs").iterdir())
    run = tool.run("cases.py", "--versions", "2.2.0,2.3.0,2.5.0", "--json", "--max-disk", ROOM[2], "-o", "more.parquet")
    assert run.code == 0, run.stderr
    assert list((tool.folder / "store" / "envs").iterdir()) == []
    again = bisect(tool, "--max-disk", ROOM[2], "--json")
    assert pairs(again) == [("2.7.0", BROKE)]
    assert again.data["search"]["made"] == [], "all of it was known"


def test_not_even_one_fits(tool: Tool) -> None:
    answer = bisect(tool, "--max-disk", "1050MB")
    assert answer.code == 3
    assert answer.stderr.splitlines()[0].startswith(
        "error: --max-disk 1.1 GB is too low: a single environment needs 0.1 GB"
    )
    assert not (tool.folder / "results.parquet").exists()


def test_nothing_is_made_ahead_on_a_short_disk(tool: Tool) -> None:
    plan = bisect(tool, "--max-disk", ROOM[2], "--speculate", "2", "--dry-run")
    assert plan.code == 0, plan.stderr
    assert "note: no environment is made ahead: the disk is short" in plan.stdout

"""A disk that does not hold all environments: they come and go, and nothing else differs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.engine.conftest import MakeTool
from tests.support.tool import Answer, Tool

OK, WRONG = "def answer(): return 42", "def answer(): return 41"
VERSIONS = {"2.1.0": OK, "2.2.0": OK, "2.3.0": WRONG, "2.4.0": WRONG, "2.5.0": OK}
RANGE = ("cases.py", "--from", "2.1.0", "--to", "2.5.0", "--json")

CASES = """
import os, sys
import torch
from bisect_torch import case, record

@case
def answers():
    record(environments=len(os.listdir(os.path.dirname(sys.prefix))))
    assert torch.answer() == 42
"""

TWO_AT_ONCE = "1150MB"
"""A reserve of 1 GB, and 150 MB: two environments of some kilobytes, counted with 60 MB of bytecode each."""


@pytest.fixture
def tool(make_tool: MakeTool) -> Tool:
    made = make_tool(VERSIONS)
    made.write("cases.py", CASES)
    return made


def measured(tool: Tool) -> list[int]:
    """How many environments stood side by side when each cell ran."""
    import pyarrow.parquet as pq

    facts = pq.read_table(tool.folder / "results.parquet", columns=["measurements"]).column(0).to_pylist()
    return [json.loads(text)["environments"] for text in facts]


def left_in(tool: Tool) -> list[str]:
    return [each.name for name in ("envs", "caches", "tmp") for each in (tool.folder / "store" / name).iterdir()]


def found(answer: Answer) -> list[tuple[str, str]]:
    """The sentences, with the confidence of each."""
    return [(each["text"], each["evidence"].get("confidence", "")) for each in answer.data["findings"]]


def test_the_same_is_found_with_two_environments_at_a_time_and_none_stays(tool: Tool) -> None:
    short = tool.run(*RANGE, "--max-disk", TWO_AT_ONCE)
    assert short.code == 0, short.stderr
    assert set(measured(tool)) <= {1, 2}
    assert left_in(tool) == []
    (tool.folder / "results.parquet").unlink()
    long = tool.run(*RANGE)
    assert max(measured(tool)) == 5
    assert found(short) == found(long)
    assert all("3 and 3 processes agree" in confidence for _, confidence in found(short))
    assert len(found(short)) == 2
    assert short.verdicts("answers") == long.verdicts("answers") == ["ok", "ok", "wrong", "wrong", "ok"]
    turns = re.search(r"5 environments are made in turns \((\d) \+ (\d) \+ (\d)\)", " ".join(short.stderr.split()))
    assert turns is not None, short.stderr
    assert sorted(turns.groups()) == ["1", "2", "2"]


def test_what_is_known_is_not_made_again(tool: Tool) -> None:
    first = tool.run(*RANGE, "--max-disk", TWO_AT_ONCE)
    tool.index.requests.clear()
    again = tool.run(*RANGE, "--max-disk", TWO_AT_ONCE)
    assert found(again) == found(first)
    assert not [request for request in tool.index.requests if request.path.endswith(".whl")]


def test_environments_that_are_there_are_used_and_stay(tool: Tool) -> None:
    words = tool.words("envs", "build", "--versions", "2.3.0", "--index-url", tool.index.url, "--python", tool.python)
    built = tool.call([*words, "--store", str(tool.folder / "store")])
    assert built.code == 0, built.stderr
    assert tool.run(*RANGE, "--max-disk", TWO_AT_ONCE).code == 0
    assert [name.partition("-")[0] for name in left_in(tool)] == ["2.3.0"]


def test_not_even_one_fits(tool: Tool) -> None:
    answer = tool.run(*RANGE, "--max-disk", "1050MB")
    assert answer.code == 3
    assert answer.stderr.splitlines()[0].startswith(
        "error: --max-disk 1.1 GB is too low: a single environment needs 0.1 GB"
    )
    assert not (tool.folder / "results.parquet").exists()


def test_a_store_that_takes_more_than_it_may_is_named_with_what_holds_it(tool: Tool) -> None:
    words = tool.words("envs", "build", "--versions", "2.3.0", "--index-url", tool.index.url, "--python", tool.python)
    store = tool.folder / "store"
    assert tool.call([*words, "--store", str(store)]).code == 0
    large = next(store.glob("envs/2.3.0-*")) / "large"
    with large.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1_500_000_000)
    answer = tool.run(*RANGE, "--max-disk", "1200MB")
    large.unlink()  # pytest would keep it
    assert answer.code == 3
    error, hint = (" ".join(part.split()) for part in answer.stderr.split("hint: "))
    assert error.startswith(
        "error: --max-disk 1.2 GB is too low: a single environment needs 0.1 GB, 1.0 GB beside it is"
    )
    assert "the store has 1.5 GB already: 1 environment with 1.5 GB, downloads and the rest with 0.0 GB" in error
    assert hint.startswith("--max-disk 3GB is enough; or `bisect-torch envs prune --unused 30 --store")
    assert not (tool.folder / "results.parquet").exists()


def test_a_killed_run_s_environments_make_room_for_the_next_run(tool: Tool) -> None:
    tool.write(
        "cases.py", CASES + "\n    if torch.__version__.startswith('2.3'):\n        import time; time.sleep(60)\n"
    )
    running = tool.start(*RANGE, "--max-disk", TWO_AT_ONCE)
    envs = tool.folder / "store" / "envs"
    while not any(each.name.startswith("2.3.0") for each in envs.glob("*")):
        assert running.poll() is None
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert list(envs.iterdir())
    tool.write("cases.py", CASES)
    # The killed run's environments fill the disk, and the same run goes on all the same.
    assert tool.run(*RANGE, "--max-disk", TWO_AT_ONCE).code == 0
    assert left_in(tool) == []
    answer = tool.run("cases.py", "--versions", "2.1.0,2.5.0", "--json", "--fresh", "--max-disk", TWO_AT_ONCE)
    assert answer.code == 0, answer.stderr
    # These two fit at once, and stay until a later run on a short disk needs their room.
    assert [name.partition("-")[0] for name in sorted(left_in(tool))] == ["2.1.0", "2.5.0"]
    assert (
        tool.run("cases.py", "--versions", "2.2.0,2.3.0,2.4.0", "--json", "--fresh", "--max-disk", TWO_AT_ONCE).code
        == 1
    )
    assert left_in(tool) == []


def test_an_environment_in_use_is_not_removed(tool: Tool, tmp_path: Path) -> None:
    tool.write("slow.py", "import time\nprint('begun', flush=True)\nopen('begun', 'w').close()\ntime.sleep(8)\n")
    running = tool.start("slow.py", "--versions", "2.1.0", "-o", "slow.parquet", "--json")
    while not (tool.folder / "begun").exists():
        assert running.poll() is None, running.communicate()
    store = ["--store", str(tool.folder / "store")]
    refused = tool.call([*tool.words("envs", "remove", "2.1.0"), *store])
    assert refused.code == 3
    assert "is used by a run at this moment" in refused.stderr
    out, err = running.communicate()
    assert running.returncode == 0, err
    assert json.loads(out)["counts"]["ok"] == 1
    assert tool.call([*tool.words("envs", "remove", "2.1.0"), *store]).code == 0
    assert subprocess.run(["ls", tool.folder / "store" / "envs"], capture_output=True, check=True).stdout == b""

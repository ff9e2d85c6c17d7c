"""Runs whose network is down or not to be used: what can be done goes on, and one short line says what cannot."""

from __future__ import annotations

import os
import shutil
import time

import pyarrow.parquet as pq
import pytest

from tests.engine.conftest import MakeTool
from tests.support.index import Fault
from tests.support.tool import Tool

VERSIONS = {"2.4.1": "", "2.5.0": "", "2.6.0": ""}
CASE = "import torch\n\nassert torch.ones(2).sum() == 2\n"


@pytest.fixture
def tool(make_tool: MakeTool) -> Tool:
    made = make_tool(VERSIONS)
    made.write("case.py", CASE)
    return made


def test_an_index_that_is_down_keeps_nothing_from_running_that_is_there(tool: Tool) -> None:
    """Whatever the index does, the same line again needs none of it."""
    first = tool.run("case.py", "--from", "2.4.1", "--json")
    assert first.code == 0, first.stderr
    shutil.rmtree(tool.folder / "store" / "uv-cache")
    tool.index.fault("*", Fault(status=503))
    _an_hour_passes(tool)

    again = tool.run("case.py", "--from", "2.4.1", "--json", "--fresh")

    assert (again.code, again.verdicts("case")) == (0, ["ok", "ok", "ok"])
    (note,) = [line for line in again.stderr.splitlines() if line.startswith("note: ")]
    assert note.endswith("status 503 for torch; using what it answered 1 hour ago, whose newest release is 2.6.0")


def test_a_fault_while_an_environment_is_made_is_told_in_one_short_line_and_kept_whole(tool: Tool) -> None:
    tool.index.fault("/files/torch-2.5.0-*.whl", Fault(status=503))

    answer = tool.run("case.py", "--from", "2.4.1", UV_HTTP_RETRIES="0")

    assert answer.code == 0, answer.stderr  # the newest build is good
    said = "installing torch 2.5.0: the network failed: Failed to download `torch==2.5.0`: HTTP status server error"
    assert [line for line in answer.stderr.splitlines() if "503" in line] == [
        f"2.5.0: no environment: {said} (503 Service Unavailable)"
    ]
    assert "/files/" not in answer.stderr + answer.stdout
    table = pq.read_table(tool.folder / "results.parquet", columns=["build", "reason", "stderr_tail"]).to_pylist()
    (row,) = [row for row in table if row["build"] == "2.5.0"]
    assert row["reason"].startswith(said)
    assert "/files/torch-2.5.0-py3-none-any.whl" in row["stderr_tail"]
    tool.index.clear_faults()
    again = tool.run("case.py", "--from", "2.4.1", "--json")
    assert again.verdicts("case") == ["ok", "ok", "ok"]


def test_offline_says_what_is_missing_before_anything_runs_and_downloads_nothing(tool: Tool) -> None:
    assert tool.run("case.py", "--versions", "2.4.1").code == 0
    tool.index.requests.clear()

    words = ("case.py", "--versions", ",".join(VERSIONS), "--offline")
    plan = tool.run(*words, "--dry-run")

    assert plan.code == 3, plan.stderr  # as the run itself ends
    assert plan.stderr.startswith("error: 2.6.0, the newest build, gets no environment, and a run would end with 3: ")
    lines = plan.stdout.splitlines()
    assert lines[0] == "3 builds: 1 environment is there, 0 to be made"
    missing = [line for line in lines if ": offline" in line or "offline, and" in line]
    assert [line.partition(":")[0] for line in missing] == ["2.5.0", "2.6.0"]
    assert not any(line.startswith("to download") for line in lines)

    answer = tool.run(*words, "--json")

    assert (answer.code, answer.verdicts("case")) == (3, ["ok", "infra", "infra"])
    assert "offline" in answer.data["unjudged"][0]["reason"]
    assert tool.index.requests == []


def _an_hour_passes(tool: Tool) -> None:
    for path in (tool.folder / "store" / "index-cache").iterdir():
        os.utime(path, (time.time() - 3700, time.time() - 3700))

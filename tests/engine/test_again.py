"""The same line once more: what is known is neither run nor written again."""

from __future__ import annotations

from bisect_torch.results import ResultsFile
from tests.engine.conftest import MakeTool
from tests.engine.test_scenarios import CASES, OK, WRONG
from tests.support.tool import Tool

WORDS = ("cases.py", "--from", "2.1.0", "--json")


def run_ids(tool: Tool) -> list[object]:
    return [run["run_id"] for run in ResultsFile.open(tool.folder / "results.parquet").runs]


def test_a_run_that_finds_everything_known_writes_nothing(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG})
    tool.write("cases.py", CASES)
    first = tool.run(*WORDS)
    results = tool.folder / "results.parquet"
    before = results.read_bytes(), results.stat().st_mtime_ns

    again = tool.run(*WORDS)

    assert (again.code, again.verdicts("answers")) == (first.code, first.verdicts("answers")) == (1, ["ok", "wrong"])
    assert again.sentences() == first.sentences()
    assert (results.read_bytes(), results.stat().st_mtime_ns) == before
    assert not results.with_name("results.parquet.journal").exists()


def test_a_run_that_adds_something_is_on_record(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": OK})
    tool.write("cases.py", CASES)
    tool.run("cases.py", "--versions", "2.1.0")
    tool.run("cases.py", "--versions", "2.1.0")
    assert len(run_ids(tool)) == 1
    tool.run("cases.py", "--versions", "2.1.0,2.2.0")
    assert len(run_ids(tool)) == 2


def test_what_a_killed_run_left_in_the_journal_is_taken_in_all_the_same(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK})
    tool.write("cases.py", CASES)
    tool.run(*WORDS)
    with ResultsFile.open(tool.folder / "results.parquet") as file:
        file.begin({"run_id": "killed", "builds": [], "case_files": []})

    assert tool.run(*WORDS).code == 0

    assert "killed" in run_ids(tool)
    assert not (tool.folder / "results.parquet.journal").exists()

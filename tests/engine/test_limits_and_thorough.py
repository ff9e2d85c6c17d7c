"""Declared limits of instances, and --thorough, from the case file to the results."""

from __future__ import annotations

import json
import re

from bisect_torch.results import ResultsFile
from tests.engine.conftest import MakeTool

CASES = """
from bisect_torch import case, record, thorough

@case(batch=[1, 6], memory=lambda batch: f"{batch} GiB", timeout=lambda batch: 10 * batch)
def sweep(batch):
    record(thorough=thorough())
"""


def test_an_instance_that_does_not_fit_is_skipped_with_the_numbers(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": ""})
    tool.write("cases.py", CASES)

    answer = tool.run("cases.py", "--from", "2.1.0", "--max-memory", "4GiB", "--json")

    assert answer.code == 0, answer.stderr
    assert answer.verdicts("sweep[batch=1]") == ["ok"]
    assert answer.verdicts("sweep[batch=6]") == ["skip"]
    found = {each.instance: each for each in ResultsFile.open(tool.folder / "results.parquet").observations()}
    assert found["sweep[batch=6]"].reason == "needs 6.0 GiB of cpu memory, 4.0 GiB may be used here"
    assert [found[f"sweep[batch={batch}]"].timeout_s for batch in (1, 6)] == [10.0, 60.0]


def test_a_thorough_run_is_another_cell_and_goes_on_as_one(make_tool: MakeTool) -> None:
    """Neither fills in for the other, and each finds its own results again."""
    tool = make_tool({"2.1.0": ""})
    tool.write("cases.py", CASES)

    def recorded() -> list[bool]:
        observations = ResultsFile.open(tool.folder / "results.parquet").observations()
        return [json.loads(each.measurements)["thorough"] for each in observations if each.repeat == 0]

    words = ("cases.py", "--from", "2.1.0", "-k", "batch=1", "--json")
    assert tool.run(*words).code == 0
    assert recorded() == [False]
    for _ in range(2):
        assert tool.run(*words, "--thorough").code == 0
        assert recorded() == [False, True]
    runs = ResultsFile.open(tool.folder / "results.parquet").runs
    assert [run["thorough"] for run in runs] == [False, True], "a run that finds all known leaves no mark"


FAILS_WHEN_READ = """
def sizes(name): return {"small": [1]}[name]

@case(n=sizes("large"))
def f(n): pass
"""


def test_a_limit_that_cannot_be_told_ends_the_run_with_file_case_and_option(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": ""})
    path = tool.write("cases.py", CASES.replace('f"{batch} GiB"', "batch / 0"))

    answer = tool.run("cases.py", "--from", "2.1.0")

    assert answer.code == 2
    message = "case 'sweep': memory=: its function raised for batch=1: ZeroDivisionError: division by zero"
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if text.startswith("@case"))
    said = " ".join(answer.stderr.split())
    assert f"error: {path}:{line}: cannot be loaded: DeclarationError: {message} (with torch 2.1.0)" in said


def test_a_file_that_fails_while_it_is_read_is_told_with_its_line_and_a_line_that_shows_the_rest(
    make_tool: MakeTool,
) -> None:
    tool = make_tool({"2.1.0": ""})
    path = tool.write("cases.py", "import torch\nfrom bisect_torch import case\n" + FAILS_WHEN_READ)

    answer = tool.run("cases.py", "--from", "2.1.0")

    *_, error, hint = answer.stderr.splitlines()
    assert answer.code == 2
    assert error == f"error: {path}:4: cannot be loaded: KeyError: 'large' (with torch 2.1.0)"
    assert "Traceback" not in answer.stderr
    option = re.search("the same line with (--debug) shows its traceback", hint)
    assert option is not None
    told = tool.run("cases.py", "--from", "2.1.0", option[1]).stderr
    assert f"""  File "{path}", line 6, in <module>\n    @case(n=sizes("large"))\n""" in told
    assert told.endswith(f"KeyError: 'large'\n\n{error}\n{hint}\n")

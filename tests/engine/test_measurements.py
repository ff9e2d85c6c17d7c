"""What a case records of itself is in the results file, for every way in which it can end."""

from __future__ import annotations

import json

from bisect_torch.results import ResultsFile
from tests.engine.conftest import MakeTool

CASES = """
import torch
from bisect_torch import case, record, skip

@case(batch=[1, 2, 3])
def measures(batch):
    record(batch=batch, release=torch.__version__.split("+")[0])
    if batch == 2:
        skip("too large")
    assert batch != 3
"""


def test_measurements_reach_the_results_file(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": "", "2.2.0": ""})
    tool.write("cases.py", CASES)

    answer = tool.run("cases.py", "--from", "2.1.0", "--json")

    assert answer.code == 1, answer.stderr
    for batch, verdict in ((1, "ok"), (2, "skip"), (3, "wrong")):
        assert answer.verdicts(f"measures[batch={batch}]") == [verdict] * 2
    found = ResultsFile.open(tool.folder / "results.parquet").observations()
    assert {each.instance for each in found} == {f"measures[batch={batch}]" for batch in (1, 2, 3)}
    for each in found:
        batch = json.loads(each.parameters)["batch"]
        assert json.loads(each.measurements) == {"batch": batch, "release": each.build}


PREDICTED = """
import torch
from bisect_torch import case, record

@case(batch=[65535, 65537])
def bmm(batch):
    record(predicted_verdict="ok" if batch == 65535 else "wrong", predicted_model=None)
    if batch > 65536 and torch.__version__ < "2.2":
        record(first_wrong_batch=65536)
        assert False
"""


def test_what_a_case_predicted_is_compared_with_what_was_seen_cell_by_cell(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": "", "2.2.0": ""})
    tool.write("cases.py", PREDICTED)

    data = tool.run("cases.py", "--from", "2.1.0", "--json").data
    text = tool.run("cases.py", "--from", "2.1.0").stdout

    found = data["predictions"]
    assert (found["cells"], found["as_predicted"], found["unjudged"]) == (4, 3, 0)
    (deviation,) = found["deviations"]
    assert (deviation["instance"], deviation["build"]) == ("bmm[batch=65537]", "2.2.0")
    assert (deviation["expected"]["verdict"], deviation["seen"]["verdict"]) == ("wrong", "ok")
    assert "as predicted: 3 of 4 cells" in text
    assert "bmm[batch=65537]: predicted wrong, seen ok, in 2.2.0" in text
    assert "wrong from batch 65,536 on" in text

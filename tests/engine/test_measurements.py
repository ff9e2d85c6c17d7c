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

"""Greedy outputs from the case file to the table at the end of a run, and to ``bisect-torch decoding`` afterwards."""

from __future__ import annotations

import json

from tests.engine.conftest import MakeTool

CASES = """
import torch
from bisect_torch import case, record

@case(dtype=["bfloat16", "layercast"], batch=[1, 8])
def one_process(dtype, batch):
    out = "abcd" if dtype == "layercast" else torch.answer() if batch == 1 else "abXd"
    record(dtype=dtype, batch=batch, threads=1, padding=0, processes=1, questions=1, answerable=1, correct=1,
           outputs=[out], output_length=[len(out)], top1_every=8, top1_path=[[0.5]])
"""


def test_the_table_is_at_the_end_of_a_run_and_can_be_had_again(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": "def answer(): return 'abcd'", "2.2.0": "def answer(): return 'abcX'"})
    tool.write("decoding_greedy.py", CASES)

    ran = tool.run("decoding_greedy.py", "--from", "2.1.0", COLUMNS="100")
    table = tool.call(tool.words("decoding", "results.parquet"), COLUMNS="100")
    data = tool.call(tool.words("decoding", "results.parquet", "--json")).data

    assert (ran.code, table.code) == (0, 0)
    assert table.stdout in ran.stdout
    sentences = [
        "bfloat16: upgrading torch changes the greedy output, first in 2.2.0 (at token 3, in 1 configuration): 1 of 2 "
        "steps from release to release, median 3.",
        "bfloat16: with the release fixed, batch size (from token 2 on, median 2, 2 of 2) changes the greedy output.",
        "LayerCast: upgrading torch changes no output (0 of 2 steps from release to release, 2.1.0 to 2.2.0).",
        "LayerCast: with the release fixed, batch size changes nothing.",
        "LayerCast stops it: none of its outputs changes by batch size or upgrading torch.",
        "Tokens are counted from 0; of every output, the first that differs counts.",
    ]
    assert data["findings"] == sentences
    assert all(sentence in " ".join(table.stdout.split()) for sentence in sentences)
    assert data["precisions"]["bfloat16"]["over_configurations"]["2.2.0"]["div_index"] == [2]


def test_a_file_without_decoding_cases_is_refused(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": ""})
    tool.write("cases.py", "import torch\nfrom bisect_torch import case\n@case\ndef f(): pass\n")
    assert tool.run("cases.py", "--from", "2.1.0", "--json").data["decoding"] is None

    answer = tool.call(tool.words("decoding", "results.parquet"))

    assert (answer.code, answer.stdout) == (2, "")
    assert "results.parquet holds no results of decoding cases" in answer.stderr
    assert "`bisect-torch run --suite decoding -o results.parquet` adds them" in answer.stderr
    assert json.loads(tool.call(tool.words("judge", "results.parquet", "--json")).stdout)["decoding"] is None

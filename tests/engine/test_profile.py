"""``--profile`` of real runs: real uv, a real index on loopback, real processes, small fake torch wheels."""

from __future__ import annotations

import json
import signal
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest

from tests.engine.conftest import MakeTool
from tests.engine.disturbed import eventually
from tests.engine.test_scenarios import OK, WRONG
from tests.support.tool import Answer, Tool

CASES = """
import time
import torch
from bisect_torch import case

@case(n=[1, 2, 3])
def answers(n):
    time.sleep(0.01 * n)
    assert torch.answer() == 42
"""

# The Trace Event Format as far as a trace of complete events and names uses it.
SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {"type": "array", "items": {"oneOf": [{"$ref": "#/$defs/span"}, {"$ref": "#/$defs/name"}]}},
    },
    "$defs": {
        "span": {
            "type": "object",
            "required": ["ph", "name", "cat", "ts", "dur", "pid", "tid"],
            "properties": {
                "ph": {"const": "X"},
                "name": {"type": "string", "minLength": 1},
                "cat": {"type": "string", "minLength": 1},
                "ts": {"type": "number", "minimum": 0},
                "dur": {"type": "number", "minimum": 0},
                "pid": {"type": "integer"},
                "tid": {"type": "integer"},
                "args": {"type": "object"},
            },
            "additionalProperties": False,
        },
        "name": {
            "type": "object",
            "required": ["ph", "name", "pid", "tid", "args"],
            "properties": {
                "ph": {"const": "M"},
                "name": {"enum": ["process_name", "thread_name", "thread_sort_index"]},
                "pid": {"type": "integer"},
                "tid": {"type": "integer"},
                "args": {"type": "object", "minProperties": 1},
            },
            "additionalProperties": False,
        },
    },
}


class Trace:
    """A trace file that was written, checked as a viewer would."""

    def __init__(self, path: Path) -> None:
        self.data: dict[str, Any] = json.loads(path.read_text())
        jsonschema.validate(self.data, SCHEMA)
        events = self.data["traceEvents"]
        self.names = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
        self.tracks: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for each in events:
            if each["ph"] == "X":
                self.tracks[self.names[each["tid"]]].append(each)
        self._check_nesting()

    def _check_nesting(self) -> None:
        """In nanoseconds: on a track each span lies beside or inside those before it, and times only grow."""
        for spans in self.tracks.values():
            around: list[int] = []
            before = 0
            for each in spans:
                begin, length = round(each["ts"] * 1000), round(each["dur"] * 1000)
                assert begin >= before, each
                before = begin
                while around and around[-1] <= begin:
                    around.pop()
                assert not around or begin + length <= around[-1], each
                around.append(begin + length)

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [each for spans in self.tracks.values() for each in spans]

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [each for each in self.spans if each["cat"] in kinds]

    def cells(self) -> Counter[tuple[str, str, int]]:
        """Build, instance and repeat of every cell that ran."""
        ran = self.of("cell", "confirmation")
        return Counter((each["args"]["build"], each["name"], each["args"]["repeat"]) for each in ran)


def recorded(tool: Tool) -> list[tuple[str, str, int]]:
    """Build, instance and repeat of every row of the results."""
    rows = pq.read_table(tool.folder / "results.parquet", columns=["build", "instance", "repeat"]).to_pylist()
    return [(row["build"], row["instance"], row["repeat"]) for row in rows]


def profiled(tool: Tool, *words: str, **variables: str) -> tuple[Answer, Trace]:
    answer = tool.run("cases.py", "--profile", "trace.json", "--json", *words, **variables)
    return answer, Trace(tool.folder / "trace.json")


def test_every_cell_is_in_the_trace_once_and_the_times_fit(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": WRONG})
    tool.write("cases.py", CASES)

    answer, trace = profiled(tool, "--from", "2.1.0", "--jobs", "2")

    assert answer.code == 1, answer.stderr
    rows = recorded(tool)
    assert trace.cells() == Counter(rows)
    assert len(trace.of("cell")) == 6
    for span in trace.of("cell", "confirmation"):  # a cell cannot take less than what it says of itself
        assert span["dur"] >= 1e6 * span["args"]["own seconds"] > 0
        assert span["args"]["verdict"] == ("ok" if span["args"]["build"] == "2.1.0" else "wrong")
    assert set(trace.names.values()) == {"bisect-torch", "installer", "slot 1", "slot 2"}
    assert [each["name"] for each in trace.of("environment")] == ["2.1.0", "2.2.0"]
    assert {"locking", "installing", "checking"} <= {each["cat"] for each in trace.tracks["installer"]}
    assert len(trace.of("results file")) == 1
    assert 1 < len(trace.of("journal")) <= 1 + len(rows)  # what runs, then each cell, or those that ended together
    assert len(trace.of("loading torch")) >= 2

    # The command lasts a little longer than the run, and its slots are busy or idle for as long as it lasts.
    total = float(answer.stderr.partition("profile: ")[2].partition(" s")[0])
    seconds = answer.data["seconds"]
    planning = trace.of("planning")[0]["dur"] / 1e6
    assert seconds + planning <= total + 0.1
    assert total <= seconds + planning + 0.6
    table = [line.split("  ") for line in answer.stderr.partition("of slots\n")[2].splitlines() if line[:2] == "  "]
    told = [next(part for part in map(str.strip, row[2:]) if part) for row in table if "meanwhile" not in row[1]]
    assert sum(float(each.removesuffix(" s")) for each in told) == pytest.approx(2 * total, abs=0.1 + 0.05 * len(told))


def test_a_second_run_has_no_cells_and_says_what_it_did(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK})
    tool.write("cases.py", CASES)
    assert tool.run("cases.py", "--from", "2.1.0").code == 0

    answer, trace = profiled(tool, "--from", "2.1.0")

    assert answer.code == 0
    assert not trace.cells()
    kinds = {each["cat"] for each in trace.spans}
    assert kinds >= {"planning", "starting"}
    assert not kinds & {"journal", "results file", "loading torch"}


def test_without_the_option_nothing_is_written_or_said(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK})
    tool.write("cases.py", CASES)
    answer = tool.run("cases.py", "--from", "2.1.0")
    assert "profile" not in answer.stderr
    assert not [path for path in tool.folder.iterdir() if path.suffix == ".json"]


def test_ctrl_c_leaves_the_trace_of_what_had_been_done(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK})
    tool.write(
        "cases.py",
        "import time, pathlib\nfrom bisect_torch import case\n@case\ndef a_quick(): pass\n"
        f"@case\ndef b_hangs():\n    pathlib.Path({str(tool.folder)!r}, 'here').touch()\n    time.sleep(300)\n",
    )
    process = tool.start("cases.py", "--from", "2.1.0", "--jobs", "1", "--profile", "trace.json")
    assert eventually((tool.folder / "here").exists, 60.0)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == 130, stderr
    assert "trace: trace.json" in stderr
    quick, hangs = Trace(tool.folder / "trace.json").of("cell")
    assert quick["name"] == "a_quick"
    assert quick["args"]["verdict"] == "ok"
    assert hangs["name"] == "b_hangs"
    assert hangs["args"]["unfinished"] == "cut off"


def test_nothing_private_is_in_the_trace(make_tool: MakeTool) -> None:
    """A path and a token as parameters become the names of instances."""
    tool = make_tool({"2.1.0": OK})
    token = "ghp_" + "Ab1C" * 9
    path = f"{tool.folder}/weights.pt"
    tool.write("cases.py", f"from bisect_torch import case\n@case(word=[{token!r}, {path!r}])\ndef takes(word): pass\n")

    answer, trace = profiled(tool, "--from", "2.1.0")

    assert answer.code == 0, answer.stderr
    assert set(trace.cells().values()) == {1}
    assert sorted(name for _, name, _ in trace.cells()) == sorted(name for _, name, _ in recorded(tool))
    text = json.dumps(trace.data) + answer.stderr
    assert token not in text
    assert str(tool.folder) not in json.dumps(trace.data)
    assert "<redacted>" in text


@pytest.mark.parametrize(("name", "message"), [(".", "is a folder"), ("nowhere/trace.json", "does not exist")])
def test_a_place_where_nothing_can_be_written_is_refused_at_once(make_tool: MakeTool, name: str, message: str) -> None:
    tool = make_tool({"2.1.0": OK})
    tool.write("cases.py", CASES)
    answer = tool.run("cases.py", "--from", "2.1.0", "--profile", name)
    assert answer.code == 2
    assert message in answer.stderr
    assert "hint: name a file in a folder where you may write: --profile FILE" in answer.stderr
    assert not tool.index.requests


def test_a_search_is_one_trace_of_all_its_runs(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": OK, "2.2.0": OK, "2.3.0": WRONG, "2.4.0": WRONG})
    tool.write("cases.py", CASES)
    words = tool.run_words("cases.py", "-k", "n=1", "--good", "2.1.0", "--bad", "2.4.0", "--profile", "trace.json")
    words[words.index("run")] = "bisect"

    answer = tool.call([*words, "--speculate", "1"])

    assert answer.code == 1, answer.stderr
    trace = Trace(tool.folder / "trace.json")
    assert trace.cells() == Counter(recorded(tool))
    made = Counter(each["name"] for each in trace.of("environment"))
    assert set(made) >= {"2.1.0", "2.4.0"}
    assert len(trace.of("results file")) >= 2
    ends = [(each["tid"], each["ts"], each["ts"] + each["dur"]) for each in trace.of("ending the worker")]
    begins = [(each["tid"], each["ts"]) for each in trace.of("loading torch")]
    assert len(ends) >= len(begins) > 2
    for tid, begin, end in ends:
        assert not [at for track, at in begins if track == tid and begin < at < end]

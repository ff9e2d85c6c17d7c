"""Files that a case reads beside itself are part of what its results are kept under, and told where they vary."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bisect_torch.results import ResultsFile
from tests.engine.conftest import MakeTool
from tests.support.tool import Answer, Tool

CASES = """
import json, pathlib
import torch
from bisect_torch import case

@case
def reads(n=1):
    wanted = json.loads((pathlib.Path(__file__).parent / "expected.json").read_text())
    assert torch.answer() == wanted

@case
def steady():
    assert torch.answer() > 0
"""
SCRIPT = "import json, torch\nassert torch.answer() == json.load(open('expected.json'))\n"
BODIES = {"2.1.0": "def answer(): return 41", "2.2.0": "def answer(): return 42"}


@pytest.fixture
def tool(make_tool: MakeTool) -> Tool:
    return make_tool(BODIES)


def ran(tool: Tool) -> dict[str, int]:
    """How many observations of each row the results file holds."""
    seen = [each.instance for each in ResultsFile.open(tool.folder / "results.parquet").observations()]
    return {name: seen.count(name) for name in dict.fromkeys(seen)}


def run(tool: Tool, *words: str) -> Answer:
    answer = tool.run(*words, "--jobs", "1", "--json")
    assert answer.code in (0, 1), answer.stderr
    return answer


@pytest.mark.parametrize(("name", "text", "row"), [("cases.py", CASES, "reads"), ("repro.py", SCRIPT, "repro")])
def test_what_read_an_edited_file_runs_again_and_nothing_else(tool: Tool, name: str, text: str, row: str) -> None:
    tool.write(name, text)
    tool.write("expected.json", "41")
    assert run(tool, name).verdicts(row) == ["ok", "wrong"]
    first = ran(tool)
    assert "expected.json" not in run(tool, name).stderr
    assert ran(tool) == first, "nothing was edited"

    tool.write("expected.json", "42")
    again = run(tool, name)

    assert again.verdicts(row) == ["wrong", "ok"]
    assert "what has read expected.json runs again: not the same as then" in again.stderr
    second = ran(tool)
    assert second[row] > first[row]
    assert {**second, row: 0} == {**first, row: 0}, "what does not read it is known"
    assert run(tool, name).verdicts(row) == ["wrong", "ok"]
    assert ran(tool) == second
    judged = tool.call(tool.words("judge", "results.parquet", "--json"))
    assert judged.verdicts(row) == ["wrong", "ok"], "no repeat with the old data stands beside those with the new"

    tool.write("expected.json", "41")
    back = run(tool, name)
    assert back.verdicts(row) == ["ok", "wrong"]
    assert (
        "2 cells run again: what was seen since then, of another text or machine, other data or variables, is newer"
        in back.stderr
    )
    judged = tool.call(tool.words("judge", "results.parquet", "--json"))
    assert judged.verdicts(row) == ["ok", "wrong"], "whoever reads the file sees what the last run has shown"
    third = ran(tool)
    assert run(tool, name).verdicts(row) == ["ok", "wrong"]
    assert ran(tool) == third


def test_a_case_file_that_was_edited_and_put_back_is_what_it_was_also_for_who_reads_the_results(tool: Tool) -> None:
    not_shown: list[str] = []
    for answer, expected in ((41, ["ok", "wrong"]), (42, ["wrong", "ok"]), (41, ["ok", "wrong"])):
        tool.write("repro.py", f"import torch\nassert torch.answer() == {answer}\n")
        shown = run(tool, "repro.py")
        judged = tool.call(tool.words("judge", "results.parquet", "--json"))
        for each in (shown, judged):
            assert each.verdicts("repro") == expected
            assert each.data["notes"] == not_shown
        not_shown = ["Results of an earlier text of repro.py are in the results file and not shown."]


def test_a_helper_that_only_running_the_case_shows_is_looked_at_too(tool: Tool) -> None:
    tool.write("repro.py", "import importlib, torch\nassert torch.answer() == importlib.import_module('near').wanted\n")
    tool.write("near.py", "wanted = 41\n")
    assert run(tool, "repro.py").verdicts("repro") == ["ok", "wrong"]
    tool.write("near.py", "wanted = 42\n")
    assert run(tool, "repro.py").verdicts("repro") == ["wrong", "ok"]


def notes(answer: Answer) -> list[str]:
    return [each["text"] for each in answer.data["unlike_files"]]


COUNTER = """
import os, torch
count = int(open("count").read()) if os.path.exists("count") else 0
open("count", "w").write(str(count + 1))
assert count < 2
"""
CACHE = """
import os, subprocess, time, torch
if not os.path.exists("cache.bin"):
    subprocess.run(f"printf %d {torch.answer()} > cache.bin", shell=True, check=True)
    time.sleep(1.5)
else:
    assert int(open("cache.bin", "rb").read()) == torch.answer()
"""


def test_what_one_build_leaves_for_the_next_is_told(tool: Tool) -> None:
    """A counter: its verdicts are nonsense, and the user hears why. A cache that nobody sees being written."""
    tool.write("counts.py", COUNTER)
    answer = run(tool, "counts.py")
    (note,) = notes(answer)
    assert note.startswith("counts.py reads count beside it, which was not the same each time: ")

    tool.write("caches.py", CACHE)
    answer = run(tool, "caches.py")
    assert notes(answer)[0] == (
        "caches.py reads cache.bin beside it, which was written meanwhile: 2.2.0 may see what 2.1.0 has left; "
        "what it writes belongs into tempfile.mkdtemp()."
    )
    (finding,) = answer.data["findings"]
    assert finding["evidence"]["also differ"] == "cache.bin, which is read"
    told = tool.call(tool.words("judge", "results.parquet", "caches")).stdout
    assert "2.2.0 may see what 2.1.0 has left" in " ".join(told.split())
    told = tool.call(tool.words("report", "results.parquet", "caches", "--format", "markdown")).stdout
    assert "also differ: cache.bin, which is read" in told
    assert "2.2.0 may see what 2.1.0 has left" in told


def test_a_script_that_writes_and_reads_its_own_files_hears_nothing(tool: Tool) -> None:
    tool.write("expected.json", "41")
    os.utime(tool.folder / "expected.json", (0, 10**9))  # a real torch takes longer to load than an edit is old
    tool.write(
        "repro.py",
        "import json, subprocess, torch\n"
        "json.dump(torch.answer(), open('mine.json', 'w')); json.load(open('mine.json'))\n"
        "subprocess.run(f'echo {torch.answer()} > made', shell=True); open('made').read()\n"
        "open('log.txt', 'a').write('1')\n"
        "assert json.load(open('expected.json'))\n",
    )
    answer = run(tool, "repro.py")
    assert notes(answer) == []
    files = {name for each in ResultsFile.open(tool.folder / "results.parquet").observations()
             for name in json.loads(each.local_modules)}  # fmt: skip
    assert files == {"expected.json", "made"}


def test_results_that_need_data_are_not_said_to_be_wrong_elsewhere(tool: Tool, tmp_path: Path) -> None:
    tool.write("cases.py", CASES)
    tool.write("expected.json", "41")
    run(tool, "cases.py")
    ours = tmp_path / "ours"
    ours.mkdir()
    (tool.folder / "results.parquet").rename(ours / "results.parquet")
    there = Tool(ours, tool.index)
    options = ["--index-url", tool.index.url, "--store", str(tool.folder / "store"), "--yes"]
    answer = there.call(there.words("verify", *options, "results.parquet"))
    told = " ".join(answer.stdout.split())
    assert "cannot say: it reads expected.json beside its file, and results hold no data files" in told, answer.stderr
    assert "not reproduced" not in answer.stdout
    assert answer.code == 3


def test_recheck_looks_at_the_data_too(tool: Tool) -> None:
    tool.write("cases.py", CASES)
    tool.write("expected.json", "41")
    run(tool, "cases.py")
    tool.write("expected.json", "42")
    words = tool.run_words("results.parquet", "--versions", "2.2.0")
    words[words.index("run")] = "recheck"
    answer = tool.call(words)
    assert answer.code == 2
    assert "cases.py has changed: expected.json, which it reads, is another" in answer.stderr


CHECKPOINT = """
import os, torch
if not os.path.exists({path!r}):
    os.makedirs(os.path.dirname({path!r}), exist_ok=True)
    with open({path!r} + ".new", "w") as file: file.write(str(torch.answer()))
    os.rename({path!r} + ".new", {path!r})
with open({path!r}) as file: assert int(file.read()) == torch.answer()
"""


def test_what_a_build_leaves_elsewhere_makes_no_change_that_is_confirmed(tool: Tool) -> None:
    """A script that goes on from what lies in ~/.cache fails on every build but the one that has written it."""
    kept = tool.folder.parent / ".cache" / "mine" / "w.txt"
    tool.write("goes_on.py", CHECKPOINT.format(path=str(kept)))
    answer = run(tool, "goes_on.py")
    assert sorted(answer.verdicts("goes_on")) == ["ok", "wrong"]
    (finding,) = answer.data["findings"]
    assert finding["text"].endswith(", not confirmed.")
    assert finding["evidence"]["confidence"].startswith("not confirmed: 2.2.0 may see what 2.1.0 has left (")
    (note,) = notes(answer)
    assert "w.txt, which was written meanwhile: " in note

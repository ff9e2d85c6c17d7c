"""Parts of a matrix, run apart and merged, are one run: the same cells, verdicts, signatures and transitions."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bisect_torch import analysis
from bisect_torch.cli.judge import judged_again
from bisect_torch.cli.report import made
from bisect_torch.report.summary import summary
from bisect_torch.results import ResultsFile
from tests.report.pages import Page, entries
from tests.support.index import FakeIndex
from tests.support.tool import Answer, Tool
from tests.support.wheels import releases

VERSIONS = [f"2.{minor}.0" for minor in range(1, 6)]
BODIES = dict(
    zip(
        VERSIONS,
        [
            "def answer(n): return n",
            "def answer(n): return n + (n % 3 == 0)",
            "def answer(n): return n + (n % 3 == 0)",
            "import os, signal\ndef answer(n): return n if n % 2 else os.kill(os.getpid(), signal.SIGSEGV)",
            "def answer(n):\n    if n == 1: raise RuntimeError('no kernel')\n    return n",
        ],
        strict=True,
    )
)
LITERAL = """
import torch
from bisect_torch import case

@case(n=[0, 1, 2, 3, 4, 5])
def answers(n):
    assert torch.answer(n) == n
"""
EXPANDED = LITERAL.replace("[0, 1, 2, 3, 4, 5]", "list(range(len(torch.__version__) + 0))").replace(
    "answers", "expanded"
)

Cells = Mapping[tuple[str, str, str, int], tuple[str, str | None]]


@pytest.fixture(scope="module")
def index() -> Iterator[FakeIndex]:
    with FakeIndex(releases(BODIES)) as index:
        yield index


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared") / "store"


def made_tool(folder: Path, index: FakeIndex, store: Path) -> Tool:
    folder.mkdir()
    tool = Tool(folder, index, store=store)
    tool.write("literal.py", LITERAL)
    tool.write("expanded.py", EXPANDED)
    return tool


@pytest.fixture(scope="module")
def one(index: FakeIndex, store: Path, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """Where one run has run everything."""
    tool = made_tool(tmp_path_factory.mktemp("one") / "run", index, store)
    answer = run(tool, "results.parquet")
    assert answer.code == 1, answer.stderr
    return tool


def run(tool: Tool, output: str, *words: str) -> Answer:
    return tool.run("literal.py", "expanded.py", "--from", "2.1.0", "--quiet", "-o", output, *words)


def cells(path: Path) -> Cells:
    """Signature and isolation of every repeat that was recorded."""
    return {
        (each.case_file, each.instance, each.build_name, each.repeat): (
            analysis.judge(each).signature,
            each.isolation,
        )
        for each in ResultsFile.open(path, must_exist=True).observations()
    }


def meaning(path: Path) -> tuple[list[Any], list[Any]]:
    """Of every row: what each build answered and how well that is known; and the transitions."""
    series = analysis.build_series(ResultsFile.open(path, must_exist=True).observations(), VERSIONS)
    points = [
        (each.case_file, each.instance, point.build, point.judgement.signature, point.flaky)
        for each in series
        for point in each.points
        if point is not None
    ]
    found = [
        (each.instance, change.kind, change.before.build, change.after.build, change.confirmed)
        for each in series
        for change in analysis.transitions(each)
    ]
    return sorted(points), sorted(found)


def shown_rows(tool: Tool) -> dict[str, list[str]]:
    """The order of rows in each report of the results."""
    findings = judged_again(ResultsFile.open(tool.folder / "results.parquet", must_exist=True), None)
    lines = ("".join(text for text, _ in line) for line in summary(findings, 100, unfolded=True))
    texts = {name: made(name, findings).decode() for name in ("html", "csv", "json", "junit")}
    rows = Page(texts["html"]).data("matrix-data")["rows"]
    suite = ElementTree.fromstring(texts["junit"])[0]
    return {
        "terminal": [line.split()[0] for line in lines if re.match(r"\w+\[n=\d\]  ", line)],
        "page": entries(rows["instance"], rows["number"]),
        "csv": list(dict.fromkeys(row["instance"] for row in csv.DictReader(texts["csv"].splitlines()))),
        "json": [row["instance"] for row in json.loads(texts["json"])["series"]],
        "junit": [str(case.get("name")) for case in suite.iter("testcase")],
    }


def merge(tool: Tool, *names: str) -> None:
    done = tool.call(tool.words("merge", *names, "-o", "results.parquet"))
    assert (done.code, done.stderr) == (0, ""), done.stdout + done.stderr


def test_parts_by_case_are_one_run_repeat_by_repeat(one: Tool, index: FakeIndex, store: Path, tmp_path: Path) -> None:
    tool = made_tool(tmp_path / "parts", index, store)
    names = [f"shard-{part}.parquet" for part in (1, 2, 3)]
    with ThreadPoolExecutor(3) as several:
        answers = list(several.map(lambda part: run(tool, names[part - 1], "--shard", f"{part}/3"), (1, 2, 3)))
    assert all(answer.code in (0, 1) for answer in answers), [answer.stderr for answer in answers]
    merge(tool, *names)

    whole = one.folder / "results.parquet"
    assert cells(tool.folder / "results.parquet") == cells(whole)
    assert meaning(tool.folder / "results.parquet") == meaning(whole)
    assert all(confirmed for *_, confirmed in meaning(whole)[1])
    planned = [*(f"answers[n={n}]" for n in range(6)), *(f"expanded[n={n}]" for n in range(5))]
    for where, rows in [*shown_rows(one).items(), *shown_rows(tool).items()]:
        assert rows == planned, where
    again = run(tool, "results.parquet")
    assert cells(tool.folder / "results.parquet") == cells(whole), "nothing was left to be run"
    assert again.code == 1


def test_parts_by_build_and_a_last_run_are_one_run(one: Tool, index: FakeIndex, store: Path, tmp_path: Path) -> None:
    tool = made_tool(tmp_path / "parts", index, store)
    names = [f"shard-{part}.parquet" for part in (1, 2)]
    for part, name in enumerate(names, 1):
        assert run(tool, name, "--shard", f"{part}/2", "--shard-by", "build").code in (0, 1)
    builds = [{build for _, _, build, _ in cells(tool.folder / name)} for name in names]
    assert builds == [{"2.1.0", "2.2.0"}, {"2.3.0", "2.4.0", "2.5.0"}]
    before = {name: cells(tool.folder / name) for name in names}
    merge(tool, *names)
    assert run(tool, "results.parquet").code == 1

    assert meaning(tool.folder / "results.parquet") == meaning(one.folder / "results.parquet")
    after = cells(tool.folder / "results.parquet")
    assert all(after[place] == seen for each in before.values() for place, seen in each.items())
    quiet = "answers[n=5]"  # nothing changes here: only the ends of the whole matrix are repeated
    assert {(build, repeat) for _, instance, build, repeat in after if instance == quiet and repeat} == {
        ("2.1.0", 1),
        ("2.5.0", 1),
    }


@pytest.mark.parametrize("by", ["case", "build"])
def test_a_part_of_nothing_says_so_and_makes_no_environment(index: FakeIndex, tmp_path: Path, by: str) -> None:
    tool = Tool(tmp_path, index)
    tool.write("literal.py", LITERAL)

    answer = tool.run("literal.py", "--from", "2.1.0", "--quiet", "--shard", "1/9" if by == "build" else "9/9",
                      "--shard-by", by)  # fmt: skip

    dry = tool.run("literal.py", "--from", "2.1.0", "--dry-run", "--shard", "1/9" if by == "build" else "9/9",
                   "--shard-by", by)  # fmt: skip

    assert dry.code == 0
    assert re.search(r"^shard ./9 is empty: none of the (builds|instances) is in it$", dry.stdout, re.MULTILINE)
    assert (answer.code, answer.stdout) == (0, "")
    assert re.fullmatch(r"note: shard ./9 is empty: none of the (builds|instances) is in it\n", answer.stderr)
    assert list((tmp_path / "store" / "envs").glob("*")) == []
    assert ResultsFile.open(tmp_path / "results.parquet", must_exist=True).observations() == []


@pytest.mark.parametrize("word", ["0/8", "9/8", "a/b", "3", "1/0", "-1/8", "1/2/3", "", "１/２"])
def test_what_is_no_part_is_refused_in_a_line(index: FakeIndex, tmp_path: Path, word: str) -> None:
    answer = Tool(tmp_path, index).run(f"--shard={word}")

    assert answer.code == 2
    assert answer.stderr.startswith("error: argument --shard: ")
    assert len(answer.stderr.splitlines()) == 2


def test_an_expression_that_fits_nothing_is_no_empty_part(index: FakeIndex, tmp_path: Path) -> None:
    tool = Tool(tmp_path, index)
    tool.write("expanded.py", EXPANDED)

    for _ in ("expanded in a worker", "the expansion is known"):
        answer = tool.run("expanded.py", "--from", "2.5.0", "-k", "typo", "--shard", "2/2", "--quiet")

        assert answer.code == 2
        assert "fits no" in answer.stderr


GUIDE = (Path(__file__).parents[2] / "bisect_torch" / "cli" / "README.md").read_text()
SCRIPT = GUIDE.partition("```bash\n")[2].partition("```")[0]


def test_the_guides_slurm_array_runs_everything(one: Tool, index: FakeIndex, store: Path, tmp_path: Path) -> None:
    """Each task as Slurm would start it; all at once."""
    tool = made_tool(tmp_path / "array", index, store)
    (tool.folder / "cases.py").write_text(LITERAL)
    script = tool.write("matrix.sh", SCRIPT)
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    here = tmp_path / "bin"
    here.mkdir()
    own = " ".join(tool.run_words("--from", "2.1.0")[4:])
    program = here / "bisect-torch"
    program.write_text(
        f'#!/bin/bash\n[ "$1" = run ] && set -- "$@" {own}\nexec {tool.words()[0]} -m bisect_torch "$@"\n'
    )
    program.chmod(0o755)

    def task(number: int) -> Answer:
        variables = {"SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_COUNT": "3"}
        path = f"{here}:{tool.variables()['PATH']}"
        return tool.call(["bash", str(script)], PATH=path, **variables)

    with ThreadPoolExecutor(3) as several:
        answers = list(several.map(task, (1, 2, 3)))

    assert sorted(answer.code for answer in answers)[:2] == [0, 0], [answer.stderr for answer in answers]
    assert max(answer.code for answer in answers) == 1, "the last one says what judge says"
    expected = {
        ("cases.py", *place[1:]): seen
        for place, seen in cells(one.folder / "results.parquet").items()
        if place[0] == "literal.py"
    }
    assert cells(tool.folder / "results.parquet") == expected


def test_a_part_by_build_keeps_each_build_beside_its_twin(index: FakeIndex, store: Path, tmp_path: Path) -> None:
    tool = made_tool(tmp_path / "twins", index, store)

    answer = tool.run("literal.py", "--from", "2.1.0", "--locks", "release,today", "-k", "n=1", "--dry-run", "--json",
                      "--shard", "2/2", "--shard-by", "build")  # fmt: skip

    assert answer.code == 0, answer.stderr
    assert [each["name"] for each in answer.data["builds"]] == [
        *VERSIONS[2:],
        *(f"{version}+today" for version in VERSIONS[2:]),
    ]
    assert {each["reason"] for each in answer.data["builds"]} == {None}

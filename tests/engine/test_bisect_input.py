"""What is wrong with a line of ``bisect``: a clear sentence, the right exit code, and nothing written or lost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bisect_torch.cli.main import main
from bisect_torch.results.journal import encode
from tests.engine.conftest import MakeTool
from tests.engine.test_scenarios import CASES, OK, WRONG
from tests.support.tool import Tool

ENDS = ["--good", "2.1.0", "--bad", "2.3.0"]
Prepare = Callable[[Path], None]


def nothing(folder: Path) -> None:
    """The folder is as it is."""


def not_parquet(folder: Path) -> None:
    (folder / "results.parquet").write_text("this is no Parquet file")


def without_schema(folder: Path) -> None:
    pq.write_table(pa.table({"temperature": [1.0, 2.0]}), folder / "results.parquet")


def of_a_newer_schema(folder: Path) -> None:
    table = pa.table({"key": ["a"]}).replace_schema_metadata({"bisect_torch.schema_version": "99"})
    pq.write_table(table, folder / "results.parquet")


def a_newer_journal(folder: Path) -> None:
    (folder / "results.parquet.journal").write_bytes(encode({"v": 99, "run": {"run_id": "x"}}))


def a_folder_for_results(folder: Path) -> None:
    (folder / "results.parquet").mkdir()


def a_folder_of_cases(folder: Path) -> None:
    (folder / "cases").mkdir()
    (folder / "cases" / "first.py").write_text(CASES)


def broken_syntax(folder: Path) -> None:
    (folder / "broken.py").write_text("def oops(:\n")


REFUSED: dict[str, tuple[list[str], Prepare, int, str]] = {
    "good is bad": (["cases.py", "--good", "2.1.0", "--bad", "2.1"], nothing, 2, "name the same build, 2.1.0"),
    "unknown version": (["cases.py", "--good", "2.1.0", "--bad", "2.7.0"], nothing, 2,
                        "torch 2.7.0 does not exist here; the nearest that exist: 2.3.0"),
    "not a version": (["cases.py", "--good", "2.1.0", "--bad", "newest"], nothing, 2, "is not a version of torch"),
    "empty range": (["cases.py", "--bad", "2.1.0", "--from", "2.2.0"], nothing, 2, "the range is reversed"),
    "everything left out": (["cases.py", *ENDS, "--exclude", "2.1.0,2.2.0,2.3.0"], nothing, 2,
                            "range is empty"),
    "an end left out": (["cases.py", *ENDS, "--exclude", "2.3.0"], nothing, 2, "does not take part"),
    "unknown case": (["cases.py::answer", *ENDS], nothing, 2, "there is no case 'answer'"),
    "unknown instance": (["cases.py::answers[n=3]", *ENDS], nothing, 2, "there is no instance 'answers[n=3]'"),
    "no file": (["nothing.py", *ENDS], nothing, 2, "no such file"),
    "a case file that is none": (["broken.py", *ENDS], broken_syntax, 2, "broken.py"),
    "results that are no Parquet": (["cases.py", *ENDS], not_parquet, 2, "is not a Parquet file, but text"),
    "results without a schema": (["cases.py", *ENDS], without_schema, 2, "no results file of bisect-torch"),
    "results of a newer schema": (["cases.py", *ENDS], of_a_newer_schema, 2, "schema version 99"),
    "a journal of a newer schema": (["cases.py", *ENDS], a_newer_journal, 2, "schema version 99"),
    "results in a folder": (["cases.py", *ENDS], a_folder_for_results, 2, "is no file"),
    "results nowhere": (["cases.py", *ENDS, "-o", "no/such/folder.parquet"], nothing, 2, "does not exist"),
    "a day for --nightly that is none": (["cases.py", *ENDS, "--nightly", "2026-13-01"], nothing, 2, "no day 2026-13"),
    "days for --nightly reversed": (["cases.py", *ENDS, "--nightly", "2026-11-02..2026-11-01"], nothing, 2, "reversed"),
    "a word for --nightly": (["cases.py", *ENDS, "--nightly", "soon"], nothing, 2, "'soon' does not name a nightly"),
    "a candidate for --nightly": (["cases.py", *ENDS, "--nightly", "test"], nothing, 2, "no nightly build"),
    "a word for --absent": (["cases.py", *ENDS, "--absent", "bad"], nothing, 2, "--absent"),
}  # fmt: skip


def state(folder: Path) -> dict[str, str]:
    """Every file but those of the store, with its content."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "store" not in path.parts)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def tool(make_tool: MakeTool) -> Tool:
    made = make_tool({"2.1.0": OK, "2.2.0": OK, "2.3.0": WRONG})
    made.write("cases.py", CASES)
    return made


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_line_and_nothing_is_made(
    tool: Tool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    words, prepare, code, said = REFUSED[name]
    monkeypatch.chdir(tool.folder)
    prepare(tool.folder)
    before = state(tool.folder)

    got = main(["bisect", *tool.run_words(*words)[4:]])

    out, err = capsys.readouterr()
    assert got == code, err
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert lines[0].startswith("error: "), err
    assert said in lines[0], err
    assert len(lines) <= 2, err
    assert "Traceback" not in err
    assert state(tool.folder) == before
    assert not list((tool.folder / "store").glob("envs/2.*"))


def test_a_folder_of_cases_is_searched(
    tool: Tool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``run`` takes one."""
    monkeypatch.chdir(tool.folder)
    a_folder_of_cases(tool.folder)
    assert main(["bisect", *tool.run_words("cases", *ENDS, "--dry-run")[4:]]) == 0
    assert capsys.readouterr().out.startswith("3 builds from 2.1.0 to 2.3.0: at most 3 to judge")

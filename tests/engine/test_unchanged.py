"""A file that is edited or removed while a run goes on: what then ran says nothing about any build."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from bisect_torch.engine.unchanged import Unchanged
from bisect_torch.model import CaseFile, CaseKind
from bisect_torch.results import ResultsFile
from tests.engine.conftest import MakeTool


def read(path: Path, kind: CaseKind = CaseKind.CASE) -> CaseFile:
    neighbour = path.with_name("helper.py")
    modules = {"helper.py": hashlib.sha256(neighbour.read_bytes()).hexdigest()}
    at = path.parent if kind is CaseKind.COMMAND else path
    return CaseFile(at, hashlib.sha256(path.read_bytes()).hexdigest(), kind, modules)


@pytest.mark.parametrize("kind", [CaseKind.CASE, CaseKind.SCRIPT, CaseKind.COMMAND])
def test_what_was_edited_is_named(kind: CaseKind, tmp_path: Path) -> None:
    case, helper = tmp_path / "cases.py", tmp_path / "helper.py"
    case.write_text("one = 1")
    helper.write_text("two = 2")
    unchanged, file = Unchanged(), read(case, kind)
    assert unchanged.what_changed(file) is None
    os.utime(helper)
    assert unchanged.what_changed(file) is None, "touched, and the same"
    helper.write_text("two = 3")
    assert unchanged.what_changed(file) == "helper.py"
    helper.write_text("two = 2")
    assert unchanged.what_changed(file) is None
    helper.unlink()
    assert unchanged.what_changed(file) == "helper.py"


CASES = """
from pathlib import Path
from bisect_torch import case

@case(n=[1, 2])
def edits(n):
    if n == 1:
        Path(__file__).write_text(Path(__file__).read_text() + "# edited\\n")
"""


def test_cells_after_an_edit_are_not_judged(make_tool: MakeTool) -> None:
    tool = make_tool({"2.1.0": ""})
    tool.write("cases.py", CASES)

    answer = tool.run("cases.py", "--from", "2.1.0", "--jobs", "1", "--json")

    assert answer.code == 3, answer.stderr
    seen = ResultsFile.open(tool.folder / "results.parquet").observations()
    assert {each.outcome for each in seen} == {"lost"}
    assert {each.reason for each in seen} == {"cases.py has changed since this run began"}

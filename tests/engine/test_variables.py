"""Environment variables that may change what a cell computes make another cell of it; all others do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_torch.engine.variables import Variables
from bisect_torch.model import Case, CaseFile, CaseKind
from tests.engine.conftest import MakeTool

SCRIPT = """
import os, torch
assert os.environ.get("MODE") != "bad" or torch.answer() != 42
"""


def case(folder: Path, text: str, *argv: str, beside: str = "") -> Case:
    (folder / "repro.py").write_text(text)
    (folder / "helper.py").write_text(beside)
    if argv:
        return Case(CaseFile(folder, "hash", CaseKind.COMMAND, {"repro.py": "of it"}), "repro", argv=argv)
    return Case(CaseFile(folder / "repro.py", "hash", CaseKind.SCRIPT, {"helper.py": "of it"}), "repro")


@pytest.mark.parametrize(
    ("name", "text", "beside", "counts"),
    [
        ("OMP_NUM_THREADS", "", "", True),
        ("TORCH_LOGS", "", "", True),
        ("MODE", "os.environ['MODE']", "", True),
        ("MODE", "", 'os.getenv("MODE", "fast")', True),
        ("MODE", "MODE = 3", "", False),
        ("MODE", "print('the MODE is')", "", False),
        ("HOME", "os.environ['HOME']", "", False),
        ("TMPDIR", "os.environ['TMPDIR']", "", False),
        ("CUDA_VISIBLE_DEVICES", "", "", False),
        ("PYTHONHASHSEED", "os.environ['PYTHONHASHSEED']", "", False),
        ("HF_TOKEN", "os.environ['HF_TOKEN']", "", False),
    ],
)
def test_settings_of_torch_count_and_what_the_code_names(
    name: str, text: str, beside: str, counts: bool, tmp_path: Path
) -> None:
    variables = Variables({name: "a value", "UNRELATED": "1"})
    assert variables.of(case(tmp_path, text, beside=beside)) == ({name: "a value"} if counts else {})
    assert ("a value" in str(variables.describe()), bool(variables.describe())) == (False, counts)


@pytest.mark.parametrize(
    ("argv", "text"), [(("sh", "-c", "exit $MODE"), ""), (("python", "repro.py"), "import os; os.environ['MODE']")]
)
def test_of_a_command_its_words_and_the_files_that_they_name(argv: tuple[str, ...], text: str, tmp_path: Path) -> None:
    assert Variables({"MODE": "1"}).of(case(tmp_path, text, *argv)) == {"MODE": "1"}


def test_with_another_value_a_cell_runs_again_and_no_change_is_made_of_it(
    make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = make_tool({"2.1.0": "def answer(): return 42", "2.2.0": "def answer(): return 42"})
    tool.write("envy.py", SCRIPT)
    assert tool.run("envy.py", "--json").verdicts("envy") == ["ok", "ok"]
    monkeypatch.setenv("UNRELATED", "1")
    assert "run again" not in tool.run("envy.py").stderr

    monkeypatch.setenv("MODE", "bad")
    part = tool.run("envy.py", "--versions", "2.2.0")
    assert "note: the cells run again: MODE had another value in the run before, or none" in part.stderr
    told = tool.call(tool.words("judge", "results.parquet", "--json"))
    assert told.verdicts("envy") == ["ok", "wrong"]
    (finding,) = told.data["findings"]
    assert finding["text"].endswith(", not confirmed.")
    assert finding["evidence"]["confidence"].startswith("not confirmed: MODE not set the same at both ends; ")
    told = tool.call(tool.words("judge", "results.parquet"))
    note = "envy.py: MODE had not the same value on every build: what differs may come from that."
    assert note in " ".join(told.stdout.split())

    assert tool.run("envy.py", "--json").verdicts("envy") == ["wrong", "wrong"]
    monkeypatch.delenv("MODE")
    assert tool.run("envy.py", "--json").verdicts("envy") == ["ok", "ok"]

"""``bisect-torch verify`` end to end: somebody's file in an empty folder, on a loopback index."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.engine.conftest import MakeTool
from tests.support.tool import Answer, Tool
from tests.support.wheels import fake_package

CASES = """
import torch
from bisect_torch import case
from aside import expected

@case
def breaks():
    assert torch.answer() == expected()

@case
def steady():
    assert torch.steady() == 42
"""

ASIDE = "def expected():\n    return 42\n"

BODIES = {
    "2.4.1": "def answer(): return 42\ndef steady(): return 42",
    "2.5.0": "def answer(): return 41\ndef steady(): return 42",
}


@pytest.fixture
def theirs(make_tool: MakeTool, tmp_path: Path) -> Tool:
    """Somebody's folder with results."""
    tool = make_tool(BODIES)
    folder = tmp_path / "theirs"
    folder.mkdir()
    theirs = Tool(folder, tool.index, store=tmp_path / "store")
    theirs.write("cases.py", CASES)
    theirs.write("aside.py", ASIDE)
    return theirs


def made(theirs: Tool, *words: str) -> Tool:
    """Their results, and nothing else, in a folder of ours."""
    ran = theirs.run(*(words or ("cases.py",)))
    assert ran.code == 1, ran.stderr
    ours = theirs.folder.parent / "ours"
    ours.mkdir()
    (theirs.folder / "results.parquet").rename(ours / "results.parquet")
    return Tool(ours, theirs.index, store=theirs.store)


def verify(ours: Tool, *words: str, **variables: str) -> Answer:
    own = ["--index-url", ours.index.url, "--store", str(ours.store)]
    return ours.call(ours.words("verify", *own, "results.parquet", *words), **variables)


def tampered(path: Path, change: Callable[[dict[str, Any]], None], metadata: Mapping[str, Any] | None = None) -> None:
    """Rewrite a results file: ``change`` gets each row; ``metadata`` replaces parts of it."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    for row in rows:
        change(row)
    kept = {key: value for key, value in table.schema.metadata.items() if key != b"bisect_torch.digest"}
    for name, value in (metadata or {}).items():
        kept[f"bisect_torch.{name}".encode()] = json.dumps(value).encode()
    locks = kept[b"bisect_torch.locks"]  # a lock carries a digest of its own, which would be taken for the file's
    kept[b"bisect_torch.locks"] = re.sub(rb"# bisect-torch-digest:[0-9a-f]+", b"#", locks)
    pq.write_table(pa.Table.from_pylist(rows, table.schema).replace_schema_metadata(kept), path)


def metadata(path: Path, name: str) -> Any:
    return json.loads(pq.read_schema(path).metadata[f"bisect_torch.{name}".encode()])


def test_a_true_claim_is_reproduced_by_the_code_in_the_file(theirs: Tool) -> None:
    ours = made(theirs)
    answer = verify(ours, "--yes", "-q")
    assert answer.code == 0, answer.stderr
    assert "breaks, 2.4.1 → 2.5.0: reproduced: ok → wrong, in 3 and 3 processes." in answer.stdout
    assert "1 claim: 1 reproduced" in answer.stdout
    for line in ("--- aside.py (2 lines, SHA-256 ", "2 |     return 42", "    assert torch.answer() == expected()"):
        assert line in answer.stderr, "the code is shown, also what it imports"
    assert [path.name for path in ours.folder.iterdir()] == ["results.parquet"]


def test_a_false_claim_is_not_reproduced(theirs: Tool) -> None:
    ours = made(theirs)

    def lie(row: dict[str, Any]) -> None:
        if (row["case"], row["build"]) == ("steady", "2.5.0"):
            row.update(outcome="raised", error_type="AssertionError", root_type="AssertionError", frame_origin="case")

    tampered(ours.folder / "results.parquet", lie)
    answer = verify(ours, "--yes", "--json", "-q")
    assert answer.code == 1, answer.stderr
    by_case = {each["instance"]: each for each in answer.data["claims"]}
    assert by_case["breaks"]["answer"] == "reproduced"
    assert by_case["steady"]["answer"] == "not reproduced"
    assert by_case["steady"]["after"] == {"build": "2.5.0", "claimed": "wrong", "seen": "ok", "processes": 3}
    assert by_case["steady"]["reason"] == "2.5.0 is ok here, not wrong"
    one = verify(ours, "breaks", "--yes", "-q")
    assert (one.code, one.stdout.count("reproduced")) == (0, 2)


def test_a_lie_on_another_machine_class_leaves_it_open(theirs: Tool) -> None:
    ours = made(theirs)

    def lie(row: dict[str, Any]) -> None:
        row["machine"] = "Linux-riscv64-default"
        if row["build"] == "2.4.1":
            row.update(outcome="signalled", signal="SIGSEGV")

    tampered(ours.folder / "results.parquet", lie)
    answer = verify(ours, "breaks", "--yes", "-q")
    assert answer.code == 3
    assert "cannot say: 2.4.1 is ok here, not crash:SIGSEGV" in answer.stdout
    assert "not Linux-riscv64-default" in answer.stdout


def test_nothing_runs_unless_somebody_agrees(theirs: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = theirs.folder.parent / "ran"
    monkeypatch.setenv("RAN_MARK", str(mark))
    theirs.write("cases.py", CASES + "import os\nopen(os.environ['RAN_MARK'], 'a').close()\n")
    ours = made(theirs)
    mark.unlink()
    refused = verify(ours)
    assert (refused.code, refused.stdout) == (2, "")
    assert "hint: read it, then say --yes" in refused.stderr
    shown = verify(ours, "--dry-run")
    assert shown.code == 0
    assert "breaks on torch 2.4.1 and 2.5.0" in shown.stdout

    ours_end, theirs_end = os.openpty()
    words = ours.words("verify", "results.parquet", "--index-url", ours.index.url, "--store", str(ours.store))
    process = subprocess.Popen(
        words,
        cwd=ours.folder,
        env=ours.variables(),
        stdin=theirs_end,
        stderr=theirs_end,
        stdout=subprocess.PIPE,
        text=True,
    )
    os.close(theirs_end)
    said = b""
    while b"[y/N]" not in said:
        said += os.read(ours_end, 4096)
    os.write(ours_end, b"n\n")
    out, _ = process.communicate(timeout=60)
    os.close(ours_end)
    assert (process.returncode, out) == (3, "")
    assert not mark.exists()


def test_the_code_shown_is_the_code_run(theirs: Tool) -> None:
    """What could hide code from a reader is written as its escape."""
    hidden = "x = 'a'  # \u202e\u2066 'b' \u2069\n\x0c\ny = 1 # \x1b[2K\x1b[1A\n"
    theirs.write("cases.py", CASES + hidden)
    shown = verify(made(theirs), "--dry-run").stdout
    assert "x = 'a'  # \\u202e\\u2066 'b' \\u2069" in shown
    assert "\\x0c" in shown
    assert "y = 1 # \\x1b[2K\\x1b[1A" in shown
    assert not {"\u202e", "\x1b", "\x0c"} & set(shown)


def test_a_source_that_was_redacted_or_exchanged_cannot_be_run(theirs: Tool) -> None:
    theirs.write("cases.py", CASES + "# see /home/somebody/notes\n")
    ours = made(theirs)
    answer = verify(ours, "--yes")
    assert answer.code == 3
    assert "is not the one that ran: private parts were replaced" in " ".join(answer.stdout.split())
    path = ours.folder / "results.parquet"
    digests = metadata(path, "sources")
    tampered(path, lambda row: None, {"sources": {each: "import torch\nprint('other')\n" for each in digests}})
    assert verify(ours, "--yes").code == 3
    tampered(path, lambda row: None, {"sources": {}})
    gone = verify(ours, "--yes")
    assert (gone.code, "the source of cases.py is not in the file" in gone.stdout) == (3, True)


@pytest.mark.parametrize(
    "name", ["../evil.py", "/tmp/evil.py", "a/../../evil.py", ".hidden.py", "a\\..\\b.py", "evil.pth"]
)
def test_names_that_leave_the_folder_are_not_written(theirs: Tool, name: str) -> None:
    ours = made(theirs)
    digest = next(iter(metadata(ours.folder / "results.parquet", "sources")))
    tampered(ours.folder / "results.parquet", lambda row: row.update(local_modules=json.dumps({name: digest})))
    answer = verify(ours, "--yes")
    assert answer.code == 3
    assert "which is not written anywhere" in " ".join(answer.stdout.split())


@pytest.mark.parametrize("name", ["/bin/true", "2.5.0 --store x", "local", "2.5.0,/bin/true"])
def test_a_build_that_is_no_version_is_not_started(theirs: Tool, name: str) -> None:
    """A path would be started as an interpreter, before anybody agreed."""
    ours = made(theirs)

    def lie(row: dict[str, Any]) -> None:
        if row["build"] == "2.5.0":
            row["build_name"] = name

    runs = metadata(ours.folder / "results.parquet", "runs")
    for run in runs:
        run.update(builds=["2.4.1", name], environments=[])
    tampered(ours.folder / "results.parquet", lie, {"runs": runs})
    answer = verify(ours, "--yes")
    assert answer.code == 3, answer.stderr
    assert "reproduced" not in answer.stdout


def test_dependencies_of_the_file_are_used_by_hash_and_named(theirs: Tool) -> None:
    theirs.index.add(fake_package("sidecar", "1.0", upload_time="2024-08-01"))
    theirs.index.add(fake_package("sidecar", "2.0", upload_time="2024-08-02"))
    theirs.write("cases.py", CASES + "import sidecar\nassert sidecar.__version__ == '1.0'\n")
    ours = made(theirs, "cases.py", "--with", "sidecar==1.0")
    answer = verify(ours, "--yes", "-q")
    assert answer.code == 0, answer.stdout
    assert (
        "2.4.1 with the packages of the file's own lock, by hash: numpy==2.1.1, setuptools==74.1.2, sidecar==1.0"
        in (answer.stderr)
    )
    path = ours.folder / "results.parquet"
    locks = {digest: text + "evil @ https://example.org/evil.whl\n" for digest, text in metadata(path, "locks").items()}
    tampered(path, lambda row: None, {"locks": locks})
    other = verify(ours, "--yes", "-q")
    assert other.code == 3
    assert "has other dependencies here than there" in other.stdout


def said(answer: Answer) -> str:
    """Its text, whatever the width at which lines were broken."""
    return " ".join(answer.stdout.split())


def test_a_report_of_a_case_shows_a_script_that_does_the_same_and_of_a_command_its_file(
    theirs: Tool, tmp_path: Path
) -> None:
    only_torch = "import torch\nfrom bisect_torch import case\n@case(right=[41, 42])\ndef answers(right):\n"
    theirs.write("single.py", only_torch + "    assert torch.answer() == right\n")
    theirs.write("named.py", "import torch\nassert torch.answer() == 42\n")
    assert theirs.run("single.py", "--versions", "2.4.1,2.5.0").code == 1
    report = theirs.call(theirs.words("report", "results.parquet", "answers[right=42]"))
    assert "**Code** (`answers.py`): what `answers[right=42]` of `single.py` does." in report.stdout, report.stderr

    code = report.stdout.partition("**Code**")[2].partition("```python\n")[2].partition("```")[0]
    for version, works in (("2.4.1", True), ("2.5.0", False)):
        (tmp_path / version).mkdir()
        stub = f"{BODIES[version]}\ndef manual_seed(seed): pass\n"
        (tmp_path / version / "torch.py").write_text(stub)
        (tmp_path / version / "answers.py").write_text(code)
        ended = subprocess.run([sys.executable, "answers.py"], cwd=tmp_path / version, capture_output=True, text=True)
        assert (ended.returncode == 0, "AssertionError" in ended.stderr) == (works, not works), ended.stderr

    assert theirs.run("-o", "command.parquet", "--", "python", "named.py").code == 1
    shown = theirs.call(theirs.words("report", "command.parquet"))
    assert "which the command names).\n\n```python\nimport torch\nassert torch.answer() == 42\n```" in shown.stdout


def test_a_command_runs_only_with_yes_and_beside_its_files(theirs: Tool) -> None:
    theirs.write("prints.py", "import torch\nassert torch.answer() == 42\n")
    ours = made(theirs, "--", "python", "prints.py", "--n", "3")
    shown = verify(ours, "--dry-run")
    assert "--- command: python prints.py --n 3" in shown.stdout
    gone = verify(ours, "--yes")
    assert (gone.code, "none of the files that its command names is here" in said(gone)) == (3, True)
    ours.write("prints.py", "import torch\nprint('another')\n")
    assert "are not here as they were" in said(verify(ours, "--yes"))
    ours.write("prints.py", "import torch\nassert torch.answer() == 42\n")
    assert "only with --yes" in said(verify(ours))
    answer = verify(ours, "--yes", "-q")
    assert answer.code == 0, answer.stdout + answer.stderr


def test_a_file_that_claims_nothing(theirs: Tool) -> None:
    ours = made(theirs)
    answer = verify(ours, "steady", "--yes")
    assert (answer.code, answer.stdout) == (3, "nothing is claimed\n")
    unknown = verify(ours, "stead", "--yes")
    assert (unknown.code, "did you mean steady?" in unknown.stderr) == (2, True)

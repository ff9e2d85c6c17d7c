"""``bisect-torch report`` on kept results: what goes where, and what is refused."""

from __future__ import annotations

import builtins
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bisect_torch import uv_program
from bisect_torch.cli.main import main
from bisect_torch.cli.report import FORMATS
from bisect_torch.cli.rows import is_named
from tests.report.histories import series

DATA = Path(__file__).parents[1] / "data"
RESULTS = str(DATA / "real_cases_matrix.parquet")


def test_markdown_of_one_case_goes_to_stdout(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["report", RESULTS, "sign_nan"]) == 0

    out, err = capsysbinary.readouterr()
    assert out.decode().startswith("### 🐛 Describe the bug\n\n`sign_nan` fails an assertion in every build")
    assert err == b""


@pytest.mark.parametrize(
    ("name", "beginning"),
    [("a.md", "### "), ("a.json", "{"), ("a.csv", "case_file,"), ("a.xml", "<?xml"), ("a.txt", "### ")],
)
def test_the_name_of_the_file_decides_the_format_and_what_was_written_is_told(
    name: str, beginning: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", RESULTS, "sign_nan", "-o", str(tmp_path / name)]) == 0

    assert (tmp_path / name).read_text().startswith(beginning)
    out, err = capsys.readouterr()
    assert out == ""
    told = re.fullmatch(r"wrote (\S+): \w+, ([\d.]+) (k?)B, 1 row on 15 builds\n", err)
    assert told is not None
    assert told[1] == str(tmp_path / name)
    size = float(told[2]) * (1000 if told[3] else 1)
    assert size == pytest.approx((tmp_path / name).stat().st_size, rel=0.05)


def test_what_was_edited_by_hand_is_kept_beside_a_new_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, kept = tmp_path / "issue.md", tmp_path / "issue.md~"
    line = ["report", RESULTS, "sign_nan", "-o", str(page)]
    page.write_text("what I know of it")
    page.chmod(0o640)

    assert main(line) == 0
    assert capsys.readouterr().err.endswith(f"builds; what was there is now {kept}\n")
    assert kept.read_text() == "what I know of it"
    written = page.read_text()
    assert written.startswith("### ")
    assert page.stat().st_mode & 0o777 == 0o640

    assert main(line) == 0  # the same once more: nothing is put aside, and the first is still there
    assert capsys.readouterr().err.endswith("builds\n")
    assert kept.read_text() == "what I know of it"

    page.write_text("other words")
    assert main(line) == 0
    assert (page.read_text(), kept.read_text()) == (written, "other words")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["issue.md", "issue.md~"]


def test_a_report_is_written_where_a_link_leads_and_what_was_there_is_kept_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "far").mkdir()
    real, link = tmp_path / "far" / "real.md", tmp_path / "issue.md"
    real.write_text("by hand")
    link.symlink_to(real)

    assert main(["report", RESULTS, "sign_nan", "-o", str(link)]) == 0
    assert capsys.readouterr().err.endswith(f"; what was there is now {real}~\n")
    assert link.is_symlink()
    assert real.read_text().startswith("### ")
    assert (tmp_path / "far" / "real.md~").read_text() == "by hand"


def test_what_cannot_be_put_aside_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "issue.md"
    page.write_text("by hand")
    (tmp_path / "issue.md~").mkdir()

    assert main(["report", RESULTS, "sign_nan", "-o", str(page)]) == 3
    assert f"-o {page}: cannot be written: " in capsys.readouterr().err
    assert page.read_text() == "by hand"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["issue.md", "issue.md~"]


def test_cases_and_k_choose_together(tmp_path: Path) -> None:
    words = ["chebyshev_t_nan.py", "sign_nan", "-k", "nan and not sign"]
    assert main(["report", RESULTS, *words, "-o", str(tmp_path / "a.json")]) == 0

    document = json.loads((tmp_path / "a.json").read_text())
    assert [row["instance"] for row in document["series"]] == ["chebyshev_t_nan"]
    assert [finding["instances"] for finding in document["findings"]] == [["chebyshev_t_nan"]] * 2


@pytest.mark.parametrize(
    "name", ["bmm[dtype=float32,n=2]", "bmm[float32,2]", "cases.py::bmm[dtype=float32,n=2]", "b/cases.py::bmm"]
)
def test_a_row_is_found_by_the_names_under_which_it_is_shown(name: str) -> None:
    assert is_named(name, series("bmm[dtype=float32,n=2]", "ok", file="a/b/cases.py"))
    assert not is_named(name, series("bmm[dtype=float32,n=3]", "ok", file="a/x/cases.py"))


def test_nothing_found_writes_nothing_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "issue.md"
    page.write_text("an older one")

    assert main(["report", RESULTS, "sum_bool_arange_half", "-o", str(page)]) == 1

    out, err = capsys.readouterr()
    assert (out, page.read_text()) == ("", "an older one")
    assert err == "no report: 1 instance ok on every version that was judged, 2.4.1 to 2.14.0\n"


def test_what_no_verdict_tells_stands_below_in_lines_that_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instead of one line of 500 characters."""
    told = [
        "3 instances ok on every version",
        "repro is ok on 2.4.1 and 2.5.0, but what it prints differs: " + "x " * 40,
    ]
    monkeypatch.setattr("bisect_torch.report.markdown.nothing_found", lambda _: told)
    monkeypatch.setenv("COLUMNS", "60")

    assert main(["report", RESULTS, "sum_bool_arange_half"]) == 1

    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [
        "no report: 3 instances ok on every version",
        "repro is ok on 2.4.1 and 2.5.0, but what it prints differs:",
    ]
    assert max(map(len, lines)) <= 60


REFUSED = {
    "unknown case": (["sign_nam"], "holds no case 'sign_nam'", "did you mean sign_nan?", 2),
    "a case by the word in its name": (["NAN"], "holds no case 'NAN'", "did you mean ", 2),
    "a case by its file": (["default.py::sign_nam"], "holds no case", "did you mean ", 2),
    "a line of the matrix with its number": (["median (2×)"], "holds no case", "--unfold has each row by its name", 2),
    "unreadable -k": (["-k", "and and"], "-k 'and and': a name is missing", "for example", 2),
    "-k that fits nothing": (
        ["-k", "softmax"],
        "-k 'softmax' fits none of 20 instances",
        "file::instance, such as ",
        2,
    ),
    "unknown ending": (
        ["-o", "r.pdf"],
        "-o r.pdf: no format is known by that ending",
        "these are: .md, .markdown, .html, .png, .svg, .json, .csv, .junit, .xml",
        2,
    ),
    "a line of the matrix that stands for several rows": (
        ["float32,2 and 5 others"],
        "holds no case 'float32,2 and 5 others'",
        f"bisect-torch judge {RESULTS} --unfold has each row by its name",
        2,
    ),
    "unknown format": (["--format", "pdf"], "invalid choice: 'pdf'", "--help", 2),
    "the results themselves": (["-o", RESULTS], "-o is RESULTS itself", "another file", 2),
    "their journal": (["-o", RESULTS + ".journal"], "-o is RESULTS itself", "another file", 2),
    "no such folder": (["-o", "/nowhere/at/all.md"], "the folder /nowhere/at does not exist", "-o FILE", 2),
}


@pytest.mark.parametrize(("words", "message", "hint", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(
    words: list[str], message: str, hint: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.stat(RESULTS)

    assert main(["report", RESULTS, *words]) == code

    out, err = capsys.readouterr()
    assert out == ""
    assert message in err.splitlines()[0]
    assert hint in "".join(err.splitlines()[1:])
    assert os.stat(RESULTS) == before


def test_a_format_whose_library_is_missing_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    really = builtins.__import__

    def without_jinja(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if name.partition(".")[0] == "json" and (globals or {}).get("__name__") == "bisect_torch.report.data":
            raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2.nodes")
        return really(name, globals, locals, fromlist, level)

    monkeypatch.delitem(sys.modules, "bisect_torch.report.data", raising=False)  # whatever ran before
    monkeypatch.setattr(builtins, "__import__", without_jinja)

    assert main(["report", RESULTS, "--format", "json"]) == 2
    assert capsys.readouterr().err == (
        f"error: --format json needs jinja2, which is not installed\nhint: {uv_program.install_line('jinja2')}\n"
    )


def test_a_library_is_installed_for_the_interpreter_that_runs_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/a b/bin/python")
    monkeypatch.setattr(uv_program, "find_spec", lambda name: object())
    assert uv_program.install_line("matplotlib") == "'/a b/bin/python' -m pip install matplotlib"
    monkeypatch.setattr(uv_program, "find_spec", lambda name: None)  # as uv makes its environments
    assert uv_program.install_line("ray") == f"{uv_program.binary()} pip install --python '/a b/bin/python' ray"


def test_a_picture_is_nothing_for_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    assert main(["report", RESULTS, "--format", "png"]) == 2
    assert capsys.readouterr().err == "error: png is nothing for a terminal\nhint: name a file: -o matrix.png\n"


def test_the_formats_are_those_of_the_design() -> None:
    assert list(FORMATS) == ["markdown", "html", "png", "svg", "json", "csv", "junit"]

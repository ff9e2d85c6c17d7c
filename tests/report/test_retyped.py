"""A line that is printed runs again in the folder where its run was started, and tells nothing private."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from bisect_torch.report.html import html
from bisect_torch.report.markdown import markdown
from bisect_torch.report.rerun import carried, run_part, what_ran
from bisect_torch.report.retyped import shell_line, typed
from bisect_torch.report.summary import summary
from tests.report import histories
from tests.report.test_markdown import reported

NAMED: dict[str, tuple[str, list[str], str]] = {
    # what: the file as results call it, the words of the line, how the file is named to run it again
    "in a folder": ("x/r.py", ["run", "x/r.py"], "x/r.py"),
    "in a folder, by the whole path": ("x/r.py", ["run", "<cwd>/x/r.py"], "x/r.py"),
    "in the folder above": ("r.py", ["bisect", "../r.py", "--good", "2.8.0"], "../r.py"),
    "in the home": ("r.py", ["run", "<home>/x/r.py"], "~/x/r.py"),
    "elsewhere, one case of it": ("r.py", ["run", "/data/r.py::f[a=1]"], "/data/r.py"),
    "two of one name": ("b/r.py", ["run", "../a/r.py", "../b/r.py"], "../b/r.py"),
    "two of one name, one of them here": ("r.py", ["run", "x/r.py", "../y/r.py"], "../y/r.py"),
    "through a link": ("r.py", ["run", "link/r.py"], "link/r.py"),
    "like an option": ("-dash.py", ["run", "./-dash.py"], "./-dash.py"),
    "like an option, by the whole path": ("-dash.py", ["run", "<cwd>/-dash.py"], "./-dash.py"),
    "like an option, not named": ("-dash.py", ["recheck", "results.parquet"], "./-dash.py"),
    "of a folder": ("x/r.py", ["run", "x"], "x/r.py"),
    "of a folder elsewhere": ("r.py", ["run", "../x", "-o", "../results.parquet"], "../x/r.py"),
    "of a folder, called as a shipped one": ("x/default.py", ["run", "x"], "x/default.py"),
    "shipped": ("default.py", ["run", "-o", "../results.parquet"], "--suite=default"),
    "of somebody": ("r.py", ["run", "<user>/r.py"], "r.py"),
    "not known": ("/home/me/r.py", [], "r.py"),
}


@pytest.mark.parametrize("what", NAMED)
def test_the_file_is_named_as_from_where_the_run_was_started(what: str) -> None:
    file, own, named = NAMED[what]
    seen = histories.observation(histories.instance("f", file=file), "2.9.0")

    assert what_ran(seen, own) == named


@pytest.mark.parametrize(
    ("file", "word", "named"),
    [("x/r.py", "x/r.py", "x/r.py"), ("-dash.py", "./-dash.py", "./-dash.py"), ("r.py", "<home>/x/r.py", "~/x/r.py")],
)
def test_every_format_with_a_line_has_the_same_name(file: str, word: str, named: str) -> None:
    row = histories.series(Path(file).stem, "ok", "wrong", file=file)
    found = reported(row, runs=({"run_id": "run", "arguments": ["run", word]},))

    assert f"\nbisect-torch run {named} --versions 2.4.1,2.5.0" in markdown(found)
    assert f'"bisect-torch run {named}\\n"' in html(found)


def test_a_script_like_an_option_is_no_option_of_python() -> None:
    row = histories.series("-dash", "ok", "wrong", file="-dash.py")
    found = reported(row, sources={"00": "import torch\nassert False\n"}, facts={"python": "3.11.7", "backend": "pypi"})

    assert " && python ./-dash.py  # first bad" in markdown(found)


def test_folders_in_other_words_are_written_as_a_shell_knows_them() -> None:
    words = ["run", "r.py", "--with-editable", "<home>/my lib", "--with-editable=<cwd>/lib", "--with=scipy"]

    assert carried(words) == ["--with-editable", "~/my lib", "--with-editable", "lib", "--with=scipy"]
    seen = histories.observation(histories.instance("train", file="."), "2.9.0")
    tail = run_part(seen, {"arguments": ["run", "--", "python", "<cwd>/train.py", "--out=<home>/x"]}).split("\n")[1]
    assert tail == "-- python train.py '--out=<home>/x'"


def test_a_shell_gives_the_words_back() -> None:
    words = ["~/a b/$x.py", "~", "a'b", "", "--with", "x>=1"]
    done = subprocess.run(
        ["sh", "-c", f"printf '%s|' {shell_line(words)}"],
        env={"HOME": "/home/me"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "/home/me/a b/$x.py|~|a'b||--with|x>=1|"


@pytest.mark.parametrize("word", ["x.py", "-k", "<cwd>x", "<home>", "a<cwd>/b", "<user>/x"])
def test_other_words_stay_as_they_are(word: str) -> None:
    assert typed(word) == word


def test_the_results_of_a_run_are_named_so_that_the_next_line_can_be_copied() -> None:
    rows = histories.series("f", "broken", "broken"), histories.series("g", "ok", "ok")
    found = dataclasses.replace(reported(*rows), results=Path("<home>/my x/results.parquet"))

    text = "\n".join("".join(part for part, _ in line) for line in summary(found, 100))

    assert "results: ~/my x/results.parquet" in text
    assert "bisect-torch merge ~/'my x/results.parquet' -k" in text

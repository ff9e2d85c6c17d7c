"""What a line probably meant is said, and every refusal of the tool says what to do."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisect_torch.cli.commands import COMMANDS
from bisect_torch.cli.main import main
from bisect_torch.cli.parser import parse
from bisect_torch.cli.run_request import _refuse_missing_program, tell_late_options
from bisect_torch.environments import Store
from bisect_torch.errors import UsageError

ROOT = Path(__file__).parents[2]

MEANT: dict[str, tuple[list[str], str]] = {
    # what is wrong: the line, and its hint
    "a command without run and --": (["python", "rms.py"], "to run a command: bisect-torch run -- python rms.py"),
    "a command without --": (
        ["run", "python", "rms.py"],
        "a command stands after --: bisect-torch run -- python rms.py",
    ),
    "a command with options of its own": (
        ["run", "python", "rms.py", "--steps", "3"],
        "to run a command: bisect-torch run -- python rms.py --steps 3",
    ),
    "a command with options of ours": (
        ["run", "python", "rms.py", "--from", "2.6.0"],
        "a command stands after --: bisect-torch run --from 2.6.0 -- python rms.py",
    ),
    "a script with a word of its own": (
        ["run", "rms.py", "a b", "--from", "2.6.0", "c"],
        "what is for the script itself: bisect-torch run --from 2.6.0 -- python rms.py 'a b' c",
    ),
    "a script with an option of its own": (
        ["bisect", "rms.py", "--good", "2.6.0", "--steps", "3"],
        "what is for the script itself: bisect-torch bisect --good 2.6.0 -- python rms.py --steps 3",
    ),
    "an option after -- that is for the tool": (
        ["run", "rms.py", "--", "--dry-run"],
        "leave -- out: bisect-torch run rms.py --dry-run; or, for the script itself: "
        "bisect-torch run -- python rms.py --dry-run",
    ),
    "a script as a command": (
        ["run", "--versions", "2.6.0", "--", "rms.py", "--steps", "3", "a b"],
        "did you mean `-- python rms.py --steps 3 'a b'`?",
    ),
    "a script as a command of a search": (
        ["bisect", "--good", "2.6.0", "--bad", "2.9.0", "--", "./rms.py"],
        "did you mean `-- python ./rms.py`?",
    ),
    "two files for a search": (
        ["bisect", "rms.py", "bin/tool.py", "--good", "2.6.0", "--bad", "2.4.1"],
        "bisect takes one file at a time: bisect-torch bisect rms.py --good 2.6.0 --bad 2.4.1",
    ),
    "two files for watch, with a case": (
        ["watch", "rms.py", "bin/tool.py::bmm"],
        "watch takes one file at a time: bisect-torch watch rms.py",
    ),
    "versions apart": (
        ["run", "rms.py", "--versions", "2.6.0", "2.7.0"],
        "builds are named by options, several with commas: --versions 2.6.0,2.7.0",
    ),
    "ends without names": (
        ["bisect", "rms.py", "2.6.0", "2.7.0"],
        "the ends have names: --good 2.6.0 --bad 2.7.0",
    ),
    "ends called a range": (
        ["bisect", "rms.py", "--from", "2.6.0", "--to", "2.7.0"],
        "--good 2.6.0 --bad 2.7.0 in place of --from and --to",
    ),
    "a case for watch": (
        ["watch", "rms.py::a b"],
        "only one of its cases: bisect-torch watch rms.py -k 'a b'",
    ),
    "a results file without its command": (
        ["all results.parquet"],
        "to see what is in it: bisect-torch judge 'all results.parquet'",
    ),
    "a folder without run": (["bin"], "to run what is in a folder: bisect-torch run bin"),
    "a file with options and without run": (
        ["rms.py::norm", "-k", "a b"],
        "to run a file: bisect-torch run rms.py::norm -k 'a b'",
    ),
    "a file mistyped": (["run", "rns.py"], "did you mean rms.py?"),
    "a file without its ending": (["run", "rms"], "did you mean rms.py?"),
    "a file without run": (["rms.py"], "to run a file: bisect-torch run rms.py"),
    "a command's name mistyped": (["rechek"], "did you mean 'recheck'?"),
    "a command of envs mistyped": (["envs", "lst"], "did you mean 'list'?"),
    "a choice mistyped": (["report", "x.parquet", "--format", "markdwon"], "did you mean 'markdown'?"),
    "a shell mistyped": (["completion", "bsh"], "did you mean 'bash'?"),
    "no results": (["report"], "for example: bisect-torch report results.parquet repro > issue.md"),
    "no results, nor a case": (["attribute"], "for example: bisect-torch attribute results.parquet"),
    "no command of envs": (
        ["envs"],
        "the commands are: build, list, path, remove, prune, lock, check; `bisect-torch envs --help` says what they do",
    ),
    "results mistyped": (
        ["judge", "reslts.parquet"],
        "did you mean results.parquet? Else `bisect-torch run FILE -o reslts.parquet` makes them",
    ),
    "results of another name": (
        ["judge", "x.parquet"],
        "there is results.parquet; `bisect-torch run FILE -o x.parquet` makes them",
    ),
    "results without their ending": (
        ["report", "results"],
        "did you mean results.parquet? Else `bisect-torch run FILE -o results` makes them",
    ),
    "results in a folder mistyped": (
        ["judge", "bni/kept.parquet"],
        "did you mean bin/kept.parquet?",
    ),
    "a file in a folder mistyped": (["run", "bni/tool.py"], "did you mean bin/tool.py?"),
    "a script of a command mistyped": (["run", "--", "python", "bin/tol.py"], "did you mean bin/tool.py?"),
    "a file of a suite mistyped": (
        ["run", "--versions", "2.9.1", "--pytest", "bin/tol.py"],
        "paths after --pytest are seen from the working directory; did you mean bin/tool.py?",
    ),
    "a name like none but for its ending": (
        ["run", "qq.py"],
        "paths are seen from the working directory, which holds rms.py",
    ),
    "a bug report mistyped": (["new", "bin/iseu.md"], "did you mean bin/issue.md?"),
    "results twice": (["merge", "results.parquet", "results.parquet", "-o", "x.parquet"], "name each file once"),
    "no ends": (
        ["bisect", "rms.py"],
        "for example --good 2.6.0 --bad 2.9.0; with --bad 2.9.0 alone it walks back to one that is good",
    ),
    "a suite mistyped": (
        ["run", "--versions", "2.9.1", "--pytest", "rns.py"],
        "paths after --pytest are seen from the working directory; did you mean rms.py?",
    ),
    "a file that is not there": (
        ["run", "other.py"],
        "paths are seen from the working directory, which holds rms.py",
    ),
    "an option of a search": (
        ["run", "rms.py", "--good", "2.6.0"],
        "it belongs to bisect-torch bisect; or, for the script itself: bisect-torch run -- python rms.py --good 2.6.0",
    ),
    "versions of a search": (
        ["bisect", "rms.py", "--versions", "2.6.0"],
        "it belongs to bisect-torch run, recheck, watch, …; the builds of a search are named by its ends, --good and "
        "--bad; or, for the script itself: bisect-torch bisect -- python rms.py --versions 2.6.0",
    ),
    "the version": (["bisect", "--version"], "bisect-torch --version"),
    "a command without its dashes": (
        ["run", "--versions", "2.6.0", "python", "rms.py", "--steps", "3"],
        "what is for the script itself: bisect-torch run --versions 2.6.0 -- python rms.py --steps 3",
    ),
    "an option mistyped": (["run", "--version"], "did you mean --versions?"),
    "tolerances of a run": (
        ["run", "rms.py", "-o", "a b.parquet", "--rtol", "1e-3", "--atol=0.5"],
        "run without it, then judge what check() has stored: bisect-torch judge 'a b.parquet' "
        "--rtol 1e-3 --atol=0.5; or write check(…, rtol=…, atol=…); or, for the script itself: "
        "bisect-torch run -o 'a b.parquet' -- python rms.py --rtol 1e-3 --atol=0.5",
    ),
    "tolerances of a search": (
        ["bisect", "--good", "2.6.0", "--rtol=1e-3"],
        "run without it, then judge what check() has stored: bisect-torch judge results.parquet "
        "--rtol=1e-3; or write check(…, rtol=…)",
    ),
    "an option of another command": (["report", "x.parquet", "--rtol", "1"], "it belongs to bisect-torch judge"),
}


@pytest.mark.parametrize("what", MEANT)
def test_what_was_meant(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rms.py").write_text("import torch\n")
    (tmp_path / "results.parquet").touch()
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    for name in ("kept.parquet", "tool.py", "issue.md"):
        (program.parent / name).touch()
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("BISECT_TORCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    words, hint = MEANT[what]
    assert main(words) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"hint: {hint}"


@pytest.mark.parametrize(
    ("mark", "words", "note"),
    [
        ("--", ["python", "x.py", "--versions", "2.9.1", "--versions"], "--versions after -- goes to the command"),
        ("--", ["python", "x.py", "--from=2.6.0", "--jobs"], "--from, --jobs after -- go to the command"),
        ("--", ["python", "-m", "pytest", "-q", "-k", "x", "--steps", "from"], None),
        ("--pytest", ["tests", "--", "--dry-run"], "--dry-run after --pytest goes to pytest"),
    ],
)
def test_options_of_ours_that_go_to_another_program_are_said(
    mark: str, words: list[str], note: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No refusal: the program may have such an option."""

    def command(args: argparse.Namespace) -> int:
        assert words in (args.command_words, args.pytest_words)
        tell_late_options(args)
        return 0

    monkeypatch.setattr("bisect_torch.cli.run.command", command)
    assert main(["run", mark, *words]) == 0
    stands = f"; options of bisect-torch stand before {mark}"
    assert capsys.readouterr().err == ("" if note is None else f"note: {note}{stands}\n")


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["run", "a.py", "--from", "2.6.0", "b.py"], "files", [Path("a.py"), Path("b.py")]),
        (["report", "x.parquet", "--format", "svg", "bmm"], "cases", ["bmm"]),
        (["merge", "a.parquet", "-o", "all.parquet", "b.parquet"], "files", [Path("a.parquet"), Path("b.parquet")]),
    ],
)
def test_names_may_stand_behind_options(words: list[str], name: str, value: object) -> None:
    """Whatever the version of argparse."""
    assert getattr(parse(words), name) == value


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["judge"], "RESULTS is missing"),
        (["attribute"], "RESULTS is missing"),
        (["recheck"], "RESULTS is missing"),
        (["compare", "a.parquet"], "B is missing"),
    ],
)
def test_what_may_be_left_out_is_not_called_missing(
    words: list[str], missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"error: {missing}"


def test_a_script_that_can_be_started_by_itself_is_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its path where it may be executed, and by its name where PATH has it."""
    program = tmp_path / "tool.py"
    program.write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for word in ("tool.py", "./tool.py", str(program)):
        program.chmod(0o644)
        with pytest.raises(UsageError, match=r"tool\.py: no such program"):
            _refuse_missing_program([word])
        program.chmod(0o755)
        _refuse_missing_program([word])
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match=r"^tool\.py: no such program"):
        _refuse_missing_program(["tool.py"])


def _refusals() -> list[tuple[Path, ast.Call]]:
    found = []
    for path in sorted((ROOT / "bisect_torch").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "UsageError":
                found.append((path.relative_to(ROOT / "bisect_torch"), node))
    return found


REASONS = {"cases/kept.py", "engine/verifying.py"}
"""Errors that are not printed: ``verify`` says them of a claim, as the reason why it cannot be tried."""


def test_every_refusal_has_a_hint() -> None:
    refusals = _refusals()
    assert len(refusals) > 120
    bare = {
        f"{path}: {ast.unparse(call.args[0])}"
        for path, call in refusals
        if str(path) not in REASONS and not any(keyword.arg == "hint" for keyword in call.keywords)
    }
    assert bare == set()


def test_every_command_is_described_once() -> None:
    """The line in ``bisect-torch --help`` and the one of the command's own parser do not drift apart."""
    assert all(text and not text.endswith(".") and len(text) <= 66 for _, _, text, _ in COMMANDS)


LINE = re.compile(r"(`?)bisect-torch (\w+)((?: [^`]*)?)(`?)")
VERBS = {"makes", "takes", "looks", "lists", "shows", "says", "puts", "uses", "adds", "runs", "or"}
NO_LINES = {
    # Sentences about the tool, not lines to type.
    "again", "there", "that", "reads", "knows", "is", "failed", "stand", "X",
}  # fmt: skip


def _taken_in(part: ast.expr) -> str:
    """A part of an f-string; of a store's option, which may be nothing, nothing."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    return "" if ".option" in ast.unparse(part) else "X"


def _texts() -> Iterator[tuple[str, str]]:
    """Every text of the tool that is no docstring and no page of ``--help``, with a word where it takes one in."""
    for path in sorted((ROOT / "bisect_torch").rglob("*.py")):
        tree = ast.parse(path.read_text())
        nodes = list(ast.walk(tree))
        left_out = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        left_out |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            if id(node) in left_out:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            elif isinstance(node, ast.JoinedStr):
                text = "".join(map(_taken_in, node.values))
            else:
                continue
            if "bisect-torch" in text and "examples:" not in text:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def test_every_line_in_a_text_can_be_typed_as_it_stands() -> None:
    """In the middle of a sentence it stands between backticks; what follows it there is no part of it."""
    seen = 0
    for place, text in _texts():
        for begin, command, rest, end in LINE.findall(text):
            if not begin and command in NO_LINES:
                continue
            seen += 1
            assert begin == end or (begin and not end and rest.endswith("X")), f"{place}: {text}"
            if not begin:  # the rest of the text is the line
                assert not VERBS & set(rest.split()), f"{place}: {text}"
            if "X" not in command and rest.strip():  # else the command is only named
                rest = re.sub("--torch-backend X+", "--torch-backend cpu", rest).replace(
                    "--max-size XGB", "--max-size 1GB"
                )
                parse([command, *shlex.split(rest)])
    assert seen > 40


def test_a_store_that_was_named_stands_in_the_lines_about_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BISECT_TORCH_STORE", str(tmp_path / "own"))
    assert Store(tmp_path / "own").option == ""
    assert Store(tmp_path / "an other").option == f" --store '{tmp_path}/an other'"

"""The command line: quick, clear about mistakes, with the exit codes of the design."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from bisect_torch.cli import main as cli
from bisect_torch.cli import parser
from bisect_torch.cli.commands import COMMANDS
from bisect_torch.cli.words import before_pytest
from bisect_torch.errors import InfrastructureError, UsageError

HEAVY = ("argcomplete", "rich", "pyarrow", "orjson", "requests", "pypi_simple", "packaging", "filelock", "platformdirs")
ROOMS = ("releases", "environments", "cases", "engine", "results", "analysis", "report")


def in_child(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environ}, check=False
    )


@pytest.fixture
def fake(monkeypatch):
    """Puts one command called ``fake`` in the place of the real ones; returns its module, to be given a ``command``."""
    module = types.ModuleType("fake_command_module")

    def add_parser(subparsers):
        parser = subparsers.add_parser("fake", help="does nothing")
        parser.add_argument("--from", dest="first")
        parser.add_argument("--torch-backend")
        parser.add_argument("files", nargs="*")

    module.add_parser = add_parser
    module.command = lambda args: 0
    monkeypatch.setitem(sys.modules, "fake_command_module", module)
    monkeypatch.setattr(parser, "COMMANDS", (("fake", "fake_command_module", "does nothing", True), COMMANDS[1]))
    monkeypatch.delenv("BISECT_TORCH_DEBUG", raising=False)
    return module


@pytest.mark.parametrize("words", [["--help"], [], ["-h"], ["--version"]])
def test_help_and_version_import_no_library_and_no_command(words):
    code = (
        "import sys; from bisect_torch.cli.main import main\n"
        f"code = main({words!r})\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules],"
        f" [name for name in sys.modules if name.startswith('bisect_torch.') and name.split('.')[1] in {ROOMS!r}],"
        " [name for name in sys.modules if name.startswith('bisect_torch.cli.')], file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = in_child(code)
    assert done.returncode == 0
    modules = [f"bisect_torch.cli.{name}" for name in ("output", "commands", "words", "parser", "main")]
    assert done.stderr == f"LOADED [] [] {modules}\n"


@pytest.mark.parametrize(("command", "loaded"), [("judge", set()), ("report", {"numpy"})])
def test_what_pyarrow_would_load_for_nothing_is_left_out(command, loaded, tmp_path):
    """numpy and pandas are installed here; only pictures of a report need the first. Of clouds nothing is read."""
    pytest.importorskip("pandas")
    code = (
        f"import sys; sys.argv = ['bisect-torch', {command!r}, {str(tmp_path / 'none.parquet')!r}]\n"
        "from bisect_torch.cli.main import main\n"
        "code = main()\n"
        "import pyarrow as pa, pyarrow.parquet\n"
        "assert pa.array([1, 2]).to_pylist() == [1, 2]\n"
        "print('LOADED', sorted({'numpy', 'pandas', 'pyarrow._s3fs'} & set(sys.modules)), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = in_child(code)
    assert done.returncode == 2
    assert done.stderr.endswith(f"LOADED {sorted(loaded)}\n")


def test_the_end_of_the_program_looks_for_no_garbage():
    """Every module's objects would be looked at, twice: a tenth of a second run."""
    code = (
        "import gc, sys; sys.argv = ['bisect-torch', '--version']\n"
        "from bisect_torch.cli.entry import main\n"
        "code = main()\n"
        "assert gc.get_freeze_count() > 10_000\n"
        "sys.exit(code)"
    )
    done = in_child(code)
    assert done.returncode == 0, done.stderr


def test_help_shows_every_command_and_examples(capsys):
    assert cli.main([]) == 0
    text = capsys.readouterr().out
    assert all(f"\n    {name} " in text for name, *_ in COMMANDS)
    assert "bisect-torch run repro.py --from 2.6.0 --to 2.9.1" in text


def test_a_command_gets_its_arguments_and_its_code_is_returned(fake):
    seen = []
    fake.command = lambda args: seen.append(args) or 1
    assert cli.main(["fake", "a.py", "--from", "2.6.0"]) == 1
    assert (seen[0].files, seen[0].first, seen[0].command_words, seen[0].debug) == (["a.py"], "2.6.0", None, False)


def test_words_after_dashes_arrive_untouched(fake):
    seen = []
    fake.command = lambda args: seen.append(args) or 0
    assert cli.main(["fake", "--from", "2.6.0", "--", "python", "x.py", "--from", "--", "--debug"]) == 0
    assert seen[0].command_words == ["python", "x.py", "--from", "--", "--debug"]
    assert seen[0].debug is False


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["fak"], "unknown command 'fak'", "did you mean 'fake'?"),
        (["zzz"], "unknown command 'zzz'", "the commands are: fake, bisect"),
        ([__file__], f"unknown command {__file__!r}", f"to run a file: bisect-torch run {__file__}"),
        (["--vrsion"], "unknown option '--vrsion'", "did you mean --version?"),
        (["fake", "--form", "2.6.0"], "unknown option '--form'", "did you mean --from?"),
        (["fake", "--torch-back=cpu"], "unknown option '--torch-back'", "did you mean --torch-backend?"),
        (
            ["fake", "--from"],
            "argument --from: expected one argument",
            "`bisect-torch fake --help` lists what is accepted",
        ),
        (["--", "ls"], "a command is missing before --", "bisect-torch run -- COMMAND ARGS…"),
    ],
)
def test_a_mistyped_line_ends_with_2_and_says_what_was_meant(fake, capsys, words, message, hint):
    assert cli.main(words) == 2
    assert capsys.readouterr().err == f"error: {message}\nhint: {hint}\n"


def test_a_command_that_runs_nothing_refuses_words_after_dashes(fake, capsys, monkeypatch):
    monkeypatch.setattr(parser, "COMMANDS", (("fake", "fake_command_module", "does nothing", False),))
    assert cli.main(["fake", "--", "ls"]) == 2
    assert capsys.readouterr().err.startswith("error: fake takes no command after --\nhint: ")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            UsageError("no release 2.99.0", hint="the newest is 2.15.0"),
            2,
            "error: no release 2.99.0\nhint: the newest is 2.15.0\n",
        ),
        (InfrastructureError("the disk is full"), 3, "error: the disk is full\n"),
        (UsageError("bad name \x1b[2J"), 2, "error: bad name \\x1b[2J\n"),
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_each_error_has_its_exit_code(fake, capsys, monkeypatch, error, code, text):
    monkeypatch.setattr("bisect_torch.cli.output.drop_stdout", lambda: None)

    def command(args):
        raise error

    fake.command = command
    assert cli.main(["fake"]) == code
    assert capsys.readouterr().err == text


def raise_in_command(args):
    raise ZeroDivisionError("a\nb")


def test_an_unforeseen_error_is_one_line_and_a_way_to_see_more(fake, capsys):
    fake.command = raise_in_command
    assert cli.main(["fake"]) == 3
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: unexpected ZeroDivisionError: a at test_main.py:")
    assert hint == "hint: this is a fault of bisect-torch, not of torch; run again with --debug for the traceback"


@pytest.mark.parametrize("place", [["--debug", "fake"], ["fake", "--debug"], "variable"])
def test_debug_shows_the_traceback(fake, capsys, monkeypatch, place):
    if place == "variable":
        monkeypatch.setenv("BISECT_TORCH_DEBUG", "1")
        place = ["fake"]
    fake.command = raise_in_command
    assert cli.main(place) == 3
    text = capsys.readouterr().err
    assert text.startswith("Traceback (most recent call last):\n")
    assert "please report it" in text


def test_debug_is_known_to_the_command_wherever_it_stands(fake):
    seen = []
    fake.command = lambda args: seen.append(args.debug) or 0
    assert [cli.main(words) for words in (["--debug", "fake"], ["fake", "--debug"], ["fake"])] == [0, 0, 0]
    assert seen == [True, True, False]


def test_a_reader_that_closes_the_pipe_is_no_fault():
    code = (
        "import sys, types\n"
        "from bisect_torch.cli import main as cli, parser\n"
        "module = types.ModuleType('m'); sys.modules['m'] = module\n"
        "module.add_parser = lambda subparsers: subparsers.add_parser('fake')\n"
        "module.command = lambda args: sys.stdout.write('x' * 1_000_000) and 0\n"
        "parser.COMMANDS = (('fake', 'm', '', False),)\n"
        "sys.exit(cli.main(['fake']))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert (child.wait(), errors) == (141, "")


@pytest.mark.parametrize(
    ("words", "own", "pytest_words"),
    [
        (["run", "x.py"], ["run", "x.py"], None),
        (["run", "--pytest"], ["run"], []),
        (["run", "-q", "--pytest", "tests", "--", "-k", "x"], ["run", "-q"], ["tests", "--", "-k", "x"]),
        (["run", "--", "python", "--pytest"], ["run", "--", "python", "--pytest"], None),
    ],
)
def test_what_follows_pytest_is_pytest_s(words: list[str], own: list[str], pytest_words: list[str] | None) -> None:
    assert before_pytest(words) == (own, pytest_words)

"""An option of ours behind ``--pytest`` is refused before anything is made, with the line that was meant."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest

from bisect_torch.cli.commands import COMMANDS
from bisect_torch.cli.main import main
from bisect_torch.cli.parser import build_parser, parser_of
from bisect_torch.cli.pytest_words import PYTEST_HAS_TOO
from bisect_torch.cli.run_request import tell_late_options


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """What the commands were called with, which do nothing else."""
    called: list[argparse.Namespace] = []

    def command(args: argparse.Namespace) -> int:
        tell_late_options(args)
        called.append(args)
        return 0

    for name in ("run", "bisect"):
        monkeypatch.setattr(f"bisect_torch.cli.{name}.command", command)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_a.py").touch()
    return called


@pytest.mark.parametrize(
    ("line", "names", "meant"),
    [
        (
            "run --pytest test_a.py --versions 2.6.0,2.7.0 -o pt.parquet",
            "--versions, -o",
            "run --versions 2.6.0,2.7.0 -o pt.parquet --pytest test_a.py",
        ),
        (
            "run --with scipy --pytest --from=2.6.0 test_a.py -k x --no-confirm -o xfail_strict=true --to 2.7.0",
            "--from, --no-confirm, --to",
            "run --with scipy --from=2.6.0 --no-confirm --to 2.7.0 --pytest test_a.py -k x -o xfail_strict=true",
        ),
        (
            "bisect --pytest test_a.py --good 2.6.0 --nightly --bad 2.7.0 -- --json",
            "--good, --nightly, --bad",
            "bisect --good 2.6.0 --nightly --bad 2.7.0 --pytest test_a.py -- --json",
        ),
        (
            "bisect --bad 2.7.0 --pytest --nightly test_a.py",
            "--nightly",
            "bisect --bad 2.7.0 --nightly --pytest test_a.py",
        ),
        ("run --pytest test_a.py --with", "--with", "run --with --pytest test_a.py"),
    ],
)
def test_the_line_that_was_meant_is_the_hint(
    line: str, names: str, meant: str, ran: list[argparse.Namespace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(line)) == 2
    told = [f"error: options of bisect-torch stand before --pytest: {names}", f"hint: bisect-torch {meant}"]
    assert capsys.readouterr().err.splitlines() == told
    assert not ran


@pytest.mark.parametrize(
    "words",
    [
        "test_a.py -q -x -k cpu -m 'not slow' -o xfail_strict=true --debug --junit-xml a.xml -p no:cacheprovider",
        "test_a.py -n 2 --cov=a --cov-report term",
        "test_a.py --override-ini=log_cli=true --durations 3",
    ],
)
def test_what_pytest_or_a_plugin_has_goes_to_pytest(
    words: str, ran: list[argparse.Namespace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--pytest", *shlex.split(words)]) == 0
    assert [args.pytest_words for args in ran] == [shlex.split(words)]


@pytest.mark.parametrize(
    ("own", "option"),
    [
        ([], "--device"),
        (["--with", "pytest-timeout"], "--timeout"),
        (["--versions", "2.6.0,/opt/venv/bin/python"], "--timeout"),
    ],
)
def test_an_option_that_the_project_or_a_plugin_may_have_is_only_noted(
    own: list[str], option: str, ran: list[argparse.Namespace], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("conftest.py").write_text('def pytest_addoption(parser):\n    parser.addoption("--device")\n')
    assert main(["run", *own, "--pytest", "test_a.py", option, "3"]) == 0
    assert [args.pytest_words for args in ran] == [["test_a.py", option, "3"]]
    assert capsys.readouterr().err.startswith(f"note: {option} after --pytest goes to pytest")


def test_of_several_only_those_move_that_nobody_has(
    ran: list[argparse.Namespace], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("conftest.py").write_text('def pytest_addoption(parser):\n    parser.addoption("--device")\n')
    assert main(["run", "--pytest", "test_a.py", "--device", "cpu", "--versions", "2.6.0"]) == 2
    hint = "hint: bisect-torch run --versions 2.6.0 --pytest test_a.py --device cpu"
    assert capsys.readouterr().err.splitlines()[1] == hint
    assert not ran


def test_what_pytest_has_too_is_what_it_has(request: pytest.FixtureRequest) -> None:
    parser = request.config._parser
    theirs = {name for group in [*parser._groups, parser._anonymous] for each in group.options for name in each.names()}
    ours: set[str] = set()
    for command in COMMANDS:
        if command[3]:
            own = parser_of(build_parser(command)[0], command[0])
            assert own is not None
            ours |= {name for action in own._actions for name in action.option_strings}
    assert ours & theirs == PYTEST_HAS_TOO

"""``bisect-torch envs``: data on stdout, progress on stderr, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bisect_torch.cli.main import main
from tests.environments.conftest import Workshop
from tests.support.wheels import fake_torch


def _envs(workshop: Workshop, *words: str) -> int:
    where = ["--store", str(workshop.store.root)]
    return main(["envs", *words, *where])


def _build(workshop: Workshop, *words: str) -> int:
    return _envs(workshop, "build", "--python", sys.executable, "--index-url", workshop.index.url, *words)


def test_build_list_path_remove(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    assert _build(workshop, "--versions", "2.4.1,2.5.0") == 0
    built = capsys.readouterr()
    lines = [line.split("\t") for line in built.out.splitlines()]
    assert [version for version, _ in lines] == ["2.4.1", "2.5.0"]
    assert "2 environments to build" in built.err
    assert "2.5.0: checking" in built.err

    assert _envs(workshop, "list", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["version"], row["torch_version"], row["python"]) for row in rows] == [
        ("2.4.1", "2.4.1", lines[0][1]),
        ("2.5.0", "2.5.0", lines[1][1]),
    ]
    assert _envs(workshop, "list") == 0
    assert capsys.readouterr().out.count("\n") == 2

    assert _envs(workshop, "path", "2.5.0") == 0
    assert capsys.readouterr().out == f"{lines[1][1]}\n"

    assert _envs(workshop, "remove", "2.4.1") == 0
    assert not Path(lines[0][1]).exists()
    assert Path(lines[1][1]).exists()
    capsys.readouterr()
    assert _envs(workshop, "path", "2.4.1") == 2
    assert "hint: there are: 2.5.0" in capsys.readouterr().err


def test_one_build_that_fails_does_not_stop_the_others(workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    workshop.serve(fake_torch("2.4.2", "raise ImportError('no good')", upload_time="2024-09-10"))
    assert _build(workshop, "--from", "2.4.1", "--to", "2.5.0") == 3
    shown = capsys.readouterr()
    assert [line.split("\t")[0] for line in shown.out.splitlines()] == ["2.4.1", "2.5.0"]
    assert "2.4.2: import torch: ImportError: no good" in shown.err
    assert "error: 1 of 3 environments could not be built" in shown.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["remove"], "name the versions to remove, or --all"),
        (["remove", "2.4.1", "--all"], "name the versions to remove, or --all"),
        (["build", "--with", "not a requirement!"], "not a requirement"),
        (["build", "--with", "torch==2.0"], "each environment has its own torch"),
        (["build", "--with-editable", "/nowhere"], "no project there"),
        (["build", "--python", "three"], "not a version such as 3.12"),
        (["build", "--python", "/bin/false"], "not a Python interpreter that can be started"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(
    workshop: Workshop, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert _envs(workshop, *words) == 2
    assert said in capsys.readouterr().err


def test_help_of_the_command_loads_nothing_heavy() -> None:
    program = (
        "import sys; from bisect_torch.cli.main import main; main(['envs', 'build', '--help']);"
        "print([name for name in ('rich', 'pyarrow', 'requests', 'filelock', 'uv') if name in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"

"""What a line probably meant is said, and every refusal of the tool says what to do."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bisect_torch.cli.main import COMMANDS, main, parse

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
    "a file without its ending": (["run", "rms"], "did you mean rms.py?"),
    "a file without run": (["rms.py"], "to run a file: bisect-torch run rms.py"),
    "a command's name mistyped": (["rechek"], "did you mean 'recheck'?"),
    "a command of envs mistyped": (["envs", "lst"], "did you mean 'list'?"),
    "a choice mistyped": (["report", "x.parquet", "--format", "markdwon"], "did you mean 'markdown'?"),
    "a shell mistyped": (["completion", "bsh"], "did you mean 'bash'?"),
    "an option mistyped": (["run", "--version"], "did you mean --versions?"),
    "an option of another command": (["report", "x.parquet", "--rtol", "1"], "it belongs to bisect-torch judge"),
}


@pytest.mark.parametrize("what", MEANT)
def test_what_was_meant(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rms.py").write_text("import torch\n")
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("BISECT_TORCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    words, hint = MEANT[what]
    assert main(words) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"hint: {hint}"


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

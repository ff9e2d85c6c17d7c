"""What CONTRIBUTING.md tells a newcomer to type and to look at is there."""

from __future__ import annotations

import importlib.util
import itertools
import re
import shlex
from pathlib import Path

import pytest

from bisect_torch.cases import discover
from bisect_torch.cli.parser import parse

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]
INLINE = re.findall(r"`(\.venv/bin/[^`]+)`", GUIDE)
MARKS = set(re.findall(r'^    "(\w+): ', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))


def words_of(line: str) -> list[str]:
    """Without variables that stand before the program."""
    words = shlex.split(line)
    return [word for place, word in enumerate(words) if place or "=" not in word]


def test_the_set_up_is_that_of_the_readme() -> None:
    command = next(line for line in LINES if "-m venv" in line)
    assert f"{command} && .venv/bin/pytest -n auto" in (ROOT / "README.md").read_text().splitlines()


@pytest.mark.parametrize("line", [part for line in (*LINES, *INLINE) for part in line.split(" && ")])
def test_a_command_is_one_that_works(line: str) -> None:
    program, *words = words_of(line)
    match Path(program).name:
        case "bisect-torch":
            assert parse(words).command_name == words[0]
        case "pytest":
            paths = [word for word in words if word.startswith("tests")]
            assert [path for path in paths if not (ROOT / path).exists()] == []
            expressions = [word for before, word in itertools.pairwise(words) if before == "-m"]
            marks = {name for text in expressions for name in re.findall(r"\w+", text)} - {"not", "or", "and"}
            assert marks <= MARKS
        case "python" if words[:1] == ["-m"]:
            assert importlib.util.find_spec(words[1]) is not None
        case "pip":
            assert words[0] == "install"
        case "ruff" | "mypy":
            assert f'"{Path(program).name}>=' in (ROOT / "pyproject.toml").read_text()
        case "git":
            assert (ROOT / words[-1]).is_dir()
        case _:
            assert program == "python3", f"nobody has tried this: {line}"


def test_the_first_tests_download_nothing() -> None:
    first = GUIDE.partition("## ")[0]
    lines = [line for block in re.findall(r"```console\n(.*?)```", first, re.DOTALL) for line in block.splitlines()]
    tests = [line for line in lines if "/pytest " in line]
    assert tests
    assert [line for line in tests if '-m "not real_torch"' not in line] == []


def test_every_mark_is_told() -> None:
    assert (
        set(re.findall(r"^\| `(\w+)` \| ", GUIDE.partition("| mark |")[2].partition("\n\n")[0], re.MULTILINE)) == MARKS
    )


def test_every_path_is_there() -> None:
    named = set(re.findall(r"`((?:bisect_torch|tests|cases|envs|\.ci)/[\w./-]*)`", GUIDE))
    assert len(named) > 12
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_the_first_change_is_a_case(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "first.py").write_text(code)
    (found,) = discover([tmp_path / "first.py"])
    assert [instance.name for instance in found.instances or ()] == [
        "softplus_of_small_numbers[dtype=float32]",
        "softplus_of_small_numbers[dtype=bfloat16]",
    ]


def test_it_is_short() -> None:
    assert len(GUIDE.splitlines()) < 150

"""What ``--help`` of each command says, word for word: read it when it changes.

``BISECT_TORCH_UPDATE_SNAPSHOTS=1`` writes the texts anew.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from bisect_torch.cli.commands import COMMANDS
from bisect_torch.cli.main import main
from bisect_torch.cli.parser import parse

SNAPSHOTS = Path(__file__).parents[1] / "data" / "help"
ENVS = ("build", "list", "path", "remove", "prune", "lock", "check")
PAGES = [[], *([name] for name, *_ in COMMANDS), *(["envs", name] for name in ENVS)]


@pytest.mark.parametrize("words", PAGES, ids=lambda words: " ".join(words) or "bisect-torch")
def test_help_is_as_it_was_read(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    page = SNAPSHOTS / ("-".join(["bisect-torch", *words]) + ".txt")
    if os.environ.get("BISECT_TORCH_UPDATE_SNAPSHOTS"):
        page.write_text(text)
    assert text == page.read_text()
    assert text.isascii()  # a terminal of any encoding can show it
    assert max(map(len, text.splitlines())) <= 120


def examples(page: str) -> list[str]:
    """The lines of a page that can be copied, without what is said beside them."""
    part = page.partition("examples:\n")[2]
    lines = [line.strip() for line in part.splitlines() if line.startswith(("  ", "next: ", "or for"))]
    return [re.split(r"\s{3,}", line)[0] for line in lines if "bisect-torch " in line]


def words_of(line: str) -> list[str]:
    """The words after the program's name: behind a pipe or within ``$(…)``, without where output goes."""
    own = line.partition("bisect-torch ")[2]
    inner = re.search(r"\$\(bisect-torch ([^)]*)\)", line)
    own = re.split(r" [|>] |  ", inner[1] if inner else own)[0]
    return shlex.split(own)


@pytest.mark.parametrize("page", sorted(SNAPSHOTS.glob("*.txt")), ids=lambda path: path.stem)
def test_examples_of_a_page_are_lines_that_the_program_takes(page: Path) -> None:
    text = page.read_text()
    lines = examples(text)
    assert any(line.startswith("bisect-torch ") or "$(" in line for line in lines)
    assert sum(line.startswith("next: bisect-torch ") for line in lines) == 1, "the page says where to go on"
    for line in lines:
        words = words_of(line)
        if words != ["--help"]:
            parse(words[:-1] if words[-1] == "--help" else words)

"""What ``--help`` of each command says, word for word: read it when it changes.

``BISECT_TORCH_UPDATE_SNAPSHOTS=1`` writes the texts anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bisect_torch.cli.main import COMMANDS, main

SNAPSHOTS = Path(__file__).parents[1] / "data" / "help"
ENVS = ("build", "list", "path", "remove", "lock", "check")
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

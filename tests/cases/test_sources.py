"""The text that ran stands under its own hash or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bisect_torch import cases
from bisect_torch.cases.sources import LARGEST_BYTES


def test_a_script_its_neighbours_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text("SIDE = 3\n")
    (tmp_path / "unrelated.py").write_text("raise SystemExit\n")
    script = tmp_path / "repro.py"
    script.write_text("import shapes\nprint(shapes.SIDE)\n")
    (found,) = cases.discover([str(script)])
    texts = ["SIDE = 3\n", "import shapes\nprint(shapes.SIDE)\n"]
    assert cases.sources(found.file) == {hashlib.sha256(text.encode()).hexdigest(): text for text in texts}


def test_the_script_that_a_command_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print(1)\n")
    (found,) = cases.discover([], command=["python", "train.py", "--steps", "3"])
    assert list(cases.sources(found.file).values()) == ["print(1)\n"]


def test_what_changed_since_it_was_read_or_is_too_large_or_no_text_is_left_out(tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    script.write_text("x = 1\n")
    (found,) = cases.discover([str(script)])
    script.write_text("x = 2\n")
    assert cases.sources(found.file) == {}
    script.write_text("x = 1 " + "#" * LARGEST_BYTES)
    (found,) = cases.discover([str(script)])
    assert cases.sources(found.file) == {}
    script.write_bytes(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n")
    (found,) = cases.discover([str(script)])
    assert cases.sources(found.file) == {}

"""The usual lines of a lock are read without the parser of any requirement, and say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_torch.releases import locks
from bisect_torch.releases.catalogue import envs_folder

LOCKS = sorted(envs_folder().glob("*.lock"))


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_committed_lock_reads_the_same_either_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text()
    quick = locks.parse_lock(text)
    monkeypatch.setattr(locks, "_usual", lambda words: None)
    assert quick == locks.parse_lock(text)
    assert len(quick) > 10


@pytest.mark.parametrize(
    "line",
    ["torch==2.9.1,==2.9.2", "torch[extra]==2.9.1", "torch==2.*", "torch==2.9.1 ; no marker", "torch==2..1", "torch"],
)
def test_other_lines_are_left_to_that_parser(line: str) -> None:
    assert locks._usual(line) is None

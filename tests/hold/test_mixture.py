"""Thousands of cells that do all that a cell can do: every verdict is right, and nothing of them is left."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bisect_torch.worker import system
from tests.hold.mixture import EXPECTED, chosen
from tests.support.tally import Tally
from tests.support.wheels import fake_torch
from tests.worker.support import REPOSITORY

pytestmark = pytest.mark.skipif(not system.LINUX, reason="what cells leave is found on Linux only")

GROWTH_KIB = 12 * 1024
"""How much the orchestrator may grow from a tenth of the cells to all: what it keeps of a cell is not a part of it."""


@pytest.fixture(scope="module")
def python_with_fake_torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fake") / "env"
    venv.create(folder, symlinks=True, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(io.BytesIO(fake_torch("2.1.0").content)) as wheel:
        wheel.extractall(site)
    return folder / "bin" / "python"


def mixed(python: Path, count: int, folder: Path) -> dict[str, Any]:
    seed = int(os.environ.get("TEST_SEED") or 20261130)
    temporary = folder / "t"
    temporary.mkdir()
    words = [sys.executable, "-m", "tests.hold.mixture", str(python), str(count), str(seed), str(folder)]
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(temporary)}
    done = subprocess.run(words, cwd=REPOSITORY, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: Mapping[str, Any], count: int, line: str, tally: Tally) -> None:
    tally.add(
        line,
        tried=count,
        survived=found["survived"],
        lost=found["lost"],
        misjudged=len(found["misjudged"]),
    )
    first, last = found["resident_kib"]
    tally.row("memory of the orchestrator", (line, f"{first} KiB after {count // 10} cells", f"{last} after {count}"))
    assert found["misjudged"] == []
    assert (found["survived"], found["lost"]) == (count, 0)
    assert found["left"] == []
    assert last - first < GROWTH_KIB


def test_a_choice_holds_every_kind_and_is_the_same_again() -> None:
    kinds = chosen(300, random.Random(7))
    assert set(kinds) == EXPECTED.keys()
    assert chosen(300, random.Random(7)) == kinds


def test_three_hundred_mixed_cells(python_with_fake_torch: Path, tmp_path: Path, tally: Tally) -> None:
    check(mixed(python_with_fake_torch, 300, tmp_path), 300, "mixed cells, fake torch", tally)


@pytest.mark.slow
@pytest.mark.real_torch
@pytest.mark.parametrize("version", ["2.14.0", "2.4.1"])
def test_ten_thousand_mixed_cells(version: str, real_torch: Mapping[str, Path], tmp_path: Path, tally: Tally) -> None:
    """``TEST_CELLS`` says how many in place of 10,000."""
    count = int(os.environ.get("TEST_CELLS") or 10_000)
    check(mixed(real_torch[version], count, tmp_path), count, f"mixed cells, torch {version}", tally)

"""The whole real matrix: public bugs on real releases give exactly the series that were verified by hand.

    pytest -m matrix

Needs the environments of 15 releases (47 GB, built once into the store) and about half an hour. Set
``BISECT_TORCH_MATRIX_RESULTS`` to a folder to keep the observations there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent.parent / "real_cases"
EXPECTED: dict[str, list[tuple[str, str, str]]] = json.loads((SCRIPTS / "expected.json").read_text())

pytestmark = pytest.mark.matrix


def expand(spans: list[tuple[str, str, str]], builds: list[str]) -> list[str]:
    """One expected outcome for each build."""
    series = []
    for first, last, outcome in spans:
        series += [outcome] * (builds.index(last) - builds.index(first) + 1)
    assert len(series) == len(builds)
    return series


def run(folder: Path, scripts: list[Path], *words: str) -> dict[str, Any]:
    """The tool, as a user starts it, on all releases."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bisect_torch", "run", *map(str, scripts), "--json"),
            *("--from", "2.4.1", "--to", "2.14.0", "--python", "3.11", "--timeout", "90", "-o", "results.parquet"),
            *words,
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 1, "the newest release has known bugs"
    kept = os.environ.get("BISECT_TORCH_MATRIX_RESULTS")
    if kept:
        shutil.copy(folder / "results.parquet", Path(kept) / f"{folder.name}.parquet")
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def outcome(cell: dict[str, Any]) -> str:
    return "flaky" if cell["flaky"] else str(cell["signature"])


def differences(data: dict[str, Any], names: dict[str, str]) -> Iterator[str]:
    """What is not as expected: series first, then transitions that no series implies."""
    builds = [build["name"] for build in data["builds"]]
    implied = set()
    for row in data["series"]:
        found = [outcome(cell) for cell in row["cells"].values()]
        expected = expand(EXPECTED[names[row["instance"]]], builds)
        if any("|" in each for each in expected):
            if len(set(found)) != 1 or found[0] not in expected[0].split("|"):
                yield f"{row['instance']}: {found}, not one of {expected[0]} in all releases"
            continue
        if found != expected:
            yield f"{row['instance']}: {found}, not {expected}"
        implied |= {
            (row["instance"], builds[place], builds[place + 1])
            for place, (old, new) in enumerate(pairwise(expected))
            if old != new
        }
    told = {
        (instance, finding["before"], finding["after"])
        for finding in data["findings"]
        if finding["kind"] not in ("always", "flaky")
        for instance in finding["instances"]
    }
    yield from (f"not told: {each}" for each in sorted(implied - told))
    yield from (f"told, but not implied: {each}" for each in sorted(told - implied))


def test_every_series_is_the_verified_one_and_no_other_transition_is_told(tmp_path: Path) -> None:
    scripts = sorted(SCRIPTS.glob("*.py"))

    data = run(tmp_path, scripts)

    assert list(differences(data, {name: name for name in EXPECTED})) == []


def test_names_of_files_do_not_matter(tmp_path: Path) -> None:
    """The same scripts under names that say nothing, in another order."""
    names = {}
    for number, script in enumerate(sorted(SCRIPTS.glob("*.py"), reverse=True)):
        name = f"repro_{number:02}"
        names[name] = script.stem
        shutil.copy(script, tmp_path / f"{name}.py")

    data = run(tmp_path, sorted(tmp_path.glob("*.py")))

    assert list(differences(data, names)) == []

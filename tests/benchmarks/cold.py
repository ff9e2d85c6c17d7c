"""A cold run of releases, against doing by hand one release after another, and against nox and asv.

    python -m tests.benchmarks.cold --releases 3 --folder /somewhere/large

All begin with an empty cache and download everything. By hand: ``uv venv``, ``uv pip install``, the first ``import
torch``, and the same cells in fresh processes. nox does the same on uv; asv installs with pip and forks. Ours comes
with its confirmations, each in an interpreter of its own. A side's files are removed before the next one begins: 15
releases are 27 GB to download and 51 GB of disk a side, 3 are 6 and 12.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from uv import find_uv_bin

from bisect_torch.releases.catalogue import load_catalogue
from tests.benchmarks.peers import CASES, SCRIPT, asv_setup, nox_setup
from tests.benchmarks.timing import MINOR, RELEASES, TOOL, empty, report, seconds, side_by_side, spread

DAYS_AFTER = 5
"""After a release's day its dependencies are taken as they were then."""

LIMITS = {"by_hand": 0.9, "nox": 1.0, "asv": 1.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cells", type=int, default=20)
    parser.add_argument("--releases", type=int, default=len(RELEASES), help="how many (default: all 15)")
    parser.add_argument("--against", default="by_hand,nox,asv", help="which peers (default %(default)s)")
    parser.add_argument("--folder", type=Path, help="where to work; the system's temporary folder by default")
    options = parser.parse_args()
    known = {release.version: release.day for release in load_catalogue()}
    after = datetime.timedelta(days=DAYS_AFTER)
    days = {version: (known[version] + after).isoformat() for version in spread(options.releases)}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        sides = Sides(Path(name), days, options.cells)
        peers = {peer: getattr(sides, peer) for peer in options.against.split(",")}
        medians = side_by_side(options.rounds, ours=sides.ours, **peers)
    beyond = 0
    for peer in peers:
        title = f"cold, {len(days)} releases × {options.cells} cells, against {peer.replace('_', ' ')}"
        beyond |= report(title, medians["ours"], medians[peer], LIMITS[peer])
    return beyond


class Sides:
    """Each side does the whole job in a folder of its own, and leaves nothing.

    Args:
        days: Release to the day up to which its dependencies are taken.
        cells: Small cells for each release.
    """

    def __init__(self, folder: Path, days: Mapping[str, str], cells: int) -> None:
        self._folder = folder
        self._days = days
        self._cells = cells

    def _timed(self, name: str, job: Callable[[Path, Mapping[str, str]], float]) -> float:
        there = self._folder / name
        there.mkdir()
        variables = {
            **{key: value for key, value in os.environ.items() if key != "BISECT_TORCH_STORE"},
            "UV_CACHE_DIR": os.fspath(there / "uv-cache"),
            "PIP_NO_CACHE_DIR": "1",  # it would be empty, and filling it takes time and disk
            # uv gives it to the peers; without it nox would not find uv.
            "PATH": os.pathsep.join([os.environ["PATH"], str(Path(find_uv_bin()).parent)]),
        }
        try:
            return job(there, variables)
        finally:
            empty(there)

    def ours(self) -> float:
        def job(there: Path, variables: Mapping[str, str]) -> float:
            (there / "cases.py").write_text(CASES.format(count=self._cells))
            words = ["run", "cases.py", "--versions", ",".join(self._days), "--python", MINOR]
            return seconds([*TOOL, *words, "--store", there / "store"], cwd=there, env=variables)

        return self._timed("ours", job)

    def by_hand(self) -> float:
        def job(there: Path, variables: Mapping[str, str]) -> float:
            (there / "case.py").write_text(SCRIPT)
            took = 0.0
            for version, day in self._days.items():
                own = there / version / "bin" / "python"
                took += seconds([find_uv_bin(), "venv", "--python", sys.executable, there / version], env=variables)
                wanted = [f"torch=={version}", "numpy", "setuptools", "--exclude-newer", day]
                took += seconds([find_uv_bin(), "pip", "install", "--python", own, *wanted], env=variables)
                took += seconds([own, "-c", "import torch"], env=_bare(variables))
                took += sum(
                    seconds([own, "case.py", str(n)], cwd=there, env=_bare(variables)) for n in range(self._cells)
                )
            return took

        return self._timed("by-hand", job)

    def nox(self) -> float:
        def job(there: Path, variables: Mapping[str, str]) -> float:
            return seconds(nox_setup(there, self._days, self._cells), cwd=there, env=_bare(variables))

        return self._timed("nox", job)

    def asv(self) -> float:
        def job(there: Path, variables: Mapping[str, str]) -> float:
            words = asv_setup(there, self._days, self._cells)
            home = {"HOME": os.fspath(there)}  # where it keeps what it knows of the machine
            seconds([words[0], "machine", "--yes", "--machine", "here"], cwd=there, env={**_bare(variables), **home})
            return seconds(words, cwd=there, env={**_bare(variables), **home})

        return self._timed("asv", job)


def _bare(variables: Mapping[str, str]) -> dict[str, str]:
    """Without what Python itself reads, but for bytecode, which is read and written."""
    return {name: value for name, value in variables.items() if not name.startswith("PYTHON")}


if __name__ == "__main__":
    sys.exit(main())

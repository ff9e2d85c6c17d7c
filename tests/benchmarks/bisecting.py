"""A search over releases, against the full matrix of the same case: how many environments, and what share of the time.

    python -m tests.benchmarks.bisecting --cold --rounds 1 --folder /somewhere/large
    python -m tests.benchmarks.bisecting --make

With ``--cold`` each side begins with an empty store and downloads what it needs: 27 GB and 51 GB of disk for the
matrix of 15 releases, which are removed before the other side begins. Without it every environment is there, or with
``--make`` its downloads: then the environments are removed before each side, which makes those again that it needs. The
case changes its answer at one release (``--first-bad``), as repros do. Both sides begin without results and confirm
what they claim. A search may judge at most ceil(log2 n) + 2 builds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.timing import MINOR, RELEASES, TOOL, built, empty, report, side_by_side, spread

CASE = """
import torch
from bisect_torch import case

@case
def changed():
    release = tuple(int(part) for part in torch.__version__.partition("+")[0].split("."))
    assert release < {first_bad}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--first-bad", default="2.10.0", help="release from which the case fails (default %(default)s)")
    state = parser.add_mutually_exclusive_group()
    state.add_argument("--make", action="store_true", help="remove the environments first; the downloads stay")
    state.add_argument("--cold", action="store_true", help="begin with an empty store")
    parser.add_argument("--folder", type=Path, help="where to work; the system's temporary folder by default")
    parser.add_argument("--releases", type=int, default=len(RELEASES), help="how many, with --cold (default: all 15)")
    options = parser.parse_args()
    versions = spread(options.releases) if options.cold else built()
    if options.first_bad not in versions[1:]:
        raise SystemExit(f"{options.first_bad} is the oldest of them, or none of them: {', '.join(versions)}")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        sides = Sides(Path(name), versions, options.first_bad, cold=options.cold, make=options.make)
        medians = side_by_side(options.rounds, search=sides.search, matrix=sides.matrix)
    most = math.ceil(math.log2(len(versions))) + 2
    print(f"builds judged: {sides.judged} of {len(versions)}, at most {most} allowed")
    how = ", from nothing" * options.cold + ", made" * options.make
    beyond = report(f"bisect over {len(versions)} releases{how}", medians["search"], medians["matrix"], 0.55)
    return int(beyond or sides.judged > most)


class Sides:
    """The same question, by search and by matrix.

    ``judged`` is the most builds that a search has judged.

    Args:
        folder: Where case, results and, where it is a new one, the store lie.
        cold: Each side has a store of its own, which it leaves to nobody.
        make: The environments are removed first.
    """

    def __init__(self, folder: Path, versions: Sequence[str], first_bad: str, *, cold: bool, make: bool) -> None:
        self.judged = 0
        self._folder = folder
        self._versions = versions
        self._first_bad = first_bad
        self._store = folder / "store" if cold else None
        self._make = make
        parts = tuple(int(part) for part in first_bad.split("."))
        (folder / "case.py").write_text(CASE.format(first_bad=parts))

    def search(self) -> float:
        ends = ["--good", self._versions[0], "--bad", self._versions[-1]]
        missing = _between(self._versions)
        words = ["bisect", "case.py", *ends, *(["--exclude", ",".join(missing)] if missing else []), "--json"]
        took, said = self._timed(words)
        found = json.loads(said)["search"]
        assert [each["first_bad"] for each in found["rows"][0]["boundaries"]] == [self._first_bad], found
        self.judged = max(self.judged, len(found["judged"]))
        return took

    def matrix(self) -> float:
        return self._timed(["run", "case.py", "--versions", ",".join(self._versions)])[0]

    def _timed(self, words: Sequence[str]) -> tuple[float, str]:
        """Seconds that a command takes, and what it prints.

        Raises:
            RuntimeError: It failed. An exit status of 1 is the tool's "something is bad at the newest build".
        """
        (self._folder / "results.parquet").unlink(missing_ok=True)
        if self._make:
            remove = [*TOOL, "envs", "remove", *self._versions]
            subprocess.run(remove, check=False, capture_output=True)  # those that are there
        variables = {**os.environ, **({} if self._store is None else {"BISECT_TORCH_STORE": os.fspath(self._store)})}
        whole = [*TOOL, *words, "--python", MINOR, "-o", "results.parquet"]
        begin = time.perf_counter()
        done = subprocess.run(whole, cwd=self._folder, env=variables, capture_output=True, text=True, check=False)
        took = time.perf_counter() - begin
        if self._store is not None:
            empty(self._store)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{whole} ended with {done.returncode}: {done.stderr[-2000:]}")
        return took, done.stdout


def _between(versions: Sequence[str]) -> list[str]:
    """Releases of the range that do not take part."""
    words = [*TOOL, "releases", "--from", versions[0], "--to", versions[-1]]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    names = [line.split()[0] for line in listed if line[:1].isdigit()]
    return [each for each in names if each not in versions]


if __name__ == "__main__":
    sys.exit(main())

"""A search over releases, against the full matrix of the same case: how many environments, and what share of the time.

    python -m tests.benchmarks.bisecting --make

Every environment is there, or with ``--make`` its downloads: then the environments are removed before each side, which
makes those again that it needs. The case changes its answer at one release (``--first-bad``), as repros do. Both sides
begin without results and confirm what they claim. A search may judge at most ceil(log2 n) + 2 builds.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.timing import TOOL, built, report, seconds, side_by_side

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
    parser.add_argument("--make", action="store_true", help="remove the environments first; the downloads stay")
    options = parser.parse_args()
    versions = built()
    if options.first_bad not in versions[1:]:
        raise SystemExit(f"{options.first_bad} is the oldest in the store, or not there: {', '.join(versions)}")
    first_bad = tuple(int(part) for part in options.first_bad.split("."))
    missing = _between(versions)
    judged: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "case.py").write_text(CASE.format(first_bad=first_bad))

        def clear() -> None:
            if options.make:
                subprocess.run([*TOOL, "envs", "remove", *versions], check=False, capture_output=True)

        def search() -> float:
            clear()
            (folder / "search.parquet").unlink(missing_ok=True)
            words = [*TOOL, "bisect", "case.py", "--good", versions[0], "--bad", versions[-1], "-o", "search.parquet"]
            words += ["--exclude", ",".join(missing)] if missing else []
            begin = time.perf_counter()
            done = subprocess.run([*words, "--json"], cwd=folder, capture_output=True, text=True, check=False)
            took = time.perf_counter() - begin
            found = json.loads(done.stdout)["search"]
            assert [each["first_bad"] for each in found["rows"][0]["boundaries"]] == [options.first_bad], found
            judged.append(len(found["judged"]))
            return took

        def matrix() -> float:
            clear()
            (folder / "matrix.parquet").unlink(missing_ok=True)
            words = [*TOOL, "run", "case.py", "--versions", ",".join(versions), "-o", "matrix.parquet"]
            return seconds(words, cwd=folder)

        medians = side_by_side(options.rounds, search=search, matrix=matrix)
    most = math.ceil(math.log2(len(versions))) + 2
    print(f"builds judged: {max(judged)} of {len(versions)}, at most {most} allowed")
    beyond = report(
        f"bisect over {len(versions)} releases{', made' * options.make}", medians["search"], medians["matrix"], 0.55
    )
    return int(beyond or max(judged) > most)


def _between(versions: tuple[str, ...]) -> list[str]:
    """Releases of the range that are not in the store."""
    words = [*TOOL, "releases", "--from", versions[0], "--to", versions[-1]]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    names = [line.split()[0] for line in listed if line[:1].isdigit()]
    return [each for each in names if each not in versions]


if __name__ == "__main__":
    sys.exit(main())

"""What a run costs as it grows: from 10 to 10,000 instances on one release, and from 1 release to all that are built.

    python -m tests.benchmarks.curves

Each run begins without results, on environments that are there. It is timed until every cell has been seen once, when
it says that it confirms, and is then interrupted: an interpreter of its own for each end of 10,000 rows is bounded by
half an hour, whatever their number. The last column is the time of one more: where it stays the same or falls, no step
grows faster than the work.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.peers import CASES
from tests.benchmarks.timing import TOOL, built

INSTANCES = (10, 100, 1_000, 10_000)
RELEASES = (1, 2, 4, 8, 15)


def run_seconds(folder: Path, versions: Sequence[str], count: int) -> float:
    """Wall seconds of a run of ``count`` small instances until it confirms, or ends where it has nothing to confirm.

    Raises:
        RuntimeError: It failed.
    """
    (folder / "cases.py").write_text(CASES.format(count=count))
    for left in folder.glob("results.parquet*"):
        left.unlink()
    words = [*TOOL, "run", "cases.py", "--versions", ",".join(versions)]
    begin = time.perf_counter()
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as tool:
        assert tool.stderr is not None
        confirms = any(line.startswith("confirming") for line in tool.stderr)
        took = time.perf_counter() - begin
        if confirms:
            tool.send_signal(signal.SIGINT)
            tool.stderr.read()
    if tool.returncode not in (0, 130):
        raise RuntimeError(f"the run ended with {tool.returncode}")
    return took


def table(title: str, sizes: Sequence[int], took: Sequence[float]) -> None:
    """One line for each size: seconds, and seconds for one more since the line before."""
    print(f"{title:>10} {'seconds':>9} {'ms for one more':>16}")
    before: tuple[int, float] | None = None
    for size, wall in zip(sizes, took, strict=True):
        more = "" if before is None else f"{1000 * (wall - before[1]) / (size - before[0]):.1f}"
        print(f"{size:>10,} {wall:>9.1f} {more:>16}")
        before = size, wall


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=100, help="of each release, where releases are counted")
    options = parser.parse_args()
    versions = built()
    releases = [number for number in RELEASES if number <= len(versions)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table("instances", INSTANCES, [run_seconds(folder, versions[-1:], count) for count in INSTANCES])
        # The newest ones: what is chosen must not be other releases each time.
        spread = [run_seconds(folder, versions[-number:], options.cells) for number in releases]
        table("releases", releases, spread)
    return 0


if __name__ == "__main__":
    sys.exit(main())

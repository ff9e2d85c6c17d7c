"""A warm matrix over all releases, against what can't be saved: imports, the cells themselves, confirmations.

    python -m tests.benchmarks.warm

All releases of the matrix that are in the store. The bound is 1.1 x (sum of bare ``import torch`` from bytecode /
cores + the cells' own time + the confirmations), the last as the run itself shows them: from the moment when it says
that it confirms to its end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tests.benchmarks.timing import TOOL, built, interpreter, quiet_python, report, seconds, side_by_side

CASES = """
import torch
from bisect_torch import case, check
from bisect_torch.numerics import uniform

@case(n=[8 * i for i in range(1, 21)])
def product(n):
    a, b = uniform((n, n), seed=1), uniform((n, n), seed=2)
    return check(a @ b, reference=lambda: a.double() @ b.double(), k=n)
"""


def timed_run(folder: Path, versions: Sequence[str]) -> tuple[float, float, float]:
    """Wall seconds of a run, of its confirmations, and of its cells of the first pass by their own account."""
    words = ["run", "cases.py", "--versions", ",".join(versions), "-o", "results.parquet", "--fresh"]
    (folder / "results.parquet").unlink(missing_ok=True)
    begin = time.perf_counter()
    confirming = None
    with subprocess.Popen(
        [*TOOL, *words], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as tool:
        assert tool.stderr is not None
        for line in tool.stderr:
            if line.startswith("confirming") and confirming is None:
                confirming = time.perf_counter()
    end = time.perf_counter()
    if tool.returncode not in (0, 1):
        raise RuntimeError(f"the run ended with {tool.returncode}")
    table = pq.read_table(folder / "results.parquet", columns=["repeat", "elapsed_s"]).to_pydict()
    own = sum(elapsed for repeat, elapsed in zip(table["repeat"], table["elapsed_s"], strict=True) if repeat == 0)
    return end - begin, 0.0 if confirming is None else end - confirming, own


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    versions = built()
    pythons = [interpreter(version) for version in versions]
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.py").write_text(CASES)
        allowed_beside: list[float] = []

        def ours() -> float:
            wall, confirming, own = timed_run(folder, versions)
            allowed_beside.append(confirming + own)
            return wall

        def imports() -> float:
            return sum(seconds([python, "-c", "import torch"], env=quiet_python(python)) for python in pythons)

        medians = side_by_side(options.rounds, ours=ours, imports=imports)
    beside = sorted(allowed_beside)[len(allowed_beside) // 2]
    bare = medians["imports"] / cores
    print(f"imports / cores {bare:.1f} s, cells and confirmations {beside:.1f} s")
    return report(f"warm matrix, {len(versions)} releases × 20 cells", medians["ours"], bare + beside, 1.1)


if __name__ == "__main__":
    sys.exit(main())

"""A cell in a forked child of a worker, against a bare ``os.fork`` of a process in the same state.

    python -m tests.benchmarks.forks --count 300

Both have torch imported and the heap collected and frozen, and run the same small case one after the other. The bare
child makes the tensors, leaves by ``os._exit``, and is waited for: no isolation, nothing recorded. Ours is supervised,
and its observation goes into the journal; one slot runs them all. What each of both spends before its first cell is
left out: ours is taken from the trace, from the start of the first cell to the start of the last one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.peers import BODY, CASES
from tests.benchmarks.timing import TOOL, interpreter, quiet_python, report, seconds, side_by_side

BARE = f"""
import gc, os, sys, time
import torch

def small(n):
{BODY}
count = int(sys.argv[1])
gc.collect()
gc.freeze()
begin = time.perf_counter()
for n in range(count):
    child = os.fork()
    if child == 0:
        small(n)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print(time.perf_counter() - begin)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="cells of which the time is taken")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--version", default="2.14.0")
    options = parser.parse_args()
    python = interpreter(options.version)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def ours() -> float:
            """Seconds for one cell, from the first one's start to the last one's end, as the trace tells them."""
            (folder / "cases.py").write_text(CASES.format(count=options.count))
            words = ["run", "cases.py", "--versions", options.version, "--jobs", "1", "--fresh"]
            seconds([*TOOL, *words, "-o", "results.parquet", "--profile", "trace.json"], cwd=folder)
            return per_cell(json.loads((folder / "trace.json").read_text())["traceEvents"])

        def bare() -> float:
            words = [str(python), "-c", BARE, str(options.count)]
            done = subprocess.run(words, env=quiet_python(python), capture_output=True, text=True, check=True)
            return float(done.stdout) / options.count

        medians = side_by_side(options.rounds, digits=5, ours=ours, bare=bare)
    return report(f"one of {options.count} small cells", medians["ours"], medians["bare"], 1.3, digits=5)


def per_cell(events: list[dict[str, object]]) -> float:
    """Seconds for a cell of the first pass, with what lies between it and the next one."""
    cells = [event for event in events if event.get("cat") == "cell"]
    first, last = float(cells[0]["ts"]), float(cells[-1]["ts"])  # type: ignore[arg-type]
    return (last - first) / 1e6 / (len(cells) - 1)


if __name__ == "__main__":
    sys.exit(main())

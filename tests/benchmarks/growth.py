"""What a results file costs as it grows: from 1,000 to 1,000,000 cells, step by step, in CPU seconds and memory.

    python -m tests.benchmarks.growth --cells 1000 10000 100000 1000000

Each size runs in a process of its own. Seconds are CPU time (user and system) of this process, since wall time on a
shared machine tells of its neighbours; memory is the largest resident set so far. Observations are made in
blocks, and making them is not counted. Exit status 1 when the largest size is beyond a limit.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bisect_torch.model import Observation
    from bisect_torch.results import ResultsFile

_BLOCK = 10_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--folder", type=Path, help="where the files are written meanwhile")
    parser.add_argument("--limit", type=float, default=10.0, help="CPU seconds of all steps at the largest size")
    parser.add_argument("--memory", type=float, default=1024.0, help="MiB at the largest size")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(_measure(options.one, options.folder)))
        return 0
    found = {}
    for cells in sorted(options.cells):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            words = [sys.executable, "-m", "tests.benchmarks.growth", "--one", str(cells), "--folder", folder]
            found[cells] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
        _show(cells, found[cells], found.get(cells // 10))
    largest = found[max(found)]
    total, memory = sum(largest["cpu"].values()), max(largest["memory"].values())
    within = total <= options.limit and memory <= options.memory
    print(f"largest: {total:.1f} s CPU, {memory:.0f} MiB: {'within' if within else 'BEYOND'} the limits")
    return int(not within)


def _show(cells: int, found: dict[str, Any], smaller: dict[str, Any] | None) -> None:
    print(f"{cells:>9,} cells, {found['rows']:,} rows, {found['bytes'] / found['rows']:.0f} bytes a row in Parquet")
    for step, seconds in found["cpu"].items():
        grew = f"  ×{seconds / smaller['cpu'][step]:5.1f} for ×10" if smaller and smaller["cpu"][step] > 0.005 else ""
        per = seconds / found["rows"] * 1e6
        wall, memory = found["wall"][step], found["memory"][step]
        print(f"  {step:<10} {seconds:8.2f} s CPU {wall:8.2f} s wall {per:8.1f} µs a row {memory:7.0f} MiB{grew}")
    print(f"  {'all':<10} {sum(found['cpu'].values()):8.2f} s CPU", flush=True)


class _Clock:
    def __init__(self) -> None:
        self.cpu: dict[str, float] = {}
        self.wall: dict[str, float] = {}
        self.memory: dict[str, float] = {}

    def __call__(self, step: str, work: Callable[[], Any]) -> Any:
        begin, wall = time.process_time(), time.perf_counter()
        result = work()
        self.cpu[step] = self.cpu.get(step, 0.0) + time.process_time() - begin
        self.wall[step] = self.wall.get(step, 0.0) + time.perf_counter() - wall
        self.memory[step] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return result


def _measure(cells: int, folder: Path) -> dict[str, Any]:
    from bisect_torch import analysis
    from bisect_torch.analysis import Tolerances
    from bisect_torch.cli.judge import judged_again
    from bisect_torch.report.markdown import markdown
    from bisect_torch.report.summary import summary
    from bisect_torch.results import ResultsFile
    from tests.support.many_results import builds_for, many_results

    clock = _Clock()
    path = folder / "results.parquet"
    results = ResultsFile.open(path)
    results.begin({"run_id": "2026-11-30T03:00:00Z-4711", "started_at": "2026-11-30T03:00:00Z"})
    rows = 0
    made = many_results(cells)
    while block := list(itertools.islice(made, _BLOCK)):
        rows += len(block)
        clock("append", functools.partial(_append, results, block))
    clock("finish", results.finish)
    results.close()
    del results, block

    def load() -> ResultsFile:
        opened = ResultsFile.open(path, must_exist=True)
        assert len(opened.observations()) == rows
        return opened

    again = clock("load", load)
    findings = clock("judge", lambda: judged_again(again, Tolerances(rtol=1e-3)))
    builds = builds_for(cells)
    clock("pin", lambda: analysis.wanted_repeats(again.observations(), builds))
    clock("summary", lambda: summary(findings, 120))
    clock("markdown", lambda: markdown(findings))
    size = os.stat(path).st_size
    return {"rows": rows, "bytes": size, "cpu": clock.cpu, "wall": clock.wall, "memory": clock.memory}


def _append(results: ResultsFile, block: list[Observation]) -> None:
    for each in block:
        results.append(each)


if __name__ == "__main__":
    sys.exit(main())

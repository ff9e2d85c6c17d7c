"""A saved one-line change under ``watch``: how long until all releases are on the screen.

    python -m tests.benchmarks.watch

From the moment when the file is written to the moment when the last line of the matrix comes out of the pipe. The
target is 2 s for 15 releases on workers that are warm. Printed beside it: the load of the machine, since others may
compute on it, and the processor time that the tool, its workers and their cells took, which does not depend on that:
over the number of cores it is what an idle machine would need.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.timing import TOOL
from tests.benchmarks.warm import RELEASES

TARGET_S = 2.0
CASES = """
import torch
from bisect_torch import case

@case
def rms_norm_of_small_numbers():
    x = torch.full((16,), 1e-6)
    assert float(torch.nn.functional.rms_norm(x, (16,)).max()) < {limit}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--saves", type=int, default=9)
    parser.add_argument("--versions", default=",".join(RELEASES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "cases.py"
        path.write_text(CASES.format(limit=0.5))
        words = ["watch", path.name, "--versions", options.versions]
        begin = time.perf_counter()
        with subprocess.Popen([*TOOL, *words], cwd=name, stdout=subprocess.PIPE, text=True) as tool:
            assert tool.stdout is not None
            try:
                _wait(tool, "save 1 ")
                print(f"first matrix, with {len(RELEASES)} imports of torch: {time.perf_counter() - begin:.1f} s")
                times = [_save(tool, path, number) for number in range(2, options.saves + 2)]
            finally:
                tool.send_signal(signal.SIGINT)
                tool.stdout.read()
    median = statistics.median(times)
    cores = len(os.sched_getaffinity(0))
    print(f"median {median:.2f} s, least {min(times):.2f} s, most {max(times):.2f} s; {cores} cores")
    return int(median > TARGET_S)


def _save(tool: subprocess.Popen[str], path: Path, number: int) -> float:
    time.sleep(1.0)
    text = CASES.format(limit=0.5 + number / 100)
    before, begin = _cpu_s(tool.pid), time.perf_counter()
    path.write_text(text)
    _wait(tool, f"save {number} ")
    took, spent = time.perf_counter() - begin, _cpu_s(tool.pid) - before
    print(f"save {number}: {took:.2f} s, processor {spent:.2f} s, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return took


def _cpu_s(process: int) -> float:
    """Processor time of a process, its children and all that they have waited for."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(words[1]) == process or stat.parent.name == str(process):
            ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _wait(tool: subprocess.Popen[str], words: str) -> None:
    """Until the matrix of a save has come out whole: an empty line, the heads, rows, legend, an empty line."""
    assert tool.stdout is not None
    seen = False
    blank = 0
    for line in tool.stdout:
        seen = seen or (words in line and "cell" in line)
        blank += seen and not line.strip()
        if blank == 2:
            return
    raise RuntimeError("watch has ended")


if __name__ == "__main__":
    sys.exit(main())

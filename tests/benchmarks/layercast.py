"""Memory and time of LayerCast against float32 and bfloat16, on a middling transformer, in real releases.

    python -m tests.benchmarks.layercast --versions 2.4.1,2.14.0 --rounds 7

Decoder-only, width 512, 8 layers, vocabulary 16,000 tied with the output layer: a prefill, then single steps with a
cache. Memory is measured in a process of its own for each precision (Linux with glibc: it reads /proc), as what the
process takes at most beyond what it had before the model; the model is made in float32 and converted before that.
``peak*`` is with MALLOC_MMAP_THRESHOLD_=131072, which makes glibc give every freed cast back to the system; by default
it keeps some of them for later. Times are medians over rounds in which all three take their turn in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.timing import interpreter

PROGRAM = Path(__file__).with_name("layercast_program.py")
LIMIT = 0.55
"""Largest allowed ratio of kept parameters to float32's."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", default="2.4.1,2.14.0")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prefill", type=int, default=256, help="tokens")
    parser.add_argument("--steps", type=int, default=16, help="single steps after the prefill")
    options = parser.parse_args()
    sizes = [str(size) for size in (options.threads, options.batch, options.prefill, options.steps)]
    beyond = 0
    for version in options.versions.split(","):
        python = interpreter(version)
        memory = {}
        for kind in ("float32", "bfloat16", "layercast"):
            memory[kind] = measured(python, kind, "1", *sizes)
            memory[kind]["peak*"] = measured(python, kind, "1", *sizes, MALLOC_MMAP_THRESHOLD_="131072")["peak"]
        beyond += show(version, memory, measured(python, "all", str(options.rounds), *sizes))
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return int(beyond > 0)


def measured(python: Path, *words: str, **variables: str) -> dict[str, Any]:
    """What the program prints, run inside a release."""
    own = {**os.environ, **variables}
    done = subprocess.run([python, "-B", PROGRAM, *words], check=True, capture_output=True, text=True, env=own)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def show(version: str, memory: dict[str, dict[str, Any]], times: dict[str, Any]) -> bool:
    """Print the table of a release. Returns whether a bound is broken."""
    print(f"{version}: outputs of LayerCast and float32 are the same bits: {times['equal']}")
    print(f"  {'':10} {'parameters':>12} {'peak':>11} {'peak*':>11} {'prefill':>11} {'a step':>11}")
    rows = {
        kind: [facts["parameters"] / 1e6, facts["peak"] / 1e6, facts["peak*"] / 1e6]
        + [statistics.median(times[kind][part]) * 1000 for part in ("prefill", "step")]
        for kind, facts in memory.items()
    }
    for kind, row in rows.items():
        print("  {:10} {:9.1f} MB {:8.1f} MB {:8.1f} MB {:8.1f} ms {:8.2f} ms".format(kind, *row))
    ratios = [ours / theirs for ours, theirs in zip(rows["layercast"], rows["float32"], strict=True)]
    print("  to float32 {:12.2f} {:11.2f} {:11.2f} {:11.2f} {:11.2f}".format(*ratios))
    return ratios[0] > LIMIT or not times["equal"]


if __name__ == "__main__":
    sys.exit(main())

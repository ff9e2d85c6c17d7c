"""What a loop that only forks says about a flaky bug, beside ``bisect --flaky`` on the same releases.

    python -m tests.benchmarks.fork_only_loop repro.py --versions 2.7.1,2.8.0,2.9.1,2.12.1,2.14.0

The loop imports torch once for each release, forks a child for each repeat, and makes one bit of them: the release
is bad if the first fails, if any fails, or if most fail. Where every release is as flaky as the others, each change
that it claims is false.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from tests.benchmarks.timing import TOOL, interpreter, quiet_python

LOOP = """
import os, runpy, sys, torch
script, repeats = sys.argv[1], int(sys.argv[2])
for _ in range(repeats):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        try:
            runpy.run_path(script, run_name="__main__")
        except BaseException:
            os._exit(1)
        os._exit(0)
    sys.stdout.write("W" if os.waitpid(child, 0)[1] else ".")
"""
RULES: dict[str, Callable[[str], bool]] = {
    "the first fails": lambda forks: forks[0] == "W",
    "any of the first three fails": lambda forks: "W" in forks[:3],
    "any fails": lambda forks: "W" in forks,
    "most fail": lambda forks: 2 * forks.count("W") > len(forks),
}


def forked(python: Path, script: Path, repeats: int) -> str:
    """For each fork of one process of this interpreter, in order: ``W`` where it fails, else a dot."""
    words = [str(python), "-c", LOOP, str(script), str(repeats)]
    done = subprocess.run(words, env=quiet_python(python), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def claims(bad: dict[str, bool]) -> list[str]:
    """Every change that one bit for each release gives."""
    changed = [newer for older, newer in pairwise(bad) if bad[older] != bad[newer]]
    return [f"{'broke' if bad[newer] else 'fixed'} in {newer}" for newer in changed]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", type=Path)
    parser.add_argument("--versions", required=True, type=lambda text: text.split(","), help="in release order")
    parser.add_argument("--repeats", type=int, default=12, help="forks for each release (default 12)")
    parser.add_argument("--rounds", type=int, default=3, help="the loop is run so often (default 3)")
    parser.add_argument("--python", metavar="X.Y", help="of the environments")
    options = parser.parse_args()
    script, versions = options.script.resolve(), options.versions
    chosen = ["--python", options.python] if options.python else []

    pythons = {version: interpreter(version, *chosen) for version in versions}
    for number in range(options.rounds):
        print(f"fork-only loop, round {number + 1}")
        forks = {version: forked(python, script, options.repeats) for version, python in pythons.items()}
        for version, each in forks.items():
            print(f"  {version:8}{each}")
        for rule, reads_bad in RULES.items():
            told = claims({version: reads_bad(each) for version, each in forks.items()})
            print(f"  bad if {rule}: {', '.join(told) or 'no change'}", flush=True)

    between = ",".join(each for each in _releases(versions[0], versions[-1]) if each not in versions)
    with tempfile.TemporaryDirectory() as folder:
        words = [*TOOL, "bisect", str(script), "--good", versions[0], "--bad", versions[-1], "--flaky", *chosen]
        words += ["--exclude", between] if between else []
        print("bisect --flaky", flush=True)
        return subprocess.run(words, cwd=folder, check=False).returncode


def _releases(first: str, last: str) -> list[str]:
    words = [*TOOL, "releases", "--from", first, "--to", last]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return [line.split()[0] for line in done.stdout.splitlines() if line[:1].isdigit()]


if __name__ == "__main__":
    sys.exit(main())

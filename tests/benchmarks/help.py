"""``bisect-torch --help`` against ``nox --help``: what a user waits for before anything happens.

pip install nox && python -m tests.benchmarks.help
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.benchmarks.peers import program
from tests.benchmarks.timing import report, seconds, side_by_side


def main() -> int:
    here = str(Path(sys.executable).parent)
    ours = shutil.which("bisect-torch", path=here)
    if ours is None:
        raise SystemExit("bisect-torch is not installed beside this Python")
    nox = program("nox")
    medians = side_by_side(21, digits=3, ours=lambda: seconds([ours, "--help"]), nox=lambda: seconds([nox, "--help"]))
    return report("--help", medians["ours"], medians["nox"], 0.25, digits=3)


if __name__ == "__main__":
    sys.exit(main())

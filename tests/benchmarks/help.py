"""``bisect-torch --help`` against ``nox --help``: what a user waits for before anything happens.

pip install nox && python -m tests.benchmarks.help
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.benchmarks.timing import report, seconds, side_by_side


def main() -> int:
    here = str(Path(sys.executable).parent)
    ours, nox = (shutil.which(name, path=here) or shutil.which(name) for name in ("bisect-torch", "nox"))
    if ours is None or nox is None:
        raise SystemExit("bisect-torch and nox must both be installed")
    medians = side_by_side(11, ours=lambda: seconds([ours, "--help"]), nox=lambda: seconds([nox, "--help"]))
    return report("--help", medians["ours"], medians["nox"], 0.5)


if __name__ == "__main__":
    sys.exit(main())

"""A run of which everything is known, against loading the two libraries that it cannot do without.

    python -m tests.benchmarks.second

The run is repeated word for word: it reads its case file, chooses the builds, looks at their environments, finds each
cell in the results file, and prints the matrix and what changed. The other side is ``python -c 'import pyarrow.parquet,
rich.console'`` with the same interpreter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.peers import CASES
from tests.benchmarks.timing import TOOL, built, report, seconds, side_by_side

LIBRARIES = "import pyarrow.parquet, rich.console"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cells", type=int, default=20)
    options = parser.parse_args()
    versions = built()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.py").write_text(CASES.format(count=options.cells))
        words = [*TOOL, "run", "cases.py", "--versions", ",".join(versions), "-o", "results.parquet"]
        seconds(words, cwd=folder)
        medians = side_by_side(
            options.rounds,
            again=lambda: seconds(words, cwd=folder),
            libraries=lambda: seconds([sys.executable, "-c", LIBRARIES], cwd=folder),
        )
    title = f"second run, {len(versions)} releases × {options.cells} cells"
    return report(title, medians["again"], medians["libraries"], 2.0)


if __name__ == "__main__":
    sys.exit(main())

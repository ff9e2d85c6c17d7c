"""Small cells on one built environment, against as many fresh ``python case.py`` from bytecode.

    python -m tests.benchmarks.cells --count 200 --limit 0.02
    python -m tests.benchmarks.cells --count 2000 --limit 0.01

Isolation is on, results are written and read back (``run`` and then ``judge``). Fresh processes are timed on a sample,
one after another, and scaled to the count.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.timing import TOOL, interpreter, quiet_python, report, seconds, side_by_side

BODY = """
    a = torch.arange(16.0).reshape(4, 4) + {n}
    assert torch.equal(a @ torch.eye(4), a)
"""
CASES = "import torch\nfrom bisect_torch import case\n@case(n=list(range({count})))\ndef small(n):\n"
SCRIPT = "import torch\nfor n in [1]:\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--limit", type=float, default=0.02, help="largest allowed ratio")
    parser.add_argument("--version", default="2.14.0")
    parser.add_argument("--sample", type=int, default=20, help="fresh processes that are really timed in each round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    python = interpreter(options.version)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.py").write_text(CASES.format(count=options.count) + BODY.format(n="n"))
        (folder / "case.py").write_text(SCRIPT + BODY.format(n="n"))

        def ours() -> float:
            words = ["run", "cases.py", "--versions", options.version, "-o", "results.parquet", "--fresh"]
            return seconds([*TOOL, *words], cwd=folder) + seconds([*TOOL, "judge", "results.parquet"], cwd=folder)

        def fresh() -> float:
            variables = quiet_python(python)
            sample = sum(seconds([python, "case.py"], cwd=folder, env=variables) for _ in range(options.sample))
            return sample / options.sample * options.count

        medians = side_by_side(options.rounds, ours=ours, fresh=fresh)
    return report(f"{options.count} small cells", medians["ours"], medians["fresh"], options.limit)


if __name__ == "__main__":
    sys.exit(main())

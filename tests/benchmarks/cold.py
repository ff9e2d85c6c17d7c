"""A cold run of three releases, against doing by hand one release after another.

    python -m tests.benchmarks.cold

By hand: ``uv venv``, ``uv pip install``, the first ``import torch``, and the same cells in fresh processes. Both begin
with an empty cache and download everything; about 12 GB of disk each, given back in between.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from uv import find_uv_bin

from tests.benchmarks.timing import TOOL, report, seconds, side_by_side

RELEASES = {"2.6.0": "2025-02-03", "2.9.1": "2025-11-16", "2.14.0": "2026-09-06"}
"""Release to the day up to which dependencies are taken by hand."""

BODY = "    a = torch.arange(16.0).reshape(4, 4) + n\n    assert torch.equal(a @ torch.eye(4), a)\n"
CASES = "import torch\nfrom bisect_torch import case\n@case(n=list(range({count})))\ndef small(n):\n" + BODY
SCRIPT = "import sys\nimport torch\nfor n in [int(sys.argv[1])]:\n" + BODY


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cells", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to work; the system's temporary folder by default")
    options = parser.parse_args()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        (folder / "cases.py").write_text(CASES.format(count=options.cells))
        (folder / "case.py").write_text(SCRIPT)

        def ours() -> float:
            words = ["run", "cases.py", "--versions", ",".join(RELEASES), "--python", python, "--fresh"]
            took = seconds([*TOOL, *words, "--store", folder / "store"], cwd=folder)
            empty(folder / "store")
            return took

        def by_hand() -> float:
            variables = {**os.environ, "UV_CACHE_DIR": str(folder / "cache")}
            took = 0.0
            for version, day in RELEASES.items():
                there = folder / version
                own = there / "bin" / "python"
                took += seconds([find_uv_bin(), "venv", "--python", sys.executable, there], env=variables)
                wanted = [f"torch=={version}", "numpy", "setuptools", "--exclude-newer", day]
                took += seconds([find_uv_bin(), "pip", "install", "--python", own, *wanted], env=variables)
                took += seconds([own, "-c", "import torch"])
                took += sum(seconds([own, "case.py", str(n)], cwd=folder) for n in range(options.cells))
            for leftover in (folder / "cache", *(folder / version for version in RELEASES)):
                empty(leftover)
            return took

        medians = side_by_side(options.rounds, ours=ours, by_hand=by_hand)
    return report("cold run of three releases", medians["ours"], medians["by_hand"], 1.0)


def empty(folder: Path) -> None:
    """Remove a folder whose folders may be read-only."""
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o700)
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())

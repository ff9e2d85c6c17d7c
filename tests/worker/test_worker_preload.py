"""What a worker loads before its first fork, so that no cell does it again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2]

NUMPY = """
import importlib

def __getattr__(name):
    if name == "random":
        return importlib.import_module("numpy.random")
    raise AttributeError(name)
"""
TORCH = """
import linecache, traceback
{numpy}

def manual_seed(seed):
    traceback.format_stack()
"""
SCRIPT = """
import json, linecache, sys
sys.path[:0] = [{tool!r}, {folder!r}]
from bisect_torch.worker import preload
preload.torch_and_checks()
before = set(sys.modules)
from bisect_torch.worker import api
read = []
real = linecache.updatecache
linecache.updatecache = lambda name, *rest: read.append(name) or real(name, *rest)
api._seed_everything(3)
print(json.dumps([sorted(set(sys.modules) - before), [name for name in read if "worker" in name]]))
"""


@pytest.mark.parametrize("numpy", ["import numpy", ""])
def test_seeding_a_cell_loads_and_reads_nothing(numpy: str, tmp_path: Path) -> None:
    """numpy imports its random numbers at their first use, and torch's seeding formats a stack."""
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text(NUMPY)
    (tmp_path / "numpy" / "random.py").write_text("def seed(number): pass\n")
    (tmp_path / "torch.py").write_text(TORCH.format(numpy=numpy))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tool=str(TOOL), folder=str(tmp_path)))

    done = subprocess.run([sys.executable, "-I", script], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == [[], []]

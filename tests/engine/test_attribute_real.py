"""Real causes of changes between real releases: numpy, setuptools, triton that torch pins, and torch itself.

    pytest -m slow tests/engine/test_attribute_real.py

Needs seven releases (25 GB, built once into the store) and about ten minutes; each hybrid adds some 0.1 GB of links.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

CASES = '''
import importlib.util

import numpy
import torch
from bisect_torch import case


@case
def area_under_curve():
    """numpy 2.4 removed trapz."""
    y = torch.linspace(0, 1, 11).numpy()
    assert abs(numpy.trapz(y, dx=0.1) - 0.5) < 1e-6


@case
def copied_in_a_dry_run():
    """setuptools 81 removed dry_run from its distutils."""
    import setuptools
    from distutils.file_util import copy_file

    assert copy_file(__file__, "nowhere", dry_run=True) == ("nowhere", 1)


@case
def pkg_resources_is_there():
    """setuptools 82 removed it; torch 2.11.0 to 2.12.1 require setuptools<82."""
    assert importlib.util.find_spec("pkg_resources")


@case
def kernel_language():
    """triton 3.6 removed async_task; each torch requires one triton."""
    import triton.language

    triton.language.async_task


@case
def rms_norm_default_eps():
    """torch 2.7.0 takes the eps of float32."""
    x = torch.full((2, 8), 0.0001, dtype=torch.bfloat16)
    out = torch.nn.functional.rms_norm(x, (8,))[0, 0].item()
    assert abs(out - 0.00113) < 0.0001, out
'''

CAUSES = {
    # case: the ends, exit code, cause, packages, what the sentence says
    "area_under_curve": (
        "2.9.1", "2.10.0", 0, "dependency", ["numpy"],
        "numpy 2.3.4 → 2.4.1, not torch: torch 2.10.0 with numpy 2.3.4 is as before.",
    ),
    "copied_in_a_dry_run": (
        "2.10.0", "2.11.0", 0, "dependency", ["setuptools"],
        "setuptools 80.10.1 → 81.0.0, not torch: torch 2.11.0 with setuptools 80.10.1 is as before.",
    ),
    "pkg_resources_is_there": (
        "2.12.1", "2.13.0", 3, "inseparable", ["setuptools"],
        "setuptools 81.0.0 → 83.0.0 is needed for it, and whether torch 2.13.0 is too cannot be told.",
    ),
    "kernel_language": (
        "2.9.1", "2.10.0", 0, "torch", [],
        "torch, or what cannot be separated from it: triton and 3 nvidia packages.",
    ),
    "rms_norm_default_eps": (
        "2.6.0", "2.7.0", 0, "torch", [],
        "torch, or what cannot be separated from it: sympy, triton and 14 nvidia packages.",
    ),
}  # fmt: skip


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other platforms have other locks")
@pytest.mark.parametrize("case", CAUSES)
def test_the_cause_on_real_releases_is_found(case: str, tmp_path: Path) -> None:
    before, after, code, cause, packages, said = CAUSES[case]
    (tmp_path / "causes.py").write_text(CASES)
    ran = call(tmp_path, "run", "causes.py", "-k", case, "--versions", f"{before},{after}", "--python", "3.11")
    assert ran.returncode == 1, ran.stderr

    answer = call(tmp_path, "attribute", "results.parquet", case, "--json")

    assert answer.returncode == code, answer.stderr
    data: dict[str, Any] = json.loads(answer.stdout)
    assert (data["cause"], data["packages"]) == (cause, packages)
    assert data["text"].endswith(said)
    for hybrid in data["hybrids"]:
        assert hybrid["processes"] >= 3


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bisect_torch", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

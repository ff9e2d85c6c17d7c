"""The same job as nox and asv do it: set-ups as their users would write them, made for the benchmarks.

Both need to be installed where :func:`program` finds them: ``pip install nox asv virtualenv``, in an environment of
their own if its ``bin`` is on PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

BODY = "    a = torch.arange(16.0).reshape(4, 4) + n\n    assert torch.equal(a @ torch.eye(4), a)\n"
"""One small case, of a parameter ``n``."""

CASES = "import torch\nfrom bisect_torch import case\n@case(n=list(range({count})))\ndef small(n):\n" + BODY
SCRIPT = "import sys\nimport torch\nfor n in [int(sys.argv[1])]:\n" + BODY

_NOXFILE = """
import nox

nox.options.default_venv_backend = "uv"
DAYS = {days!r}

@nox.session
@nox.parametrize("release", list(DAYS))
def cells(session, release):
    session.install(f"torch=={{release}}", "numpy", "setuptools", "--exclude-newer", DAYS[release])
    for n in range({count}):
        session.run("python", "case.py", str(n))
"""

_BENCHMARKS = """
import torch

def track_small(n):
{body}    return 1.0

track_small.params = list(range({count}))
track_small.param_names = ["n"]
"""


def program(name: str) -> str:
    """The path of a peer.

    Raises:
        SystemExit: It is not installed.
    """
    beside = shutil.which(name, path=os.fspath(Path(sys.executable).parent)) or shutil.which(name)
    if beside is None:
        raise SystemExit(f"{name} is not installed: pip install nox asv virtualenv")
    return beside


def nox_setup(folder: Path, days: Mapping[str, str], count: int) -> list[str]:
    """A noxfile with a session for each release, on uv, and the words that run it.

    Args:
        days: Release to the day up to which its dependencies are taken.
    """
    (folder / "case.py").write_text(SCRIPT)
    (folder / "noxfile.py").write_text(_NOXFILE.format(days=dict(days), count=count))
    return [program("nox"), "--non-interactive", "--error-on-missing-interpreters"]


def asv_setup(folder: Path, days: Mapping[str, str], count: int) -> list[str]:
    """A project with benchmarks and an ``asv.conf.json`` whose matrix has the releases, and the words that run it.

    asv measures commits of a project, so there is an empty one. It forks each benchmark from a server that has
    imported torch, and makes environments side by side. What it installs beside torch is of today.
    """
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "__init__.py").write_text("")
    (folder / "benchmarks" / "small.py").write_text(_BENCHMARKS.format(body=BODY, count=count))
    settings = {
        "version": 1,
        "project": "cells",
        "repo": ".",
        "branches": ["HEAD"],
        "environment_type": "virtualenv",
        "pythons": [minor],
        "matrix": {"req": {"torch": list(days), "numpy": [""], "setuptools": [""]}},
        # There is nothing to build or to install of the project itself.
        "build_command": [],
        "install_command": ["python -c pass"],
        "uninstall_command": ["python -c pass"],
        "benchmark_dir": "benchmarks",
    }
    (folder / "asv.conf.json").write_text(json.dumps(settings, indent=1))
    git = ["git", "-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "benchmarks"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    cores = len(os.sched_getaffinity(0))
    return [program("asv"), "run", "--machine", "here", "--parallel", str(cores), "--show-stderr", "HEAD^!"]

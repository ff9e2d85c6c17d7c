"""A local interpreter as a build: source builds, conda and containers take part by the path of their Python."""

from __future__ import annotations

import json
import os
from pathlib import Path

from packaging.version import InvalidVersion, Version

from bisect_torch.errors import UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.redaction import without_secrets

# Reads torch/version.py without importing torch, which would take seconds.
_PROBE = """
import importlib.util, json, os, runpy, sys
spec = importlib.util.find_spec("torch")
facts = {}
if spec is not None and spec.origin:
    facts = runpy.run_path(os.path.join(os.path.dirname(spec.origin), "version.py"))
print(json.dumps({
    "version": facts.get("__version__"),
    "git_commit": facts.get("git_version"),
    "python": "%d.%d" % sys.version_info[:2],
}))
"""
_TIMEOUT_S = 60.0


def local_build(path: Path) -> Build:
    """Find out which torch an interpreter has, without importing it.

    Args:
        path: Of the interpreter; symbolic links are kept, since they are what makes a virtual environment.

    Raises:
        UsageError: There is no Python there, or it has no torch.
    """
    try:
        is_folder, is_program = path.is_dir(), path.is_file() and os.access(path, os.X_OK)
    except (OSError, ValueError) as error:  # the name is too long, or holds a zero byte
        raise UsageError(
            f"there is no Python interpreter at {path}: {error}",
            hint="name the path of a python program, as in /opt/venv/bin/python",
        ) from None
    if is_folder:
        raise UsageError(f"{path} is a folder, not a Python interpreter", hint=f"{path / 'bin' / 'python'}")
    if not is_program:
        raise UsageError(
            f"there is no Python interpreter at {path}",
            hint="name the path of a python program, as in /opt/venv/bin/python",
        )
    free = without_secrets(os.environ)
    variables = {name: value for name, value in free.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    from bisect_torch.child_processes import run_process

    try:
        result = run_process([path, "-c", _PROBE], env=variables, timeout_s=_TIMEOUT_S)
        facts = json.loads(result.stdout.strip().rpartition("\n")[2])
        text, commit, python = facts["version"], facts["git_commit"], facts["python"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} does not run as a Python interpreter", hint=f"{path} -c 'import torch' shows why"
        ) from error
    if text is None:
        raise UsageError(f"{path} has no torch", hint=f"{path} -m pip install torch")
    try:
        version = Version(text).public
    except InvalidVersion:
        raise UsageError(
            f"the torch of {path} has a version that cannot be ordered: {text!r}",
            hint="a build from source: set PYTORCH_BUILD_VERSION when it is built",
        ) from None
    name = str(path)
    return Build(
        BuildKind.LOCAL, version, name, git_commit=commit, pythons=(python,), python=Path(os.path.abspath(path))
    )

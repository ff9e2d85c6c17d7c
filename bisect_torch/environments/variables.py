"""Which environment variables a child inside an environment gets."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from bisect_torch.redaction import without_secrets

_COMPUTING = re.compile(
    r"LD_PRELOAD|LD_LIBRARY_PATH|DYLD_\w+|ATEN_CPU_CAPABILITY|NVIDIA_TF32_OVERRIDE|CUDA_VISIBLE_DEVICES"
    r"|(OMP|MKL|OPENBLAS|KMP|CUBLAS|CUDNN|ONEDNN|DNNL)_\w+|(TORCH|PYTORCH|TRITON)\w*"
)

_REMOVED = frozenset({"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "__PYVENV_LAUNCHER__"})


def reaches_computing(name: str) -> bool:
    """Whether a variable of this name sets something of torch, or of what it computes with: ``OMP_NUM_THREADS``."""
    return _COMPUTING.fullmatch(name) is not None


def clean_environment_variables(
    python: Path,
    base: Mapping[str, str] | None = None,
    *,
    user_site: bool = False,
    write_bytecode: bool = False,
    passed: Collection[str] = (),
) -> dict[str, str]:
    """The variables for a child that runs ``python``.

    Everything that could make the interpreter find other modules is removed: all of Python's own variables and those of
    an active virtual environment. So is what holds a secret, by its name (``*_TOKEN``, ``*_KEY``, ``AWS_*``, …) or by a
    password in an address. The rest (HOME, OPENBLAS_…, TORCH_…) is the user's and is kept.

    Args:
        python: The environment's interpreter; its folder comes first on PATH.
        base: Variables to start from; those of this process when None.
        user_site: Leave the user's own site-packages visible: for a local interpreter that may have its torch there.
        write_bytecode: Let the child write bytecode. Only control cases do.
        passed: Names of variables that the user lets through although they hold secrets.
    """
    given = os.environ if base is None else base
    free = without_secrets(given, passed)
    kept = {name: value for name, value in free.items() if not name.startswith("PYTHON") and name not in _REMOVED}
    folder = str(python.parent)
    rest = [entry for entry in kept.get("PATH", os.defpath).split(os.pathsep) if entry and entry != folder]
    kept["PATH"] = os.pathsep.join([folder, *rest])
    if not user_site:
        kept["PYTHONNOUSERSITE"] = "1"
    if not write_bytecode:
        kept["PYTHONDONTWRITEBYTECODE"] = "1"
    return kept

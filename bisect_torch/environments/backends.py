"""Which torch backend is meant by ``auto`` and ``rocm``: decided once, by name, for the whole run."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from packaging.version import Version

from bisect_torch.child_processes import run_process
from bisect_torch.environments.options import DEFAULT_BACKEND
from bisect_torch.errors import UsageError
from bisect_torch.nearest import nearest_names
from bisect_torch.uv_program import binary

_AMD_DRIVER = Path("/sys/module/amdgpu/version")
_INTEL_DRIVERS = (Path("/sys/module/xe"), Path("/sys/module/i915"))
_RENDER_NODES = Path("/dev/dri")


@functools.cache
def known_backends() -> tuple[str, ...]:
    """The backends that uv knows, in its own words, newest first within a kind."""
    # uv lists them when it is given one that does not exist; it has no other way to ask.
    answer = run_process([binary(), "pip", "install", "--torch-backend", "?", "torch"], timeout_s=60).stderr
    listed = re.search(r"possible values: ([^\]]*)\]", answer)
    return tuple(name.strip() for name in listed.group(1).split(",")) if listed else ()


def resolve_backend(name: str) -> tuple[str, str | None]:
    """The one backend that a user's choice stands for, and a note where the choice left it open.

    ``auto`` is the newest CUDA that the NVIDIA driver can run, else ROCm or XPU where such a driver is there, else
    ``cpu``; ``rocm`` is the newest that uv knows.

    Raises:
        UsageError: There is no such backend.
    """
    if name == DEFAULT_BACKEND:
        return name, None
    if name == "auto":
        chosen, why = _detect()
        return chosen, f"--torch-backend auto is {chosen} here: {why}"
    if name == "rocm":
        chosen = _newest_rocm()
        return chosen, f"--torch-backend rocm is {chosen}, the newest that is known"
    known = known_backends()
    if known and name not in known:
        near = nearest_names(name, [DEFAULT_BACKEND, *known], most=3)
        raise UsageError(
            f"there is no torch backend {name!r}",
            hint=f"did you mean {' or '.join(near)}?" if near else f"known are {DEFAULT_BACKEND}, {', '.join(known)}",
        )
    return name, None


def _detect() -> tuple[str, str]:
    driver = _cuda_of_driver()
    if driver is not None:
        usable = [name for name in known_backends() if name.startswith("cu") and _cuda_version(name) <= driver]
        if usable:
            return max(usable, key=_cuda_version), f"the NVIDIA driver runs CUDA {driver}"
    if _AMD_DRIVER.exists():
        return _newest_rocm(), "an AMD driver is loaded"
    if _RENDER_NODES.is_dir() and any(driver.exists() for driver in _INTEL_DRIVERS):
        return "xpu", "an Intel driver is loaded"
    return "cpu", "no driver of a GPU was found"


def _cuda_of_driver() -> Version | None:
    """The newest CUDA that the NVIDIA driver can run; None where none answers."""
    try:
        answer = run_process(["nvidia-smi"], timeout_s=30)
    except OSError:
        return None
    shown = re.search(r"CUDA Version:\s*(\d+\.\d+)", answer.stdout)
    return Version(shown.group(1)) if answer.returncode == 0 and shown else None


def _cuda_version(backend: str) -> Version:
    """``cu128`` is CUDA 12.8, ``cu92`` 9.2."""
    digits = backend.removeprefix("cu")
    return Version(f"{digits[:-1]}.{digits[-1]}")


def _newest_rocm() -> str:
    names = [name for name in known_backends() if name.startswith("rocm")]
    if not names:
        raise UsageError("this uv knows no ROCm backend", hint="name one, such as --torch-backend rocm6.4")
    return max(names, key=lambda name: Version(name.removeprefix("rocm")))

"""Memory and accelerators, asked without torch."""

from __future__ import annotations

import platform
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bisect_torch.doctor.check import Asked, Check, Status
from bisect_torch.engine import host
from bisect_torch.environments.disk import gb
from bisect_torch.environments.options import DEFAULT_BACKEND
from bisect_torch.first_names import first_of
from bisect_torch.releases import load_catalogue

_LEAST_MEMORY = 2_000_000_000
"""torch of a CUDA wheel takes 0.6 GB in each worker, and cells run side by side."""

OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
"""CUDA's major version to the oldest major version of the Linux driver that runs it, by minor version compatibility:
https://docs.nvidia.com/deploy/cuda-compatibility/."""


def memory(asked: Asked) -> Iterator[Check]:
    """What cells may take together."""
    total, free = host.total_memory(), host.available_memory()
    found = f"{gb(free)} available of {gb(total)}"
    if free < _LEAST_MEMORY:
        means = "cells may be killed by the kernel (`oom`); cases that state their memory are skipped"
        yield Check("memory", Status.WARNING, found, means, "`bisect-torch run --jobs 1`, or close other programs")
    else:
        yield Check("memory", Status.OK, found, "cases that need more are skipped")


def gpu(asked: Asked) -> Iterator[Check]:
    """What ``--device cuda`` or ``--device mps`` would find. Without an accelerator all runs are on the CPU."""
    if sys.platform == "darwin":
        if platform.machine() == "arm64":
            yield Check("GPU", Status.OK, "MPS", "`bisect-torch run --device mps` uses it")
        else:
            yield Check("GPU", Status.OK, "none that torch can use", "--device cpu is the default")
        return
    name, driver = host.device_identity("cuda:0")
    if name:
        yield _driver(name, driver, asked.backend)
    elif _has_nvidia():
        means = "--device cuda does not work: those cells are `broken`; cells on the CPU run"
        found = f"{_has_nvidia()}, but nvidia-smi {'fails' if shutil.which('nvidia-smi') else 'is missing'}"
        yield Check("GPU", Status.WARNING, found, means, "nvidia-smi; install or reload the NVIDIA driver")
    elif Path("/dev/kfd").exists():
        fix = "bisect-torch run --torch-backend rocm --device cuda"
        yield Check("GPU", Status.OK, "an AMD GPU (/dev/kfd)", "the default wheels do not use it", fix)
    else:
        yield Check("GPU", Status.OK, "none", "--device cpu is the default; --torch-backend cpu downloads far less")


def _has_nvidia() -> str:
    """What shows that there is an NVIDIA device, though it does not answer; empty where nothing does."""
    version = Path("/proc/driver/nvidia/version")
    if version.exists():
        words = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", version.read_text(errors="replace"))
        return f"NVIDIA driver {words[0]}" if words else "an NVIDIA driver"
    return "/dev/nvidia0" if Path("/dev/nvidia0").exists() else ""


def _driver(name: str, driver: str, backend: str) -> Check:
    found = f"{name}, driver {driver}"
    major = driver.partition(".")[0]
    if backend != DEFAULT_BACKEND or not major.isdigit():
        return Check("GPU", Status.OK, found, "`bisect-torch run --device cuda` uses it")
    too_new = [
        release.version
        for release in load_catalogue()
        if release.cuda and int(major) < OLDEST_DRIVER.get(int(release.cuda.partition(".")[0]), 0)
    ]
    if too_new:
        means = f"too old for the CUDA of torch {first_of(too_new)}: cells on cuda are `broken` there"
        fix = "update the driver, or bisect-torch run --torch-backend cu126"
        return Check("GPU", Status.WARNING, found, means, fix)
    return Check("GPU", Status.OK, found, "`bisect-torch run --device cuda` uses it")

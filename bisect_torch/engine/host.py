"""Facts about the machine that runs the cells: what may change a result, and what must fit."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.engine.plan import accelerators

_VECTOR_LEVELS = (("amx_tile", "amx"), ("avx512f", "avx512"), ("avx2", "avx2"), ("asimd", "neon"))


@functools.cache
def _cpuinfo() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text(errors="replace") if path.exists() else ""


def _cpu_field(name: str) -> str:
    for line in _cpuinfo().splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


@functools.cache
def cpu_name() -> str:
    """The processor's model as the system names it."""
    if sys.platform == "darwin":
        from bisect_torch.child_processes import run_process

        return run_process(["sysctl", "-n", "machdep.cpu.brand_string"]).stdout.strip()
    return _cpu_field("model name") or platform.processor() or platform.machine()


@functools.cache
def machine_class() -> str:
    """System, architecture and widest vector instructions: ``Linux-x86_64-avx512``.

    Kernels are chosen by these, so that a result of one machine class may differ from another's without any fault.
    """
    flags = set((_cpu_field("flags") or _cpu_field("features")).split())
    level = next((name for flag, name in _VECTOR_LEVELS if flag in flags), "default")
    return f"{platform.system()}-{platform.machine()}-{level}"


def total_memory() -> int:
    """Bytes of physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_memory() -> int:
    """Bytes that can be taken without pushing anything out; on systems that do not tell, three quarters of all."""
    path = Path("/proc/meminfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return min(int(line.split()[1]) * 1024, _cgroup_headroom())
    return total_memory() * 3 // 4


MEMORY_SHARE = 0.9
"""Of the memory that is available at the start, for all cells together."""


def memory_for_cells() -> int:
    """Bytes that all cells of a run together may use, where the user does not say."""
    return int(available_memory() * MEMORY_SHARE)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_jobs(devices: Iterable[str]) -> int:
    """Cells that run at once where the user does not say.

    One slot a core, and one for each accelerator: what runs there leaves its core free most of the time.
    """
    return cores() + len(accelerators(devices))


def _cgroup_headroom() -> int:
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if not limit.exists() or not used.exists():
        return sys.maxsize
    text = limit.read_text().strip()
    return sys.maxsize if text == "max" else max(0, int(text) - int(used.read_text()))


@functools.cache
def _nvidia(index: str) -> tuple[str, str, int] | None:
    """Name, driver and bytes of memory of an NVIDIA device; None when there is none or its driver does not answer."""
    if not shutil.which("nvidia-smi"):
        return None
    from bisect_torch.child_processes import run_process

    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits", "-i", index]
    answer = run_process(query, timeout_s=20)
    fields = answer.stdout.strip().split(", ")
    if answer.returncode != 0 or len(fields) != 3:
        return None
    name, driver, mebibytes = fields
    return name, driver, int(mebibytes) * 2**20 if mebibytes.isdigit() else 0


def device_identity(device: str) -> tuple[str, str]:
    """Name and driver of a device: ``("AMD EPYC", "")``, ``("NVIDIA A100-SXM4-40GB", "550.54.15")``.

    An accelerator that this cannot name gives empty strings; whether it works is the capability control's business.
    """
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return cpu_name(), ""
    if kind == "mps":
        return cpu_name(), platform.mac_ver()[0]
    found = _nvidia(index or "0") if kind == "cuda" else None
    return (found[0], found[1]) if found else ("", "")


_TRACES = {
    "cuda": (
        *("/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia", "/dev/nvhost-ctrl", "/dev/nvmap", "/dev/nvgpu"),
        *("/dev/kfd", "/dev/dxg"),
    ),
    "xpu": ("/dev/dri", "/dev/dxg"),
}
"""What a driver leaves in the file system: NVIDIA's, that of its boards, AMD's (whose devices torch calls cuda),
Intel's, and that of Windows beneath WSL."""


def surely_lacks(device: str) -> bool:
    """Whether this machine can have no such device, whatever torch is asked: there is no trace of a driver for it."""
    kind = device.partition(":")[0]
    if kind == "mps":
        return sys.platform != "darwin"
    traces = _TRACES.get(kind)
    return traces is not None and not any(map(os.path.exists, traces))


def device_memory(device: str) -> int | None:
    """Bytes of memory of an accelerator; None where the system does not tell. That of MPS is the machine's own."""
    kind, _, index = device.partition(":")
    if kind == "mps":
        return total_memory()
    found = _nvidia(index or "0") if kind == "cuda" else None
    return found[2] or None if found else None


@dataclass(frozen=True)
class Device:
    """A device as results identify it: where one of these differs, so may a result.

    Args:
        machine: Class of the machine that it is in.
        name: The processor's or accelerator's; empty where this cannot name it.
        driver: Its version; empty where there is none.
        memory_bytes: The accelerator's own; None for the CPU, and where the system does not tell.
    """

    machine: str
    name: str
    driver: str
    memory_bytes: int | None


def device(name: str) -> Device:
    """What a device of this machine is: ``cpu``, ``cuda:1``."""
    return Device(machine_class(), *device_identity(name), device_memory(name))


def host_facts() -> dict[str, str | int]:
    """What goes into a results file about this machine; no name, user or path."""
    return {
        "system": platform.system(),
        "system_release": platform.release(),
        "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "cpu": cpu_name(),
        "machine_class": machine_class(),
        "cores": cores(),
        "memory_bytes": total_memory(),
    }

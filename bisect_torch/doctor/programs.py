"""Programs that a run starts: uv, Pythons for environments, a C++ compiler."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from bisect_torch import temporary
from bisect_torch.child_processes import run_process
from bisect_torch.doctor.check import Asked, Check, Status
from bisect_torch.doctor.chosen import called, chosen_builds
from bisect_torch.environments import Store, pythons
from bisect_torch.errors import InfrastructureError
from bisect_torch.first_names import first_of
from bisect_torch.model import Build
from bisect_torch.releases.index import catalogue_builds
from bisect_torch.releases.platforms import this_python
from bisect_torch.uv_program import OLDEST_UV, binary, install_line

_PACKAGES = (
    ("apt-get", "sudo apt-get install g++"),
    ("dnf", "sudo dnf install gcc-c++"),
    ("zypper", "sudo zypper install gcc-c++"),
    ("pacman", "sudo pacman -S gcc"),
    ("apk", "sudo apk add g++"),
)
_LIMIT_S = 20.0
_UV = f"{sys.executable} -m uv"
"""The one of this tool: another may not be on PATH."""


def uv_program(asked: Asked) -> Iterator[Check]:
    """The uv that makes environments: that of the package ``uv``, whatever PATH has."""
    try:
        program = binary()
        said = run_process([program, "--version"], timeout_s=_LIMIT_S)
    except (InfrastructureError, OSError) as error:
        means = "no environment can be made"
        hint = error.hint if isinstance(error, InfrastructureError) else None
        fix = hint or install_line(f"uv>={OLDEST_UV}", "--force-reinstall")
        yield Check("uv", Status.FAULT, str(error), means, fix)
        return
    version = next(iter(re.findall(r"\d+(?:\.\d+)+\S*", said.stdout)), "")
    try:
        old = Version(version) < OLDEST_UV
    except InvalidVersion:
        shown = (said.stdout + said.stderr).strip().partition("\n")[0][:80]
        means = f"{program} does not say its version: {shown or f'it ended with {said.returncode}'}"
        fix = install_line(f"uv>={OLDEST_UV}", "--force-reinstall")
        yield Check("uv", Status.FAULT, means, "no environment can be made", fix)
        return
    found = f"{version}, {program}"
    if old:
        fix = install_line(f"uv>={OLDEST_UV}", "--upgrade")
        yield Check("uv", Status.FAULT, found, f"{OLDEST_UV} is the oldest that knows all options in use", fix)
        return
    other = shutil.which("uv")
    differs = other is not None and not os.path.samefile(other, program)
    yield Check("uv", Status.OK, found, f"the one on PATH, {other}, is not used" if differs else "")


def python_interpreters(asked: Asked) -> Iterator[Check]:
    """Whether there is a Python that the releases have wheels for, for all of them alike where that can be."""
    builds, _ = chosen_builds(asked)
    if not catalogue_builds():
        means = "no release has a wheel for this system; only interpreters named with --versions can be run"
        yield Check("Python", Status.FAULT, f"{sysconfig.get_platform()}, Python {sys.version.split()[0]}", means)
        return
    if not builds:
        return  # interpreters bring their own, and of other builds only an index knows what they need
    # uv writes into its cache what interpreters say. The store stays as it is.
    with temporary.folder() as folder:
        options = asked.options(Store.open(folder))
        here = pythons.available(options).installed
        chosen = pythons.choose(builds, options)
    found = f"installed: {first_of(here) or 'none that uv finds'}"
    without = [build.name for build in builds if not _fits(build, chosen.get(build.name))]
    if without:
        fix = f"{_UV} python install {most_useful([build for build in builds if build.name in without])}"
        yield Check("Python", Status.FAULT, found, f"no Python for torch {first_of(without)}", fix)
        return
    used = sorted({choice.request for choice in chosen.values()})
    missing = sorted({choice.request for choice in chosen.values() if not choice.installed})
    downloads = os.environ.get("UV_PYTHON_DOWNLOADS", "").lower() not in ("never", "manual")
    if missing and (not downloads or asked.index.offline):
        fix = f"{_UV} python install {' '.join(missing)}"
        yield Check("Python", Status.FAULT, found, f"Python {', '.join(missing)} may not be fetched here", fix)
    elif missing:
        fix = f"{_UV} python install {' '.join(missing)}"
        yield Check("Python", Status.WARNING, found, f"the first run fetches Python {', '.join(missing)}", fix)
    elif len(used) > 1:
        means = f"no one Python fits every release: {', '.join(used)} are used, so that two things change at once"
        # Were there one that fits all of them, it would have been chosen.
        yield Check("Python", Status.WARNING, found, means, f"bisect-torch run --python {most_useful(builds)}")
    else:
        yield Check("Python", Status.OK, found, f"{used[0]} fits {called(builds)}")


def _fits(build: Build, choice: pythons.Choice | None) -> bool:
    return choice is not None and (choice.minor is None or choice.minor in build.pythons)


def most_useful(builds: Sequence[Build]) -> str:
    """The Python that most releases have a wheel for; of several the one that runs this tool, else the newest."""
    counts = Counter(python for build in builds for python in build.pythons)
    return max(counts, key=lambda python: (counts[python], python == this_python(), Version(python)))


def compiler(asked: Asked) -> Iterator[Check]:
    """What ``torch.compile`` starts on the CPU: ``CXX``, else g++ (clang++ on macOS), with headers, Python's too.

    The control case ``compile`` of an environment decides; this says beforehand what it will need.
    """
    named = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    means = "cases that need `compile` are `broken` on every release; all others run"
    program = shutil.which(named)
    if program is None:
        yield Check("C++ compiler", Status.WARNING, f"no {named} on PATH", means, _compiler_fix())
        return
    # Checks the syntax of an empty program that includes a header of the language: nothing is written.
    done = run_process([program, "-x", "c++", "-include", "vector", "-fsyntax-only", os.devnull], timeout_s=_LIMIT_S)
    if done.returncode:
        said = next((line.strip() for line in done.stderr.splitlines() if "error" in line), f"status {done.returncode}")
        yield Check("C++ compiler", Status.WARNING, f"{program}: {said[:160]}", means, _compiler_fix())
        return
    header = Path(sysconfig.get_path("include", vars=_base_of_this_python())) / "Python.h"
    if not header.is_file():
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        fix = (
            f"sudo apt-get install python{python}-dev"
            if shutil.which("apt-get")
            else f"install the development files of Python {python} (python3-devel)"
        )
        yield Check("C++ compiler", Status.WARNING, f"{program}; {header} is missing", means, fix)
        return
    yield Check("C++ compiler", Status.OK, program)


def _base_of_this_python() -> dict[str, str]:
    """Headers lie with the Python behind a virtual environment."""
    return {"base": sys.base_prefix, "platbase": sys.base_prefix, "installed_base": sys.base_prefix}


def _compiler_fix() -> str:
    named = os.environ.get("CXX")
    if named and shutil.which("clang++" if sys.platform == "darwin" else "g++"):
        return "unset CXX"
    again = "unset CXX; " if named else ""
    if sys.platform == "darwin":
        return f"{again}xcode-select --install"
    install = next((fix for program, fix in _PACKAGES if shutil.which(program)), "")
    return f"{again}{install}" if install else "install g++, or name another with CXX="

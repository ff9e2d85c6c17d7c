"""Which Python an environment is made with: one for the whole range where there is one."""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import sys
import sysconfig
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.environments.failures import NotInstallable
from bisect_torch.environments.options import EnvironmentOptions
from bisect_torch.errors import InfrastructureError, Interrupted, UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.redaction import without_secrets

if TYPE_CHECKING:
    from bisect_torch.environments.uv import Uv

_ASK = (
    "import json,os,platform,sys;"
    "print(json.dumps([sys.version.split()[0],platform.python_implementation(),platform.machine(),"
    "os.path.realpath(getattr(sys,'_base_executable',None) or sys.executable),sys.base_prefix]))"
)


@dataclass(frozen=True)
class Interpreter:
    """A Python that environments can be made from.

    Args:
        path: To start it.
        version: ``3.11.7``.
        implementation: ``CPython``.
        machine: ``x86_64``.
        base: The real file behind ``path``, outside any virtual environment.
    """

    path: Path
    version: str
    implementation: str
    machine: str
    base: Path

    @property
    def minor(self) -> str:
        """As ``3.11``."""
        return minor_of(self.version)


@dataclass(frozen=True)
class Available:
    """Minor versions that uv knows of, newest first.

    Args:
        installed: Found on this machine.
        downloadable: Can be fetched by uv.
    """

    installed: tuple[str, ...]
    downloadable: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """The Python for one build.

    Args:
        request: What uv is asked for: a minor version, a full one or a path.
        minor: ``3.11``; None when the request is a path that has not been looked at.
        installed: Whether it is there already.
    """

    request: str
    minor: str | None
    installed: bool


def minor_of(version: str) -> str:
    """``3.11`` of ``3.11.7`` or ``3.13.0rc1``."""
    return ".".join(version.split(".")[:2])


def available(options: EnvironmentOptions) -> Available:
    """The Pythons that uv finds here and those that it can fetch."""
    from bisect_torch.environments.uv import Uv
    from bisect_torch.environments.uv_said import gist

    arguments = ["python", "list", "--output-format", "json"]
    if options.index.offline:
        arguments += ["--offline", "--only-installed"]
    completed = Uv(options).attempt(arguments)
    try:
        rows = json.loads(completed.stdout)
    except ValueError:
        raise InfrastructureError(
            f"uv python list failed: {gist(completed.stderr)}", hint="`bisect-torch doctor` looks at uv"
        ) from None
    stable = [
        row
        for row in rows
        if row["implementation"] == "cpython"
        and row.get("variant", "default") == "default"
        and row["version"].replace(".", "").isdigit()
    ]
    return Available(
        installed=_newest_first(row["version"] for row in stable if row["path"]),
        downloadable=_newest_first(row["version"] for row in stable if not row["path"]),
    )


def choose(builds: Sequence[Build], options: EnvironmentOptions) -> dict[str, Choice]:
    """The Python for each build, by the build's name; local builds bring their own and are left out.

    A build that names its own Python has that. A Python that is named is taken for all others. Else the one that runs
    this tool when it fits every build; else the newest one installed here that does; else one that uv can fetch; else
    each build gets the best that fits it alone. A build that no known Python fits is left out, too.

    Raises:
        UsageError: What was named is no version and no interpreter.
    """
    own_ones = {
        build.name: Choice(build.own_python, minor_of(build.own_python), _is_installed(build.own_python, options))
        for build in builds
        if build.own_python is not None
    }
    return {**_shared(builds, options), **own_ones} if len(own_ones) < len(builds) else own_ones


def _shared(builds: Sequence[Build], options: EnvironmentOptions) -> dict[str, Choice]:
    """The Python for each build that has none of its own."""
    installable = [build for build in builds if build.kind is not BuildKind.LOCAL and build.own_python is None]
    if options.python is not None:
        choice = Choice(options.python, named_minor(options.python), _is_installed(options.python, options))
        return dict.fromkeys((build.name for build in installable), choice)
    limits = [set(build.pythons) for build in installable if build.pythons]
    common = set.intersection(*limits) if limits else None
    own = own_interpreter()
    if own is not None and (common is None or own.minor in common):
        # Nothing else need be looked for: listing all Pythons of a machine takes seconds on some.
        return dict.fromkeys((build.name for build in installable), Choice(own.minor, own.minor, True))
    known = available(options)
    shared = _best(common, known)
    if shared is not None:
        return dict.fromkeys((build.name for build in installable), shared)
    chosen: dict[str, Choice] = {}
    for build in installable:
        best = _best(set(build.pythons) or None, known)
        if best is not None:
            chosen[build.name] = best
    return chosen


def resolve(request: str, options: EnvironmentOptions, *, cancel: threading.Event | None = None) -> Interpreter:
    """The interpreter for a request, fetched by uv where it has to be and can be.

    What could not be fetched once is not tried again by this process.

    Raises:
        UsageError: There is none and it cannot be fetched.
        Interrupted: ``cancel`` was set while it was fetched.
    """
    with _known_lock:
        if (request, os.environ.get("PATH")) in _known:
            return _known[request, os.environ.get("PATH")]
    if _is_own(request):
        own = own_interpreter()
        assert own is not None
        return own
    path = Path(request) if os.sep in request else _find(request, options, cancel)
    found = inspect(path)
    if found is None:
        raise UsageError(
            f"{path} is not a Python interpreter that can be started",
            hint="name a version such as 3.12, or the path of a python program",
        )
    with _known_lock:
        _known[request, os.environ.get("PATH")] = found
    return found


_known: dict[tuple[str, str | None], Interpreter] = {}
_known_lock = threading.Lock()

_not_to_be_had: dict[tuple[str, Path], tuple[str, str]] = {}
"""Message and hint of a Python that could not be fetched: uv has tried several times, and each further build would wait
as long for nothing."""
_fetching = threading.Lock()


def inspect(path: Path) -> Interpreter | None:
    """Ask an interpreter what it is; None when it cannot be started."""
    from bisect_torch.child_processes import run_process

    try:
        completed = run_process([path, "-I", "-S", "-c", _ASK], env=without_secrets(os.environ), timeout_s=30)
        version, implementation, machine, base, _ = json.loads(completed.stdout)
    except (OSError, ValueError):
        return None
    return Interpreter(path, version, implementation, machine, Path(base))


def _find(request: str, options: EnvironmentOptions, cancel: threading.Event | None) -> Path:
    from bisect_torch.environments.uv import Uv

    uv = Uv(options, cancel)
    asked = (request, options.store.root)
    with _fetching:  # one after the other: those who wait for the same Python find it, or why it cannot be had
        there = _look_up(request, uv)
        if there is None and asked not in _not_to_be_had:
            why = _not_fetched(request, uv)
            there = _look_up(request, uv)
            if there is None:
                present = ", ".join(available(options).installed) or "none"
                _not_to_be_had[asked] = (
                    f"Python {request} is not installed and could not be fetched: {why}",
                    f"installed here: {present}; choose one with --python, or name an interpreter's path",
                )
        if there is None:
            message, hint = _not_to_be_had[asked]
            raise UsageError(message, hint=hint)
        return there


def _not_fetched(request: str, uv: Uv) -> str:
    """Let uv fetch a Python; what it said, or why it was not asked to."""
    from bisect_torch.environments.uv_said import gist

    offline = uv.options.index.offline
    if offline or os.environ.get("UV_PYTHON_DOWNLOADS", "").lower() in ("never", "manual"):
        return "fetching one is not allowed here"
    said = uv.attempt(["python", "install", "--no-bin", request]).stderr
    if uv.cancel is not None and uv.cancel.is_set():
        raise Interrupted(f"interrupted while fetching Python {request}")
    return gist(said, limit=200)


def _look_up(request: str, uv: Uv) -> Path | None:
    found = uv.attempt(["python", "find", "--system", "--no-project", "--no-python-downloads", request])
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def named_minor(request: str) -> str:
    """The minor version behind ``--python``.

    Raises:
        UsageError: It is no version and no interpreter.
    """
    if os.sep in request:
        interpreter = inspect(Path(request))
        if interpreter is None:
            raise UsageError(
                f"--python {request}: not a Python interpreter that can be started",
                hint="name a version such as 3.12, or the path of a python program",
            )
        return interpreter.minor
    if not re.fullmatch(r"3\.\d+(\.\d+)?", request):
        raise UsageError(
            f"--python {request}: not a version such as 3.12, and not the path of an interpreter", hint="--python 3.12"
        )
    return minor_of(request)


def _is_installed(request: str, options: EnvironmentOptions) -> bool:
    if os.sep in request or _is_own(request):
        return True
    from bisect_torch.environments.uv import Uv

    return _look_up(request, Uv(options)) is not None


@functools.cache
def own_interpreter() -> Interpreter | None:
    """The Python behind the one that runs this tool; None when no torch wheel is made for its kind."""
    base = Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    if sys.implementation.name != "cpython" or free_threaded or not base.is_file():
        return None
    return Interpreter(base, platform.python_version(), platform.python_implementation(), platform.machine(), base)


def _is_own(request: str) -> bool:
    own = own_interpreter()
    return own is not None and request in (own.minor, own.version)


def check_fit(build: Build, minor: str | None) -> None:
    """Whether a wheel of the build fits a Python.

    Raises:
        NotInstallable: It is known that none does.
    """
    if minor is not None and build.pythons and minor not in build.pythons:
        raise NotInstallable(
            f"torch {build.version} has no wheel for Python {minor} on this platform"
            f" (it has: {', '.join(build.pythons)})"
        )


def _best(fitting: set[str] | None, known: Available) -> Choice | None:
    for minors, installed in ((known.installed, True), (known.downloadable, False)):
        fit = [minor for minor in minors if fitting is None or minor in fitting]
        if fit:
            return Choice(fit[0], fit[0], installed)
    return None


def _newest_first(versions: object) -> tuple[str, ...]:
    minors = {minor_of(str(version)) for version in versions}  # type: ignore[attr-defined]
    return tuple(sorted(minors, key=lambda minor: tuple(map(int, minor.split("."))), reverse=True))

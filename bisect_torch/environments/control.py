"""Running the control cases of an environment (:mod:`bisect_torch.worker.control`) and reading their answers."""

from __future__ import annotations

import json
import os
import platform
import sys
import threading
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from bisect_torch import temporary
from bisect_torch.child_processes import Completed, run_process
from bisect_torch.environments.failures import EnvironmentBroken
from bisect_torch.environments.options import DEFAULT_BACKEND
from bisect_torch.environments.variables import clean_environment_variables
from bisect_torch.errors import InfrastructureError, Interrupted
from bisect_torch.model import Build, Environment

PROGRAM = Path(__file__).resolve().parent.parent / "worker" / "control.py"

BASE_LIMIT_S = 300.0
"""Generous: the first import on a slow disk reads some GB; a hang is what it must catch."""

CAPABILITY_LIMIT_S = 600.0

LOCAL = "local"


def base(python: Path, *, local: bool = False, cancel: threading.Event | None = None) -> dict[str, Any]:
    """Run the base control case; the facts that it found.

    For an environment of ours the interpreter's own import writes the bytecode that later imports need. A local
    interpreter is not ours: nothing is written into it, and its user's own site-packages stay visible.

    Raises:
        EnvironmentBroken: It failed, crashed or hung.
        Interrupted: ``cancel`` was set.
    """
    return _run(python, "base", local=local, limit_s=BASE_LIMIT_S, cancel=cancel)


def capability(environment: Environment, name: str) -> str | None:
    """Whether ``compile``, ``cuda``, ``mps`` or ``xpu`` works in an environment: None, or the reason why not.

    The answer is kept for the life of this process, in no file: a compiler or a driver may come and go.
    """
    key = (str(environment.python), name, os.environ.get("PATH", ""), os.environ.get("CXX", ""))
    with _lock:
        once = _locks.setdefault(key, threading.Lock())
    with once:
        if key not in _answers:
            _answers[key] = _capability(environment, name)
        return _answers[key]


_lock = threading.Lock()
_locks: dict[tuple[str, ...], threading.Lock] = {}
_answers: dict[tuple[str, ...], str | None] = {}


def _capability(environment: Environment, name: str) -> str | None:
    local = environment.backend == LOCAL
    try:
        # What the compiler leaves there goes with it.
        with temporary.folder() as folder:
            _run(environment.python, name, local=local, limit_s=CAPABILITY_LIMIT_S, cancel=None, folder=folder)
    except EnvironmentBroken as broken:
        return broken.reason
    return None


def check_identity(build: Build, answer: dict[str, Any]) -> None:
    """Whether the torch that was imported is the one that was asked for.

    Raises:
        EnvironmentBroken: Another version or commit is inside.
    """
    imported = str(answer["torch"])
    if _public(imported) != _public(build.version):
        raise EnvironmentBroken(f"wrong version inside: asked for torch {build.version}, imported {imported}")
    commit = answer.get("git_commit")
    if build.git_commit and commit and not _same_commit(build.git_commit, str(commit)):
        raise EnvironmentBroken(
            f"wrong commit inside: torch {build.version} was built from {build.git_commit[:12]}, imported {commit[:12]}"
        )


def check_backend(backend: str, answer: dict[str, Any]) -> str:
    """Whether the torch that was imported is of the backend that was asked for; the backend that it is of.

    Raises:
        EnvironmentBroken: It is another one: the index fell back to what it had.
    """
    found = str(answer["torch"]).partition("+")[2]
    if backend == DEFAULT_BACKEND:
        return backend
    # Wheels for macOS and old ones for aarch64 have no local part, and just one backend.
    marked = bool(found) or (sys.platform == "linux" and platform.machine() == "x86_64")
    if marked and found != backend:
        raise EnvironmentBroken(f"wrong backend inside: asked for {backend}, imported torch {answer['torch']}")
    return backend


def _same_commit(one: str, other: str) -> bool:
    length = min(len(one), len(other))
    return one[:length].lower() == other[:length].lower()


def _public(version: str) -> str:
    try:
        return Version(version).public
    except InvalidVersion:
        return version.partition("+")[0]


def _run(
    python: Path,
    name: str,
    *,
    local: bool,
    limit_s: float,
    cancel: threading.Event | None,
    folder: Path | None = None,
) -> dict[str, Any]:
    flags = ["-B"] if local else ["-I"]
    variables = clean_environment_variables(python, user_site=local, write_bytecode=not local)
    if folder is not None:
        variables["TMPDIR"] = str(folder)
    try:
        completed = run_process(
            [python, *flags, PROGRAM, name],
            env=variables,
            cwd=Path(os.sep),
            timeout_s=limit_s,
            cancel=cancel,
        )
    except OSError as error:
        raise EnvironmentBroken(f"its interpreter cannot be started: {error.strerror or error}") from error
    if cancel is not None and cancel.is_set():
        raise Interrupted("interrupted while checking an environment")
    if completed.timed_out:
        raise EnvironmentBroken(f"the {name} control case did not end within {limit_s:.0f} s")
    answer = _answer(completed)
    if completed.returncode == 0 and answer is not None:
        if answer["ok"]:
            return answer
        raise EnvironmentBroken(str(answer["reason"]))
    if "os error 28" in completed.stderr or "No space left on device" in completed.stderr:
        raise InfrastructureError(
            "the disk is full", hint="`bisect-torch envs prune --unused 30` makes room, --store names another folder"
        )
    raise EnvironmentBroken(_how_it_ended(completed, name))


def _answer(completed: Completed) -> dict[str, Any] | None:
    for line in reversed(completed.stdout.splitlines()):
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if isinstance(answer, dict) and "control" in answer:
            return answer
    return None


def _how_it_ended(completed: Completed, name: str) -> str:
    status = completed.returncode
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status} and no answer"
    said = [line.strip() for line in completed.stderr.splitlines() if line.strip()]
    return f"the {name} control case {how}" + (f": {said[-1][:200]}" if said else "")

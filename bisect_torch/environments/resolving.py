"""Locks that are made on the fly: what they depend on, and the resolution by uv."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bisect_torch import own_digest
from bisect_torch.child_processes import Completed
from bisect_torch.environments.companions import COMPANIONS, check_sources
from bisect_torch.environments.failures import NotInstallable, TransientFailure
from bisect_torch.environments.lock_text import statements
from bisect_torch.environments.options import EnvironmentOptions
from bisect_torch.environments.projects import build_digest
from bisect_torch.environments.pythons import Interpreter
from bisect_torch.environments.requirements import extra_requirement
from bisect_torch.environments.store import remove_tree
from bisect_torch.environments.uv import Uv
from bisect_torch.environments.uv_said import classify
from bisect_torch.errors import InfrastructureError, Interrupted
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.index import effective_options
from bisect_torch.releases.locks import DAYS_AFTER_RELEASE, LOCKED_TOGETHER, parse_lock

_UNDATED = re.compile(r"`?([A-Za-z0-9_.]+?)-\d[^`\s]*`? is missing an upload date")

LONGEST_LOCK_S = 1800.0
"""For one resolution: some megabytes of pages, and of metadata where an index has them only inside of wheels. It takes
seconds, and minutes where something must be built to be asked; an answer that comes byte by byte is given up here."""

_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")


@dataclass(frozen=True)
class LockRequest:
    """What a lock made on the fly depends on."""

    build: Build
    python: Path
    requirements: tuple[str, ...]
    constraints: tuple[str, ...]
    arguments: tuple[str, ...]
    newest: datetime.date | None
    newest_torch: datetime.date | None
    undated: tuple[str, ...]
    asked: tuple[str, ...]
    digest: str

    @classmethod
    def of(cls, build: Build, interpreter: Interpreter, options: EnvironmentOptions) -> LockRequest:
        """What is to be locked for a build."""
        extras = [extra_requirement(text) for text in options.extras]
        named = {canonicalize_name(extra.name) for extra in extras}
        requirements = [f"torch=={build.version}", *(name for name in LOCKED_TOGETHER if name not in named)]
        requirements += [str(extra) for extra in extras]
        requirements += [f"-e {path}" for path in options.editable]
        newest = _newest(build, options)
        # A version that the user fixed is meant whatever its day.
        fixed = tuple(sorted(canonicalize_name(extra.name) for extra in extras if _is_fixed(extra)))
        uv = Uv(options)
        # PyTorch's own indexes give no upload times at all, and what they have is what is meant.
        free = tuple(sorted({*fixed, "torch", *COMPANIONS})) if uv.own_index(build) else fixed
        arguments = uv.source_arguments(build)
        if build.kind is BuildKind.NIGHTLY:
            # Of these alone: a pre-release of numpy or pandas is not what anybody asks for with a nightly torch.
            for name in sorted(COMPANIONS):
                arguments += ["--prerelease-package", f"{name}=allow"]
        key = [
            requirements,
            [word for word in arguments if word != "--offline"],
            str(newest),
            fixed,
            interpreter.version,
            interpreter.implementation,
            interpreter.machine,
            os.uname().sysname,
            [os.environ.get(name) for name in _INDEX_VARIABLES],
            *([sorted(build.wheels)] if build.kind is BuildKind.CANDIDATE else []),
            [build_digest(path) for path in options.editable],
        ]
        constraints = build.variant.constraints if build.variant is not None else ()
        newest_torch = _newest_torch(build, newest)
        if constraints:  # only then, so that the locks that are there keep their names
            key += [constraints, str(newest_torch)]
        elif newest is None and build.day is not None:
            key.append(datetime.date.today().isoformat())  # the newest ones are others tomorrow
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        asked = tuple(sorted(named - set(fixed)))
        parts = tuple(requirements), constraints, tuple(arguments)
        return cls(build, interpreter.path, *parts, newest, newest_torch, free, asked, digest)

    def kept_in(self, options: EnvironmentOptions) -> Path:
        """Where the store has the lock, once it was made."""
        return options.store.locks / f"{_slug(self.build.version)}-{self.digest[:16]}.lock"


def _newest(build: Build, options: EnvironmentOptions) -> datetime.date | None:
    if build.variant is not None:
        return build.variant.newest
    if options.locks == "today" or build.day is None:
        return None
    return build.day + datetime.timedelta(days=DAYS_AFTER_RELEASE)


def _newest_torch(build: Build, newest: datetime.date | None) -> datetime.date | None:
    """The day up to which files of torch itself are taken, where other packages may be newer than the build.

    A release may get further files later: 2.10.0 has wheels with a build number that were added after weeks. With other
    dependencies it is to be the same torch as without them.
    """
    if build.day is None:
        return None
    own = build.day + datetime.timedelta(days=DAYS_AFTER_RELEASE)
    return own if newest is None or newest > own else None


def _is_fixed(requirement: Requirement) -> bool:
    return requirement.url is not None or any(part.operator in ("==", "===") for part in requirement.specifier)


def make(request: LockRequest, target: Path, options: EnvironmentOptions, cancel: threading.Event | None) -> None:
    """Resolve, and write the lock whole or not at all.

    Files without an upload time are invisible under ``--exclude-newer``: the packages that uv names are then freed
    from it, which leaves them to what torch itself asks for.
    """
    folder = options.store.new_tmp(f"lock-{target.stem}")
    folder.mkdir()
    try:
        made = _resolve(request, folder, Uv(options, cancel))
        text = made.read_text(encoding="utf-8")
        pins = parse_lock("\n".join(line for line in statements(text) if not line.startswith("-")))
        own_index = Uv(options).own_index(request.build)
        check_sources(request.build, own_index, pins, request.asked, options.store.index_cache)
        made.write_bytes(own_digest.filled(f"{text}# {own_digest.BLANK}\n".encode()))
        os.replace(made, target)
    finally:
        remove_tree(folder)


def _resolve(request: LockRequest, folder: Path, uv: Uv) -> Path:
    """The lock as uv wrote it into ``folder``."""
    doing = f"locking torch {request.build.version}"
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in request.requirements), encoding="utf-8")
    if request.constraints:
        (folder / "fixed.txt").write_text("".join(f"{line}\n" for line in request.constraints), encoding="utf-8")
    made = folder / "out.txt"
    undated = set(request.undated)
    transient = 0
    while True:
        completed = uv.attempt(_compile(request, folder / "in.txt", made, undated), limit_s=LONGEST_LOCK_S)
        found = {canonicalize_name(name) for name in _UNDATED.findall(completed.stderr)} - undated
        # PyTorch's own indexes also have old copies of others' packages: the dated ones elsewhere are seen, and do.
        enough = uv.own_index(request.build) is not None and completed.returncode == 0
        limited = request.newest is not None or request.newest_torch is not None
        if limited and found and not enough:
            undated |= found
            continue
        if completed.returncode == 0:
            break
        error = _failed(completed, doing, uv.cancel)
        if isinstance(error, NotInstallable) and f"no version of torch=={request.build.version}" in error.reason:
            # It was there when builds were chosen: what fails is the index, a moment later.
            offline = effective_options(uv.options.index).offline
            why = "offline, and the index did not show it last" if offline else "the index does not show it now"
            raise InfrastructureError(f"{doing}: {why}", detail=error.detail)
        if isinstance(error, NotInstallable) and effective_options(uv.options.index).offline:
            # What uv does not find among the pages that it has kept may well be on the index, which it did not ask.
            what = error.reason.removesuffix(" is not in the package index")
            if what != error.reason:
                raise InfrastructureError(
                    f"{doing}: offline, and {what} is not in the store's cache", detail=error.detail
                )
        if not isinstance(error, TransientFailure) or transient == 2:
            raise error
        transient += 1
    return made


def _failed(completed: Completed, doing: str, cancel: threading.Event | None) -> Exception:
    if cancel is not None and cancel.is_set():
        return Interrupted(f"interrupted while {doing}")
    return classify(completed, doing)


def _compile(request: LockRequest, source: Path, target: Path, undated: Iterable[str]) -> list[str]:
    arguments = ["pip", "compile", str(source), "--output-file", str(target), "--python", str(request.python)]
    # Not --quiet: the warnings name the files without an upload time.
    arguments += ["--generate-hashes", "--no-annotate", "--no-header", *request.arguments]
    if request.constraints:
        # Not --override: what torch itself requires is not set aside, so that no hybrid fails for being impossible.
        arguments += ["--constraint", str(source.with_name("fixed.txt"))]
    if request.newest is not None:
        arguments += ["--exclude-newer", f"{request.newest.isoformat()}T00:00:00Z"]
    if request.newest_torch is not None and "torch" not in undated:
        arguments += ["--exclude-newer-package", f"torch={request.newest_torch.isoformat()}T00:00:00Z"]
    if request.newest is not None or request.newest_torch is not None:
        for name in sorted(undated):
            arguments += ["--exclude-newer-package", f"{name}=false"]
    return arguments


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text)

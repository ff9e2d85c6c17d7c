"""The lock of a build: every package and version that its environment gets, with hashes.

The committed lock is used when it covers what is asked for. Else one is made on the fly with the packages of the
build's day, in one resolution with everything asked for, and kept in the store.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from pathlib import Path

from bisect_torch import own_digest
from bisect_torch.environments.failures import NotInstallable, left_the_index
from bisect_torch.environments.lock_text import digest_of, statements
from bisect_torch.environments.options import DEFAULT_BACKEND, EnvironmentOptions
from bisect_torch.environments.pythons import Interpreter
from bisect_torch.errors import InfrastructureError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.locks import Pin, parse_lock


@dataclass(frozen=True)
class Lock:
    """What an environment is installed from.

    Args:
        path: The file of requirements with hashes.
        hash: SHA-256 (hex) of its requirements without comments and order, and of the editable projects' folders and
            build files.
        requirements: Its lines, without comments and options.
        committed: Whether it is one of those that ship with the tool.
    """

    path: Path
    hash: str
    requirements: tuple[str, ...]
    committed: bool

    @functools.cached_property
    def pins(self) -> tuple[Pin, ...]:
        """Its packages. Read when they are asked for: who finds the environment there needs none.

        Raises:
            InfrastructureError: A line is no exact version.
        """
        return parse_lock("\n".join(self.requirements))


def lock_for(
    build: Build, interpreter: Interpreter, options: EnvironmentOptions, *, cancel: threading.Event | None = None
) -> Lock:
    """The lock of a build for a Python.

    Raises:
        NotInstallable: No set of versions fits.
        UsageError: An extra requirement cannot be read.
        InfrastructureError: The index cannot be used.
    """
    known = known_lock(build, interpreter, options)
    if known is not None:
        return known
    from bisect_torch.environments.resolving import LockRequest, make

    request = LockRequest.of(build, interpreter, options)
    target = request.kept_in(options)
    with options.store.guard(f"lock-{target.stem}", cancel=cancel):
        if not _is_kept(target):
            make(request, target, options, cancel)
    return _read(target, options, committed=False)


def known_lock(build: Build, interpreter: Interpreter, options: EnvironmentOptions) -> Lock | None:
    """The lock of a build for a Python where there is one already; nothing is asked and nothing is made.

    Raises:
        NotInstallable: There is none, and none can be made: the build has left its index.
        UsageError: An extra requirement cannot be read.
    """
    path = committed_lock(build, options)
    if path is not None:
        return _read(path, options, committed=True)
    from bisect_torch.environments.resolving import LockRequest

    target = LockRequest.of(build, interpreter, options).kept_in(options)
    if _is_kept(target):
        return _read(target, options, committed=False)
    if build.gone:
        raise left_the_index(build)
    return None


def _is_kept(path: Path) -> bool:
    """Whether a lock is there and undamaged. A damaged one, or half of one, is another set of versions: made anew."""
    try:
        content = path.read_bytes()
        return own_digest.fits(content, own_digest.last_mark(content)) is True
    except FileNotFoundError:
        return False


def committed_lock(build: Build, options: EnvironmentOptions) -> Path | None:
    """The lock that ships with the tool, when it covers what is asked for.

    It holds the hashes of the default index; ``build.lock`` is only there when what is offered has these hashes.
    """
    if build.only_lock:
        return build.lock
    covers = (
        build.kind is BuildKind.RELEASE
        and build.variant is None
        and options.backend == DEFAULT_BACKEND
        and options.locks == "release"
        and not options.extras
        and not options.editable
    )
    return build.lock if covers else None


# --- reading


def _read(path: Path, options: EnvironmentOptions, *, committed: bool) -> Lock:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InfrastructureError(f"the lock {path} is damaged", hint="remove it; it is then made anew") from None
    found = statements(text)
    lines = sorted(found) + _editable_lines(options)
    lock = Lock(path, digest_of(lines), tuple(line for line in found if not line.startswith("-")), committed)
    if not any(line.startswith("torch==") for line in lock.requirements):
        raise NotInstallable(f"the lock {path.name} does not hold torch")
    return lock


def _editable_lines(options: EnvironmentOptions) -> list[str]:
    """A line for each editable project: its folder, and what its build files hold."""
    if not options.editable:
        return []
    from bisect_torch.environments.projects import build_digest

    return sorted(f"editable {each} {build_digest(each)}" for each in options.editable)


def hashed_part(lock: Lock) -> str:
    """The text of the lock without editable lines: what ``--require-hashes`` can be asked for."""
    return (
        "\n".join(line for line in statements(lock.path.read_text(encoding="utf-8")) if not line.startswith("-")) + "\n"
    )

"""Which environment a build must have, and whether it is there."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from bisect_torch.environments import pythons, stamp
from bisect_torch.environments.locking import Lock, known_lock, lock_for
from bisect_torch.environments.options import EnvironmentOptions
from bisect_torch.environments.pythons import Interpreter
from bisect_torch.model import Build, Environment


@dataclass(frozen=True)
class Wanted:
    """One environment as it must be: what it is made from and where it goes.

    Args:
        name: Of its folder and of its guard.
    """

    build: Build
    interpreter: Interpreter
    lock: Lock
    options: EnvironmentOptions
    name: str

    @property
    def root(self) -> Path:
        """Where it lies once it is finished."""
        return self.options.store.envs / self.name


def wanted(build: Build, options: EnvironmentOptions, request: str, *, cancel: threading.Event | None = None) -> Wanted:
    """Find the Python and the lock of a build; its environment's name follows from both.

    Raises:
        NotInstallable: No wheel for this Python, or no set of versions that fits.
        UsageError: The Python is not there and cannot be fetched.
        InfrastructureError: The index cannot be used.
    """
    interpreter = pythons.resolve(request, options, cancel=cancel)
    pythons.check_fit(build, interpreter.minor)
    return _wanted(build, options, interpreter, lock_for(build, interpreter, options, cancel=cancel))


def wanted_if_locked(build: Build, options: EnvironmentOptions, request: str) -> Wanted | None:
    """The same where the lock is there already; None where it would have to be made.

    Raises:
        NotInstallable: No wheel for this Python, or a build that has left its index.
        UsageError: The Python is not there and cannot be fetched.
    """
    interpreter = pythons.resolve(request, options)
    pythons.check_fit(build, interpreter.minor)
    lock = known_lock(build, interpreter, options)
    return None if lock is None else _wanted(build, options, interpreter, lock)


def _wanted(build: Build, options: EnvironmentOptions, interpreter: Interpreter, lock: Lock) -> Wanted:
    backend = options.backend_of(build)
    key = "\n".join([build.version, interpreter.version, str(interpreter.base), backend, lock.hash])
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    return Wanted(build, interpreter, lock, options, f"{_stem(build, interpreter.minor, options)}-{digest}")


def _stem(build: Build, minor: str, options: EnvironmentOptions) -> str:
    """How the name of an environment's folder begins."""
    version = "".join(letter if letter.isalnum() or letter == "." else "-" for letter in build.version)
    return f"{version}-py{minor}-{options.backend_of(build)}"


def is_installed(build: Build, options: EnvironmentOptions, minor: str | None = None) -> bool:
    """Whether there is an environment of a build, whatever else was installed in it.

    Args:
        minor: The minor Python that it must have; None for any.
    """
    return any(
        stamp.read_environment(root) is not None
        for root in options.store.envs.glob(f"{_stem(build, minor or '*', options)}-*")
    )


def stamped(want: Wanted) -> Environment | None:
    """The environment if it is there, as its stamp tells; whether its files are unchanged is seen by :func:`ensure`."""
    found = stamp.read_environment(want.root)
    return None if found is None else replace(found, build=want.build)

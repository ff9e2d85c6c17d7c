"""Builds, and the environments in which they are installed."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class BuildKind(str, enum.Enum):
    """Where a build comes from."""

    RELEASE = "release"
    NIGHTLY = "nightly"
    CANDIDATE = "candidate"  # a release candidate, from PyTorch's index of tests
    LOCAL = "local"


CANDIDATE_SUFFIX = " (test)"
"""Ends the name of a release candidate, whose version is that of the release to come."""


@dataclasses.dataclass(frozen=True)
class Variant:
    """Other dependencies than those of a build's lock: a hybrid, or a build with today's dependencies.

    Args:
        label: What its name has after the version and a ``+``: ``numpy==2.2.2``, ``today``.
        constraints: ``name==version`` of every package that may not have another version; empty for the newest ones.
        newest: Day up to which other packages are taken from the index; None for no limit.
    """

    label: str
    constraints: tuple[str, ...] = ()
    newest: datetime.date | None = None


TODAY = Variant("today")
"""The newest dependencies."""


def is_variant_name(name: str) -> bool:
    """Whether a build's name is that of a variant: ``2.7.0+numpy==2.2.2``, ``2.7.0+today``.

    The names of other builds have no local part, and of interpreters they are paths.
    """
    return "+" in name and "/" not in name


@dataclasses.dataclass(frozen=True)
class Build:
    """One torch that can be installed or pointed at.

    Args:
        kind: Release, nightly, release candidate or a local interpreter.
        version: Public version as pip shows it, without the local part: ``2.9.1``.
        name: How the user names it and how its column is headed: ``2.9.1``, or the path of the interpreter.
        day: Day on which it was published, where known.
        git_commit: Full hash of the commit that it was built from, where known.
        pythons: Minor Python versions (``3.11``) for which a wheel fits this platform; empty when not known.
        download_bytes: Size of the torch wheel for the chosen Python, where known.
        python: The interpreter, for a local build only.
        yanked: Every file of it was withdrawn from the index: it takes part only when named.
        lock: The committed lock whose hashes are those of the index's files; None when it must be locked on the fly.
        only_lock: ``lock`` is what its environment is made from, whatever the run's options say.
        variant: Other dependencies than those of its lock. Its name is then ``version+label``.
        own_python: The minor Python that its environment has, whatever the others have; None leaves it to the run.
        index: Which of PyTorch's own indexes has it, as a path below their base address: ``nightly/cpu``; None for the
            index of the run.
        wheels: SHA-256 of the files that are this build, for a name whose files an index may replace; empty for any.
        gone: It has left its index: only an environment that exists already can run it.
    """

    kind: BuildKind
    version: str
    name: str
    day: datetime.date | None = None
    git_commit: str | None = None
    pythons: tuple[str, ...] = ()
    download_bytes: int | None = None
    python: Path | None = None
    yanked: bool = False
    lock: Path | None = None
    index: str | None = None
    wheels: tuple[str, ...] = ()
    gone: bool = False
    only_lock: bool = False
    variant: Variant | None = None
    own_python: str | None = None

    def with_variant(self, variant: Variant) -> Build:
        """The same torch with other dependencies."""
        return dataclasses.replace(self, name=f"{self.version}+{variant.label}", variant=variant)


@dataclasses.dataclass(frozen=True)
class Environment:
    """One build, locked with its dependencies, installed in its own virtual environment and checked.

    Args:
        build: What was asked for.
        root: The virtual environment's folder; for a local interpreter, its ``sys.prefix``.
        python: The interpreter to start.
        python_version: ``3.11.7``.
        lock_hash: SHA-256 (hex) of the lock; for a local interpreter, of the sorted list of its packages.
        packages: Name to version of everything that is installed.
        torch_version: ``torch.__version__`` as imported, with the local part: ``2.9.1+cu128``.
        git_commit: ``torch.version.git_version`` as imported.
        cuda: ``torch.version.cuda``, None for a build without it.
        backend: ``pypi``, ``cpu``, ``cu128``, … ; ``local`` for a local interpreter.
    """

    build: Build
    root: Path
    python: Path
    python_version: str
    lock_hash: str
    packages: Mapping[str, str]
    torch_version: str
    git_commit: str | None
    cuda: str | None
    backend: str

    @property
    def local_version(self) -> str | None:
        """The local part of torch's version: ``cu128``."""
        return self.torch_version.partition("+")[2] or None

    @property
    def identity(self) -> tuple[object, ...]:
        """What is the same for two environments of a build that hold the same, wherever they lie."""
        return self.lock_hash, self.python_version, self.torch_version, self.git_commit, self.backend

    def describe(self) -> dict[str, object]:
        """What a results file keeps of it: everything but where it lies."""
        return {
            "build": self.build.name,
            "kind": self.build.kind.value,
            "version": self.build.version,
            "day": self.build.day.isoformat() if self.build.day else None,
            "python": self.python_version,
            "lock_hash": self.lock_hash,
            "packages": dict(self.packages),
            "torch_version": self.torch_version,
            "git_commit": self.git_commit,
            "cuda": self.cuda,
            "backend": self.backend,
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any], build: Build | None = None) -> Environment:
        """The environment that :meth:`describe` described; its folders are not known."""
        day = description["day"]
        return cls(
            build=build
            or Build(
                kind=BuildKind(description["kind"]),
                version=description["version"],
                name=description["build"],
                day=datetime.date.fromisoformat(day) if day else None,
                git_commit=description["git_commit"],
            ),
            root=Path(),
            python=Path(),
            python_version=description["python"],
            lock_hash=description["lock_hash"],
            packages=description["packages"],
            torch_version=description["torch_version"],
            git_commit=description["git_commit"],
            cuda=description["cuda"],
            backend=description["backend"],
        )


@dataclasses.dataclass(frozen=True)
class BuildProgress:
    """A step of making one environment.

    Args:
        phase: ``waiting``, ``locking``, ``downloading``, ``installing``, ``checking``, ``ready``, ``failed``.
        done_bytes: Downloaded or linked so far, where known.
        total_bytes: Expected in all, where known.
        message: Detail or, for ``failed``, the reason.
        at: When, by the monotonic clock; two steps that say the same are equal whenever they happened.
    """

    build: Build
    phase: str
    done_bytes: int | None = None
    total_bytes: int | None = None
    message: str = ""
    at: float = dataclasses.field(default_factory=time.monotonic, compare=False, repr=False)

"""A plan of environments: what is there, what has to be made, and what that takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.errors import InfrastructureError
from bisect_torch.model import Build, BuildKind, Environment

if TYPE_CHECKING:
    from bisect_torch.environments.disk import DiskBudget


@dataclass(frozen=True)
class PlannedEnvironment:
    """One build's part of the plan.

    Args:
        python: Minor version it will have; None for a local interpreter and where no Python fits.
        request: What to give :func:`ensure` as ``python``.
        present: The environment, when it is there. Whether its files are unchanged is seen when it is used.
        reason: Why it cannot be installed; empty when it can.
        lock_hash: Of the lock that it is or will be made from, where that is known already.
        lock: That lock.
        offline: Why it cannot be made while no server may be asked; empty when it can.
        trouble: What went wrong on our side while looking; :func:`ensure` tries again.
        open: Nobody has looked for its lock beyond what is there: see :func:`completed`.
    """

    build: Build
    python: str | None
    request: str | None
    present: Environment | None = None
    reason: str = ""
    lock_hash: str | None = None
    lock: Path | None = None
    trouble: InfrastructureError | None = None
    open: bool = False
    offline: str = ""

    @property
    def impossible(self) -> str:
        """Why there is no environment and will be none, in words; empty where there is one or it can be made."""
        return self.reason or self.offline

    @property
    def is_missing(self) -> bool:
        """Whether it has to be made."""
        return self.present is None and not self.impossible and self.build.kind is not BuildKind.LOCAL


@dataclass(frozen=True)
class EnvironmentPlan:
    """What a run needs.

    Args:
        environments: In the order of the builds.
        download_bytes: Of all wheels that are not in the store's cache, each counted once.
        disk_bytes: What the store will grow by.
        unknown: Packages whose size no index states; not counted.
        unsized: Names of builds of which nobody knows yet what is installed with them; not counted.
        free_bytes: On the store's file system.
        minutes: Expected, on the stated ``basis``.
        counted: Environments that bytes and minutes are of.
        hints: What the user may want to do about it.
        notes: What the user should know: several Pythons, a Python that has to be fetched.
        budget: Of a run whose environments do not fit the disk all at once; ``download_bytes`` then counts what is
            downloaded once for each group, ``disk_bytes`` is the largest group's.
        elsewhere: They are made on other machines, in stores of which nothing is known here.
    """

    environments: tuple[PlannedEnvironment, ...]
    download_bytes: int
    disk_bytes: int
    unknown: tuple[str, ...]
    free_bytes: int
    minutes: float
    basis: str
    counted: int = 0
    hints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    budget: DiskBudget | None = None
    elsewhere: bool = False
    unsized: tuple[str, ...] = ()

    @property
    def sized(self) -> bool:
        """Whether sizes are known, if only some: else ``download_bytes`` is 0 because nothing could be counted."""
        return self.download_bytes > 0 or not (self.unknown or self.unsized)

    @property
    def missing(self) -> tuple[PlannedEnvironment, ...]:
        """Those that have to be made."""
        return tuple(one for one in self.environments if one.is_missing)

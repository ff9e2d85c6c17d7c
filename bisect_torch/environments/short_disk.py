"""Whether all environments of a run fit the disk, and in which groups they do where they do not."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.environments.disk import SAFETY, DiskBudget, gb
from bisect_torch.environments.failures import InUse
from bisect_torch.environments.install import list_environments, remove
from bisect_torch.environments.options import EnvironmentOptions
from bisect_torch.environments.store import Store, bytes_below
from bisect_torch.environments.uses import is_passing, unused
from bisect_torch.errors import InfrastructureError
from bisect_torch.model import Environment
from bisect_torch.releases.sizes import LockedWheel, lock_size

RESERVE_BYTES = 1_000_000_000
"""Kept free beside the environments: results, temporary files of cases, and what others write meanwhile."""


def disk_budget(
    wheels: Mapping[str, Sequence[LockedWheel]], to_make: Sequence[str], disk_bytes: int, options: EnvironmentOptions
) -> DiskBudget | None:
    """The budget of a run that cannot have all its environments at once; None where it can.

    Args:
        wheels: Build name, in release order, to the wheels that its environment is made from; none where it is there
            and stays.
        to_make: Names of the builds that have no environment yet.
        disk_bytes: What the store will grow by if all are made.

    Raises:
        InfrastructureError: Not even one of them fits.
    """
    if not to_make:
        return None
    free, limit = options.store.free_bytes() - RESERVE_BYTES, options.max_disk_bytes
    if limit is None and SAFETY * disk_bytes <= free:
        return None  # without looking at every file of the store, which takes seconds
    taken = _taken(options.store)
    lying, staying = taken.bytes, taken.staying_bytes
    room, reason = free + lying - staying, f"{gb(max(0, free))} of the disk may be used"
    left, limited = free, False
    if limit is not None and limit - staying - RESERVE_BYTES < room:
        limited = True
        room, left = limit - staying - RESERVE_BYTES, min(free, limit - lying - RESERVE_BYTES)
        reason = f"--max-disk {gb(limit)}"
        if staying > RESERVE_BYTES:
            reason += f", of which the store has {gb(staying)} already"
    if SAFETY * disk_bytes <= left:
        return None
    parts = {name: wheel_bytes(some) for name, some in wheels.items()}
    budget = DiskBudget(room, parts, reason)
    if len(budget.too_large(to_make)) == len(to_make):
        least = min(budget.bytes_of([name]) for name in to_make)
        if limit is not None and limited:
            raise _too_low(limit, least, taken, options.store)
        raise InfrastructureError(
            f"the disk is too small: a single environment needs {gb(least)}, and {reason}",
            hint=f"`bisect-torch envs prune --unused 30{options.store.option}` makes room, "
            "--store names another folder",
        )
    return budget


def wheel_bytes(wheels: Iterable[LockedWheel]) -> dict[str, int]:
    """SHA-256 to unpacked bytes, of those whose size is known."""
    return {each.wheel.sha256: lock_size([each]).unpacked_bytes for each in wheels if each.wheel is not None}


@dataclass(frozen=True)
class _Taken:
    """What a store takes.

    Args:
        bytes: All of it.
        staying_bytes: Without the environments that make room when others need it.
        environments: How many environments stay.
        environments_bytes: What these take.
    """

    bytes: int
    staying_bytes: int
    environments: int
    environments_bytes: int


def _too_low(limit: int, least: int, taken: _Taken, store: Store) -> InfrastructureError:
    """The refusal of a ``--max-disk`` that leaves no room for a single environment: what holds it, and what to do."""
    staying, needed = taken.staying_bytes, least + RESERVE_BYTES
    beside = gb(staying - taken.environments_bytes)
    holds = "" if staying <= RESERVE_BYTES else f", and the store has {gb(staying)} already"
    if holds and taken.environments:
        are = "1 environment" if taken.environments == 1 else f"{taken.environments} environments"
        holds += f": {are} with {gb(taken.environments_bytes)}, downloads and the rest with {beside}"
    hint = f"--max-disk {math.ceil((staying + needed) / 1e9)}GB is enough"
    if holds:
        fits = math.floor((limit - needed) / 1e9)
        if fits > 0:
            hint += f"; or `bisect-torch envs prune --max-size {fits}GB{store.option}` removes the longest unused"
        else:
            hint += f"; or `bisect-torch envs prune --unused 30{store.option}` removes what no run used for 30 days"
    return InfrastructureError(
        f"--max-disk {gb(limit)} is too low: a single environment needs {gb(least)}, {gb(RESERVE_BYTES)} beside it is "
        f"kept free{holds}",
        hint=hint,
    )


def _taken(store: Store) -> _Taken:
    passing = {environment.root for environment in list_environments(store) if _makes_room(store, environment)}
    others = [root for root in store.envs.iterdir() if root not in passing]
    environments = _bytes_of(others)
    staying = {**_bytes_of(folder for folder in store.root.iterdir() if folder != store.envs), **environments}
    every = staying | _bytes_of(passing)
    return _Taken(sum(every.values()), sum(staying.values()), len(others), sum(environments.values()))


def _bytes_of(folders: Iterable[Path]) -> dict[tuple[int, int], int]:
    return {inode: size for folder in folders for inode, size in bytes_below(folder).items()}


def _makes_room(store: Store, environment: Environment) -> bool:
    name = environment.root.name
    if not is_passing(store, name):
        return False
    with unused(store, name) as free:
        return free


def remove_passing(store: Store, kept: Container[str]) -> None:
    """Remove what a run on a short disk has left behind, having been killed.

    Args:
        kept: Names of the folders of environments that are still needed.
    """
    for environment in list_environments(store):
        if environment.root.name not in kept and _makes_room(store, environment):
            try:
                remove(environment, store)
            except InUse:  # since a moment ago
                continue

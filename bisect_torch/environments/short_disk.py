"""Whether all environments of a run fit the disk, and in which groups they do where they do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bisect_torch.environments.disk import SAFETY, DiskBudget
from bisect_torch.environments.failures import InUse
from bisect_torch.environments.install import list_environments, remove
from bisect_torch.environments.options import EnvironmentOptions
from bisect_torch.environments.uses import is_passing
from bisect_torch.errors import InfrastructureError
from bisect_torch.model import Environment
from bisect_torch.releases.sizes import LockedWheel, lock_size

RESERVE_BYTES = 1_000_000_000
"""Kept free beside the environments: results, temporary files of cases, and what others write meanwhile."""


def disk_budget(
    wheels: Mapping[str, Sequence[LockedWheel]],
    disk_bytes: int,
    present: Iterable[Environment],
    options: EnvironmentOptions,
) -> DiskBudget | None:
    """The budget of a run that cannot have all its environments at once; None where it can.

    What an earlier run on a short disk has left behind, having been killed, is removed unless this one needs it.

    Args:
        wheels: Build name to the wheels that its environment is made from; none where it is there already.
        disk_bytes: What the store will grow by if all are made.
        present: Environments that are there and that this run will use.

    Raises:
        InfrastructureError: Not even one of them fits.
    """
    if not any(wheels.values()):
        return None
    store, limit = options.store, options.max_disk_bytes
    _remove_left_behind(options, {environment.root.name for environment in present})
    room = store.free_bytes() - RESERVE_BYTES
    reason = f"{_gb(max(0, room))} of the disk may be used"
    if limit is not None:
        used = store.used_bytes()
        if limit - used - RESERVE_BYTES < room:
            room = limit - used - RESERVE_BYTES
            taken = f", of which the store has {_gb(used)} already" if used > RESERVE_BYTES else ""
            reason = f"--max-disk {_gb(limit)}{taken}"
    if SAFETY * disk_bytes <= room:
        return None
    parts = {
        name: {each.wheel.sha256: lock_size([each]).unpacked_bytes for each in some if each.wheel is not None}
        for name, some in wheels.items()
    }
    budget = DiskBudget(room, parts, reason)
    needing = [name for name, some in wheels.items() if some]
    if len(budget.too_large(needing)) == len(needing):
        least = min(budget.bytes_of([name]) for name in needing)
        raise InfrastructureError(
            f"the disk is too small: a single environment needs {_gb(least)}, and {reason}",
            hint="bisect-torch envs prune makes room, --store names another folder",
        )
    return budget


def _remove_left_behind(options: EnvironmentOptions, wanted: set[str]) -> None:
    store = options.store
    for environment in list_environments(store):
        name = environment.root.name
        if name not in wanted and is_passing(store, name):
            try:
                remove(environment, store)
            except InUse:
                continue  # of a run that is going on


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"

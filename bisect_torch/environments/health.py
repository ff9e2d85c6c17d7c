"""The state of a store, read without changing it: no file is made, and no lock is kept."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.environments import stamp
from bisect_torch.environments.store import Store
from bisect_torch.first_names import first_of
from bisect_torch.threads import map_in_threads


@dataclass(frozen=True)
class StoreHealth:
    """What lies in a store. Names are those of folders.

    Args:
        whole: Environments that are as they were stamped.
        damaged: Environments that are not, and how.
        left: What killed runs left half made, and what was put aside; not what a living run is making.
        building: Environments that a run is making at this moment.
        in_use: Environments that a run uses at this moment.
    """

    whole: tuple[str, ...]
    damaged: Mapping[str, str]
    left: tuple[str, ...]
    building: tuple[str, ...]
    in_use: tuple[str, ...]


def store_health(store: Store) -> StoreHealth:
    """Look at every environment, as a run does before it uses one.

    Raises:
        OSError: The store cannot be read.
    """
    building = {path.stem for path in _entries(store.guards) if path.suffix == ".lock" and _is_held(path)}
    roots = [root for root in _entries(store.envs) if root.is_dir() and root.name not in building]
    swept = dict(zip((root.name for root in roots), map_in_threads(_damage, roots, threads=4), strict=True))
    half_made = [path.name for path in _entries(store.tmp) if path.name.rpartition("~")[0] not in building]
    return StoreHealth(
        whole=tuple(name for name, why in swept.items() if not why),
        damaged={name: why for name, why in swept.items() if why},
        left=(*half_made, *(path.name for path in _entries(store.quarantine))),
        building=tuple(sorted(building)),
        in_use=tuple(path.stem for path in _entries(store.uses) if path.suffix == ".use" and _is_held(path)),
    )


def _damage(root: Path) -> str:
    """What is wrong with an environment, in words; empty where nothing is."""
    environment, changes = stamp.sweep(root)
    if environment is not None:
        return ""
    return first_of(changes, 1) if changes else "its stamp is missing or damaged"


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _is_held(path: Path) -> bool:
    """Whether a living process holds the lock of a file: the kernel takes it back from one that has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it has gone meanwhile
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False

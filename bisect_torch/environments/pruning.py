"""Which environments to remove, when a store has grown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bisect_torch.environments.install import list_environments
from bisect_torch.environments.options import EnvironmentOptions
from bisect_torch.environments.store import Store, bytes_below
from bisect_torch.environments.uses import last_used
from bisect_torch.environments.uv import Uv
from bisect_torch.model import Environment

DAY_S = 86400.0


@dataclass(frozen=True)
class Aged:
    """An environment and when it was of use.

    Args:
        made: Seconds since the epoch.
        used: The same, of the last run that used it; of its making where none has.
    """

    environment: Environment
    made: float
    used: float


def aged(store: Store) -> tuple[Aged, ...]:
    """Every environment of a store, the one unused for longest first."""
    found = [Aged(each, each.root.stat().st_mtime, last_used(store, each.root)) for each in list_environments(store)]
    return tuple(sorted(found, key=lambda each: (each.used, each.environment.root.name)))


def to_prune(
    found: Sequence[Aged], *, now: float, unused_days: float | None = None, older_days: float | None = None
) -> tuple[Environment, ...]:
    """Those that no run has used for so long, or that were made so long ago. Pure.

    Args:
        now: Seconds since the epoch.
        unused_days: Days without use; None for no such bound.
        older_days: Days since it was made; None for no such bound.
    """

    def condemned(each: Aged) -> bool:
        unused = unused_days is not None and now - each.used > unused_days * DAY_S
        return unused or (older_days is not None and now - each.made > older_days * DAY_S)

    return tuple(each.environment for each in found if condemned(each))


Files = Mapping[tuple[int, int], int]
"""Device and inode of a file to its bytes: environments share files."""


def files_of(store: Store, found: Sequence[Aged]) -> tuple[dict[str, Files], int]:
    """Folder name to the files of each environment; and the bytes of all else that stays when the cache is emptied."""
    files: dict[str, Files] = {each.environment.root.name: bytes_below(each.environment.root) for each in found}
    rest = bytes_below(store.root)
    for some in (bytes_below(store.uv_cache), bytes_below(store.caches), *files.values()):
        for inode in some:
            rest.pop(inode, None)
    return files, sum(rest.values())


def to_fit(found: Sequence[Aged], files: Mapping[str, Files], rest: int, limit: int) -> tuple[Environment, ...]:
    """Which environments to remove, the first of ``found`` first, until what is left takes at most ``limit``. Pure.

    Args:
        files: Folder name to the files of each environment.
        rest: Bytes that stay in any case.
        limit: Bytes.
    """
    kept = list(found)
    removed = []
    while kept:
        left: dict[tuple[int, int], int] = {}
        for each in kept:
            left.update(files[each.environment.root.name])
        if rest + sum(left.values()) <= limit:
            break
        removed.append(kept.pop(0).environment)
    return tuple(removed)


def clean_cache(store: Store) -> None:
    """Empty uv's cache: without this, what was removed stays on the disk as what it was linked from.

    Environments that are left keep their files. What is made later is downloaded anew.
    """
    Uv(EnvironmentOptions(store)).run(["cache", "clean", "--quiet"], "cleaning the cache")

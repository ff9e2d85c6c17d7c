"""How much the environments of a run download and take on the disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from bisect_torch.environments.options import DEFAULT_BACKEND, EnvironmentOptions
from bisect_torch.errors import InfrastructureError
from bisect_torch.releases.index import backend_index_url, effective_options
from bisect_torch.releases.locks import Pin
from bisect_torch.releases.nightly_ledger import remembered_sizes
from bisect_torch.releases.pages import index_files
from bisect_torch.releases.platforms import Target
from bisect_torch.releases.sizes import KnownWheel, LockedWheel, known_wheels, lock_size, locked_wheels, wheels_of_index
from bisect_torch.threads import map_in_threads


@dataclass(frozen=True)
class Sizes:
    """Of the environments whose locks are known.

    Args:
        environments: Their number.
        download_bytes: Each wheel counted once.
        disk_bytes: Without what is each environment's own.
        one_more: Download and disk of what none of the others has in the last of them: of the newest build.
        unknown: Packages of unknown size.
    """

    environments: int = 0
    download_bytes: int = 0
    disk_bytes: int = 0
    one_more: tuple[int, int] = (0, 0)
    unknown: tuple[str, ...] = ()

    def of(self, environments: int) -> Sizes:
        """Of another number of such environments: fewer are a share of these, more add what one more adds."""
        more = environments - self.environments
        if more >= 0:
            download = self.download_bytes + more * self.one_more[0]
            disk = self.disk_bytes + more * self.one_more[1]
        else:
            download = self.download_bytes * environments // self.environments
            disk = self.disk_bytes * environments // self.environments
        return replace(self, environments=environments, download_bytes=download, disk_bytes=disk)


def locked(
    needed: Mapping[str, tuple[Sequence[Pin], Target]], options: EnvironmentOptions
) -> dict[str, tuple[LockedWheel, ...]]:
    """The wheels that each environment is made from.

    Args:
        needed: Build name to the pins of its lock, and what they are for.
    """
    if not needed:
        return {}
    table: dict[str, KnownWheel] = {**known_wheels(), **remembered_sizes(options.store.nightlies)}
    unknown = {
        pin.project
        for pins, target in needed.values()
        for pin in pins
        if pin.applies(target) and not any(digest in table for digest in pin.hashes)
    }
    table.update(_ask_index(sorted(unknown), options))
    return {name: locked_wheels(pins, target, table) for name, (pins, target) in needed.items()}


def sizes(wheels: Sequence[Sequence[LockedWheel]], options: EnvironmentOptions) -> Sizes:
    """Of environments that are made from these wheels, less what uv's cache has."""
    if not wheels:
        return Sizes()
    cached = _cached(list(chain(*wheels)), options.store.uv_cache)
    size, without = (lock_size(list(chain(*some)), present=cached) for some in (wheels, wheels[:-1]))
    return Sizes(
        environments=len(wheels),
        download_bytes=size.download_bytes,
        disk_bytes=size.unpacked_bytes,
        one_more=(size.download_bytes - without.download_bytes, size.unpacked_bytes - without.unpacked_bytes),
        unknown=size.unknown,
    )


def _ask_index(projects: Sequence[str], options: EnvironmentOptions) -> dict[str, KnownWheel]:
    """Sizes from the indexes that are in use. An index that fails here only leaves sizes unknown."""
    index = effective_options(options.index)
    if index.offline or not projects:
        return {}
    urls = [*index.extra_index_urls, index.index_url]
    if options.backend != DEFAULT_BACKEND:
        urls.insert(0, str(backend_index_url(options.backend)))

    def ask(project: str) -> dict[str, KnownWheel]:
        found: dict[str, KnownWheel] = {}
        for url in urls:
            try:
                # A size belongs to a hash: an old answer is as good as one of today.
                files = index_files(project, url, cache_dir=options.store.index_cache, outdated=lambda *_: None)
                found.update(wheels_of_index(files or ()))
            except InfrastructureError:
                continue
        return found

    merged: dict[str, KnownWheel] = {}
    for table in map_in_threads(ask, projects, threads=8):
        merged.update(table)
    return merged


def _cached(wheels: Sequence[LockedWheel], cache: Path) -> frozenset[str]:
    """Hashes of the wheels that lie unpacked in uv's cache: ``wheels-…/<index>/<project>/<version>-<tags>``."""
    projects = {locked.pin.project for locked in wheels if locked.wheel is not None}
    there: set[tuple[str, str]] = set()
    for shelf in [*cache.glob("wheels-v*/pypi"), *cache.glob("wheels-v*/index/*")]:
        for project in projects:
            folder = shelf / project
            if folder.is_dir():
                there |= {(project, entry.name) for entry in folder.iterdir() if entry.is_dir()}
    return frozenset(
        locked.wheel.sha256
        for locked in wheels
        if locked.wheel is not None and _is_there(locked.pin.project, locked.wheel.filename, there)
    )


def _is_there(project: str, filename: str, there: set[tuple[str, str]]) -> bool:
    version, *tags = filename.removesuffix(".whl").split("-")[1:]
    name = "-".join([version, *tags])
    # uv shortens the name of an entry with many platforms: version, Python and ABI decide then.
    short = "-".join([version, *tags[:-1]]) + "-"
    return (project, name) in there or any(owner == project and entry.startswith(short) for owner, entry in there)

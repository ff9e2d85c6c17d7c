"""What making the environments of a run will take, before anything is downloaded."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.environments import pythons
from bisect_torch.environments.failures import NotInstallable
from bisect_torch.environments.install import Wanted, stamped, wanted
from bisect_torch.environments.locking import committed_lock
from bisect_torch.environments.options import DEFAULT_BACKEND, EnvironmentOptions
from bisect_torch.errors import InfrastructureError
from bisect_torch.model import Build, BuildKind, Environment
from bisect_torch.releases.index import backend_index_url, effective_options
from bisect_torch.releases.locks import Pin, parse_lock
from bisect_torch.releases.nightly_ledger import remembered_sizes
from bisect_torch.releases.pages import index_files
from bisect_torch.releases.platforms import Target
from bisect_torch.releases.sizes import KnownWheel, LockedWheel, known_wheels, lock_size, locked_wheels, wheels_of_index
from bisect_torch.threads import map_in_threads

ASSUMED_BYTES_PER_S = 25e6
ASSUMED_S_PER_ENVIRONMENT = 15.0
"""To unpack or link, check and stamp one environment: measured 8 to 12 s on two cores."""

_ENVIRONMENT_OVERHEAD_BYTES = 60_000_000
"""Bytecode of torch and the stamp, which are each environment's own."""

_RESERVE = 1.05
_HINT_FROM_BYTES = 2_000_000_000


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
        trouble: What went wrong on our side while looking; :func:`ensure` tries again.
    """

    build: Build
    python: str | None
    request: str | None
    present: Environment | None = None
    reason: str = ""
    lock_hash: str | None = None
    lock: Path | None = None
    trouble: InfrastructureError | None = None


@dataclass(frozen=True)
class EnvironmentPlan:
    """What a run needs.

    Args:
        environments: In the order of the builds.
        download_bytes: Of all wheels that are not in the store's cache, each counted once.
        disk_bytes: What the store will grow by.
        unknown: Packages whose size no index states; not counted.
        free_bytes: On the store's file system.
        minutes: Expected, on the stated ``basis``.
        hints: What the user may want to do about it.
        notes: What the user should know: several Pythons, a Python that has to be fetched.
    """

    environments: tuple[PlannedEnvironment, ...]
    download_bytes: int
    disk_bytes: int
    unknown: tuple[str, ...]
    free_bytes: int
    minutes: float
    basis: str
    hints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[PlannedEnvironment, ...]:
        """Those that have to be made."""
        return tuple(
            planned
            for planned in self.environments
            if planned.present is None and not planned.reason and planned.build.kind is not BuildKind.LOCAL
        )


def plan_environments(
    builds: Sequence[Build],
    options: EnvironmentOptions,
    *,
    cancel: threading.Event | None = None,
    at_most: int | None = None,
) -> EnvironmentPlan:
    """Find Python, lock and size for each build and look at what is there already. Nothing is installed.

    What killed runs left half made is removed first.

    Args:
        at_most: How many environments will be made at most, for a search; None for all that are missing. Sizes and
            minutes are then the share of all that so many are.

    Raises:
        InfrastructureError: The disk is too small, or no build at all could be locked.
        UsageError: A Python or an extra requirement cannot be used.
    """
    options.store.sweep_leftovers()
    choices = pythons.choose(builds, options)
    found = map_in_threads(lambda build: _plan_one(build, choices.get(build.name), options, cancel), builds, threads=4)
    planned = tuple(one for one, _, _ in found)
    troubles = [one.trouble for one in planned if one.trouble is not None]
    if troubles and len(troubles) == len(planned):
        raise troubles[0]
    download, disk, unknown = _sizes([(pins, target) for _, pins, target in found if target is not None], options)
    missing = sum(
        1 for one in planned if one.present is None and not one.reason and one.build.kind is not BuildKind.LOCAL
    )
    disk += missing * _ENVIRONMENT_OVERHEAD_BYTES
    if at_most is not None and at_most < missing:
        download, disk, missing = download * at_most // missing, disk * at_most // missing, at_most
    free = options.store.free_bytes()
    if missing and disk * _RESERVE > free:
        raise InfrastructureError(
            f"the disk is too small: {missing} environments need {_gb(disk)},"
            f" {options.store.root} has {_gb(free)} free",
            hint=f"choose another folder with --store{_smaller(options, ', fewer releases, or')}",
        )
    return EnvironmentPlan(
        environments=planned,
        download_bytes=download,
        disk_bytes=disk,
        unknown=unknown,
        free_bytes=free,
        minutes=(download / ASSUMED_BYTES_PER_S + missing * ASSUMED_S_PER_ENVIRONMENT) / 60,
        basis=f"at {ASSUMED_BYTES_PER_S / 1e6:.0f} MB/s and {ASSUMED_S_PER_ENVIRONMENT:.0f} s for each environment",
        hints=_hints(download, options),
        notes=(*_notes(planned, choices), *_dependency_notes(planned, options)),
    )


def _plan_one(
    build: Build, choice: pythons.Choice | None, options: EnvironmentOptions, cancel: threading.Event | None
) -> tuple[PlannedEnvironment, tuple[Pin, ...], Target | None]:
    """The part of one build, the pins that it still needs and for which target."""
    if build.kind is BuildKind.LOCAL:
        return PlannedEnvironment(build, None, None), (), None
    if choice is None:
        reason = f"no Python that has a wheel of torch {build.version} here is known"
        return PlannedEnvironment(build, None, None, reason=reason), (), None
    try:
        pythons.check_fit(build, choice.minor)
        if not choice.installed and os.sep not in choice.request:
            # It is fetched when the run starts; until then only a lock that is there can be read.
            path = committed_lock(build, options)
            pins = parse_lock(path.read_text(encoding="utf-8")) if path is not None else ()
            return PlannedEnvironment(build, choice.minor, choice.request), pins, Target(str(choice.minor))
        want = wanted(build, options, choice.request, cancel=cancel)
    except NotInstallable as error:
        return PlannedEnvironment(build, choice.minor, choice.request, reason=error.reason), (), None
    except InfrastructureError as error:
        # One build's failure never stops the others.
        return PlannedEnvironment(build, choice.minor, choice.request, trouble=error), (), None
    return _look(want, choice)


def _look(want: Wanted, choice: pythons.Choice) -> tuple[PlannedEnvironment, tuple[Pin, ...], Target | None]:
    minor = want.interpreter.minor
    present = stamped(want)
    planned = PlannedEnvironment(
        want.build, minor, choice.request, present, lock_hash=want.lock.hash, lock=want.lock.path
    )
    return planned, () if present else want.lock.pins, None if present else Target(minor)


# --- sizes


def _sizes(
    needed: Sequence[tuple[tuple[Pin, ...], Target]], options: EnvironmentOptions
) -> tuple[int, int, tuple[str, ...]]:
    """Bytes to download, bytes on disk, and packages of unknown size."""
    if not needed:
        return 0, 0, ()
    table: dict[str, KnownWheel] = {**known_wheels(), **remembered_sizes(options.store.nightlies)}
    unknown = {
        pin.project
        for pins, target in needed
        for pin in pins
        if pin.applies(target) and not any(digest in table for digest in pin.hashes)
    }
    table.update(_ask_index(sorted(unknown), options))
    wheels: list[LockedWheel] = [locked for pins, target in needed for locked in locked_wheels(pins, target, table)]
    size = lock_size(wheels, present=_cached(wheels, options.store.uv_cache))
    return size.download_bytes, size.unpacked_bytes, size.unknown


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
                found.update(wheels_of_index(index_files(project, url, cache_dir=options.store.index_cache) or ()))
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


# --- words


def _hints(download: int, options: EnvironmentOptions) -> tuple[str, ...]:
    if download < _HINT_FROM_BYTES or not _smaller(options, ""):
        return ()
    return ("--torch-backend cpu downloads about 0.25 GB for each release, when no GPU is needed",)


def _smaller(options: EnvironmentOptions, joiner: str) -> str:
    """Words for the smaller backend where there is one: the default wheels carry CUDA on Linux x86_64."""
    carries_cuda = sys.platform == "linux" and platform.machine() == "x86_64" and options.backend == DEFAULT_BACKEND
    return f"{joiner} take --torch-backend cpu" if carries_cuda else ""


def _notes(planned: Sequence[PlannedEnvironment], choices: dict[str, pythons.Choice]) -> tuple[str, ...]:
    notes = []
    by_python: dict[str, list[str]] = {}
    for one in planned:
        if one.python is not None:
            by_python.setdefault(one.python, []).append(one.build.name)
    if len(by_python) > 1:
        parts = "; ".join(f"Python {python}: {', '.join(names)}" for python, names in by_python.items())
        notes.append(f"no one Python fits every build: {parts}")
    fetched = sorted({choice.request for choice in choices.values() if not choice.installed})
    if fetched:
        notes.append(f"uv will fetch Python {', '.join(fetched)}")
    notes += [one.trouble.message for one in planned if one.trouble is not None]
    return tuple(notes)


def _dependency_notes(planned: Sequence[PlannedEnvironment], options: EnvironmentOptions) -> tuple[str, ...]:
    """Names of builds do not tell that all of them have today's dependencies."""
    if options.locks != "today" or all(one.build.kind is BuildKind.LOCAL for one in planned):
        return ()
    return (
        "all builds have today's dependencies, not those of their day: what differs between releases is torch, "
        "and what it pins (--locks release,today shows both)",
    )


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"

"""What making the environments of a run will take, before anything is downloaded."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from bisect_torch.environments import pythons
from bisect_torch.environments.failures import NotInstallable
from bisect_torch.environments.install import Wanted, stamped, wanted, wanted_if_locked
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
        counted: Environments that bytes and minutes are of.
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
    counted: int = 0
    hints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[PlannedEnvironment, ...]:
        """Those that have to be made."""
        return tuple(filter(_is_missing, self.environments))


def plan_environments(
    builds: Sequence[Build],
    options: EnvironmentOptions,
    *,
    cancel: threading.Event | None = None,
    at_most: int | None = None,
    now: Container[str] | None = None,
) -> EnvironmentPlan:
    """Find Python, lock and size for each build and look at what is there already. Nothing is installed.

    What killed runs left half made is removed first.

    Args:
        at_most: How many environments will be made at most, for a search; None for all that are missing. Sizes and
            minutes are then the share of all that so many are.
        now: Names of builds whose locks are made where they are not there: that takes seconds each, and of hundreds of
            nightly builds a search needs few. The others are left open, and taken to be like these. None for all.

    Raises:
        InfrastructureError: The disk is too small, or no build at all could be locked.
        UsageError: A Python or an extra requirement cannot be used.
    """
    options.store.sweep_leftovers()
    choices = pythons.choose(builds, options)

    def plan_one(build: Build) -> _Found:
        make = now is None or build.name in now
        return _plan_one(build, choices.get(build.name), options, cancel, make=make)

    found = map_in_threads(plan_one, builds, threads=4)
    planned = tuple(one for one, _, _ in found)
    troubles = [one.trouble for one in planned if one.trouble is not None]
    looked_at = sum(not one.open for one in planned)
    if troubles and len(troubles) == looked_at:
        raise troubles[0]
    missing = sum(map(_is_missing, planned))
    counted = missing if at_most is None else min(at_most, missing)
    size = _sizes([(pins, target) for _, pins, target in found if target is not None], options).of(counted)
    download, disk = size.download_bytes, size.disk_bytes + counted * _ENVIRONMENT_OVERHEAD_BYTES
    free = options.store.free_bytes()
    if counted and disk * _RESERVE > free:
        raise InfrastructureError(
            f"the disk is too small: {counted} environments need {_gb(disk)},"
            f" {options.store.root} has {_gb(free)} free",
            hint=f"choose another folder with --store{_smaller(options, ', fewer releases, or')}",
        )
    return EnvironmentPlan(
        environments=planned,
        download_bytes=download,
        disk_bytes=disk,
        unknown=size.unknown,
        free_bytes=free,
        minutes=(download / ASSUMED_BYTES_PER_S + counted * ASSUMED_S_PER_ENVIRONMENT) / 60,
        counted=counted,
        basis=f"at {ASSUMED_BYTES_PER_S / 1e6:.0f} MB/s and {ASSUMED_S_PER_ENVIRONMENT:.0f} s for each environment",
        hints=_hints(download, options),
        notes=_notes(planned, choices),
    )


def completed(
    planned: Sequence[PlannedEnvironment], options: EnvironmentOptions, *, cancel: threading.Event | None = None
) -> tuple[PlannedEnvironment, ...]:
    """The same, with the locks that were left open made.

    Raises:
        UsageError: A Python or an extra requirement cannot be used.
    """

    def complete(one: PlannedEnvironment) -> PlannedEnvironment:
        if not one.open or one.request is None:
            return one
        return _plan_one(one.build, pythons.Choice(one.request, one.python, True), options, cancel)[0]

    return tuple(map_in_threads(complete, planned, threads=4))


def _is_missing(planned: PlannedEnvironment) -> bool:
    return planned.present is None and not planned.reason and planned.build.kind is not BuildKind.LOCAL


_Found = tuple[PlannedEnvironment, tuple[Pin, ...], Target | None]
"""The part of one build, the pins that it still needs and for which target."""


def _plan_one(
    build: Build,
    choice: pythons.Choice | None,
    options: EnvironmentOptions,
    cancel: threading.Event | None,
    *,
    make: bool = True,
) -> _Found:
    """The part of one build.

    Args:
        make: Make the lock where it is not there; else leave it open.
    """
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
        if make:
            want: Wanted | None = wanted(build, options, choice.request, cancel=cancel)
        else:
            want = wanted_if_locked(build, options, choice.request)
    except NotInstallable as error:
        return PlannedEnvironment(build, choice.minor, choice.request, reason=error.reason), (), None
    except InfrastructureError as error:
        # One build's failure never stops the others.
        return PlannedEnvironment(build, choice.minor, choice.request, trouble=error), (), None
    if want is None:
        return PlannedEnvironment(build, choice.minor, choice.request, open=True), (), None
    return _look(want, choice)


def _look(want: Wanted, choice: pythons.Choice) -> _Found:
    minor = want.interpreter.minor
    present = stamped(want)
    planned = PlannedEnvironment(
        want.build, minor, choice.request, present, lock_hash=want.lock.hash, lock=want.lock.path
    )
    return planned, () if present else want.lock.pins, None if present else Target(minor)


# --- sizes


@dataclass(frozen=True)
class _Sizes:
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

    def of(self, environments: int) -> _Sizes:
        """Of another number of such environments: fewer are a share of these, more add what one more adds."""
        more = environments - self.environments
        if more >= 0:
            download = self.download_bytes + more * self.one_more[0]
            disk = self.disk_bytes + more * self.one_more[1]
        else:
            download = self.download_bytes * environments // self.environments
            disk = self.disk_bytes * environments // self.environments
        return replace(self, environments=environments, download_bytes=download, disk_bytes=disk)


def _sizes(needed: Sequence[tuple[tuple[Pin, ...], Target]], options: EnvironmentOptions) -> _Sizes:
    if not needed:
        return _Sizes()
    table: dict[str, KnownWheel] = {**known_wheels(), **remembered_sizes(options.store.nightlies)}
    unknown = {
        pin.project
        for pins, target in needed
        for pin in pins
        if pin.applies(target) and not any(digest in table for digest in pin.hashes)
    }
    table.update(_ask_index(sorted(unknown), options))
    wheels: list[list[LockedWheel]] = [list(locked_wheels(pins, target, table)) for pins, target in needed]
    cached = _cached(list(chain(*wheels)), options.store.uv_cache)
    size, without = (lock_size(list(chain(*some)), present=cached) for some in (wheels, wheels[:-1]))
    return _Sizes(
        environments=len(needed),
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


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"

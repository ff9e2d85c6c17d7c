"""What making the environments of a run will take, before anything is downloaded."""

from __future__ import annotations

import os
import threading
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from bisect_torch.environments import pythons
from bisect_torch.environments.failures import NotInstallable
from bisect_torch.environments.locking import committed_lock
from bisect_torch.environments.offline import is_offline, missing_offline
from bisect_torch.environments.options import EnvironmentOptions
from bisect_torch.environments.plan_words import hints, notes, smaller
from bisect_torch.environments.planned import EnvironmentPlan, PlannedEnvironment
from bisect_torch.environments.uses import is_passing
from bisect_torch.environments.wanted import Wanted, stamped, wanted, wanted_if_locked
from bisect_torch.errors import InfrastructureError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.locks import Pin, parse_lock, read_lock
from bisect_torch.releases.platforms import Target
from bisect_torch.threads import map_in_threads

if TYPE_CHECKING:
    from bisect_torch.environments.disk import DiskBudget
    from bisect_torch.releases.sizes import LockedWheel

ASSUMED_BYTES_PER_S = 25e6
ASSUMED_S_PER_ENVIRONMENT = 15.0
"""To unpack or link, check and stamp one environment: measured 8 to 12 s on two cores."""


def plan_environments(
    builds: Sequence[Build],
    options: EnvironmentOptions,
    *,
    at_most: int | None = None,
    in_groups: bool = False,
    now: Container[str] | None = None,
    among: Sequence[Build] = (),
    elsewhere: bool = False,
) -> EnvironmentPlan:
    """Find Python, lock and size for each build and look at what is there already. Nothing is installed.

    What killed runs left half made is removed first.

    Args:
        at_most: How many environments will be made at most, for a search; None for all that are missing. Sizes and
            minutes are then the share of all that so many are.
        in_groups: The caller can do with environments that come and go, where the disk does not hold all of them.
        now: Names of builds whose locks are made where they are not there: that takes seconds each, and of hundreds of
            nightly builds a search needs few. The others are left open, and taken to be like these. None for all.
        among: All builds of the matrix, where these are a part of it: one Python is chosen for all of them.
        elsewhere: They are made on other machines: what is in this store does not count, nor the room on its disk.

    Raises:
        InfrastructureError: The disk is too small, or no build at all could be locked.
        UsageError: A Python or an extra requirement cannot be used.
    """
    unswept = _sweep(options)
    choices = pythons.choose(among or builds, options)

    def plan_one(build: Build) -> _Found:
        make = now is None or build.name in now
        return _plan_one(build, choices.get(build.name), options, None, make=make, elsewhere=elsewhere)

    found = map_in_threads(plan_one, builds, threads=4)
    planned = tuple(one for one, _, _ in found)
    troubles = [one.trouble for one in planned if one.trouble is not None]
    looked_at = sum(not one.open for one in planned)
    if troubles and len(troubles) == looked_at:
        raise troubles[0]
    missing = sum(one.is_missing for one in planned)
    counted = missing if at_most is None else min(at_most, missing)
    size = _sizes(found, counted, at_most, options, in_groups=in_groups) if missing else _Size()
    download, disk, budget = size.download_bytes, size.disk_bytes, size.budget
    free = options.store.free_bytes()
    if counted and budget is None and not elsewhere:
        _refuse_too_much(counted, disk, free, options)
    return EnvironmentPlan(
        environments=planned,
        download_bytes=download,
        disk_bytes=disk,
        unknown=size.unknown,
        free_bytes=free,
        minutes=(download / ASSUMED_BYTES_PER_S + counted * ASSUMED_S_PER_ENVIRONMENT) / 60,
        counted=counted,
        basis=f"at {ASSUMED_BYTES_PER_S / 1e6:.0f} MB/s and {ASSUMED_S_PER_ENVIRONMENT:.0f} s for each environment",
        hints=hints(download, options),
        notes=(*unswept, *notes(planned, choices, options, budget, searched=at_most is not None)),
        budget=budget,
        elsewhere=elsewhere,
        unsized=tuple(one.build.name for one, pins, _ in found if one.is_missing and not (one.open or pins)),
    )


def _refuse_too_much(environments: int, needed: int, free: int, options: EnvironmentOptions) -> None:
    """
    Raises:
        InfrastructureError: More bytes are needed than are free.
    """
    from bisect_torch.environments.disk import SAFETY, gb

    if needed * SAFETY > free:
        raise InfrastructureError(
            f"the disk is too small: {environments} environments need {gb(needed)}, {options.store.root} has"
            f" {gb(free)} free",
            hint=f"choose another folder with --store{smaller(options, ', fewer releases, or')}",
        )


@dataclass(frozen=True)
class _Size:
    """What the environments of a plan take; the fields are those of :class:`EnvironmentPlan`."""

    download_bytes: int = 0
    disk_bytes: int = 0
    unknown: tuple[str, ...] = ()
    budget: DiskBudget | None = None


def _sizes(
    found: Sequence[_Found], counted: int, at_most: int | None, options: EnvironmentOptions, *, in_groups: bool
) -> _Size:
    """Of the environments that are missing. Only for these: it loads a table of all wheels."""
    from bisect_torch.environments.disk import OWN_BYTES
    from bisect_torch.environments.short_disk import disk_budget
    from bisect_torch.environments.sizing import locked, sizes
    from bisect_torch.releases.sizes import lock_size

    planned = [one for one, _, _ in found]
    wheels = locked({one.build.name: (pins, target) for one, pins, target in found if target is not None}, options)
    to_make = [name for name in wheels if name in {one.build.name for one in planned if one.is_missing}]
    size = sizes([wheels[name] for name in to_make], options).of(counted)
    download, disk = size.download_bytes, size.disk_bytes + counted * OWN_BYTES
    budget = None
    if in_groups:
        in_order = {one.build.name: wheels.get(one.build.name, ()) for one in planned if not one.open}
        budget = disk_budget(in_order, to_make, disk, options)
    if budget is not None and at_most is not None:
        download, disk = _of_search(budget, in_order, to_make, counted)
    elif budget is not None:
        groups = budget.groups(list(budget.parts))
        disk = max(map(budget.bytes_of, groups))
        download = sum(lock_size(chain(*(in_order[name] for name in group))).download_bytes for group in groups)
    return _Size(download, disk, size.unknown, budget)


def parts_of(planned: Sequence[PlannedEnvironment], options: EnvironmentOptions) -> dict[str, dict[str, int]]:
    """What the environments of builds add to the disk, as :attr:`DiskBudget.parts` has it; those without a lock have
    none."""
    from bisect_torch.environments.short_disk import wheel_bytes
    from bisect_torch.environments.sizing import locked

    needed = {
        one.build.name: (parse_lock(read_lock(one.lock)), Target(one.python))
        for one in planned
        if one.lock is not None and one.python is not None
    }
    return {name: wheel_bytes(wheels) for name, wheels in locked(needed, options).items()}


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


def _of_search(
    budget: DiskBudget, wheels: Mapping[str, Sequence[LockedWheel]], to_make: Sequence[str], counted: int
) -> tuple[int, int]:
    """Bytes to download, and on the disk at once, where one environment after another is made and none shares files.

    Those with the largest downloads are counted; of a build that nobody has looked at, as much as of the largest.
    """
    from bisect_torch.releases.sizes import lock_size

    downloads = sorted((lock_size(wheels[name]).download_bytes for name in to_make), reverse=True)[:counted]
    downloads += downloads[:1] * (counted - len(downloads))
    on_disk = counted * max(budget.bytes_of([name]) for name in to_make)
    return sum(downloads), min(budget.room_bytes, on_disk)


def _sweep(options: EnvironmentOptions) -> tuple[str, ...]:
    """Remove what killed runs have left. Where that fails, there is less room and a note, no more."""
    try:
        options.store.sweep_leftovers()
    except OSError as error:
        return (f"what earlier runs left half made could not all be removed: {error.strerror or error}",)
    return ()


_Found = tuple[PlannedEnvironment, tuple[Pin, ...], Target | None]
"""The part of one build, the pins of what is to be made or may have to make room, and for which target."""


def _plan_one(
    build: Build,
    choice: pythons.Choice | None,
    options: EnvironmentOptions,
    cancel: threading.Event | None,
    *,
    make: bool = True,
    elsewhere: bool = False,
) -> _Found:
    """The part of one build.

    Args:
        make: Make the lock where it is not there; else leave it open.
        elsewhere: That it is in this store does not count.
    """
    if build.kind is BuildKind.LOCAL:
        return PlannedEnvironment(build, None, None), (), None
    if choice is None:
        reason = f"no Python that has a wheel of torch {build.version} here is known"
        return PlannedEnvironment(build, None, None, reason=reason), (), None
    try:
        pythons.check_fit(build, choice.minor)
        if not choice.installed and os.sep not in choice.request and is_offline(options):
            offline = f"offline, and Python {choice.request} is not installed here"
            return PlannedEnvironment(build, choice.minor, choice.request, offline=offline), (), None
        if not choice.installed and os.sep not in choice.request:
            # It is fetched when the run starts; until then only a lock that is there can be read.
            path = committed_lock(build, options)
            pins = parse_lock(read_lock(path)) if path is not None else ()
            return PlannedEnvironment(build, choice.minor, choice.request), pins, Target(str(choice.minor))
        if make:
            want: Wanted | None = wanted(build, options, choice.request, cancel=cancel)
        else:
            want = wanted_if_locked(build, options, choice.request)
        if want is not None:
            return _look(want, choice, cancel, elsewhere=elsewhere)
    except NotInstallable as error:
        return PlannedEnvironment(build, choice.minor, choice.request, reason=error.reason), (), None
    except InfrastructureError as error:
        # One build's failure never stops the others.
        if is_offline(options):
            return PlannedEnvironment(build, choice.minor, choice.request, offline=error.message), (), None
        return PlannedEnvironment(build, choice.minor, choice.request, trouble=error), (), None
    except OSError as error:
        trouble = InfrastructureError(f"locking torch {build.version}: {error.strerror or error}: {error.filename}")
        return PlannedEnvironment(build, choice.minor, choice.request, trouble=trouble), (), None
    return PlannedEnvironment(build, choice.minor, choice.request, open=True), (), None


def _look(want: Wanted, choice: pythons.Choice, cancel: threading.Event | None, *, elsewhere: bool) -> _Found:
    minor = want.interpreter.minor
    present = None if elsewhere else stamped(want)
    planned = PlannedEnvironment(
        want.build, minor, choice.request, present, lock_hash=want.lock.hash, lock=want.lock.path
    )
    if present is None and not elsewhere and is_offline(want.options):
        planned = replace(planned, offline=missing_offline(want, cancel))
    stays = present is not None and not is_passing(want.options.store, want.name)
    return planned, () if stays else want.lock.pins, None if stays else Target(minor)

"""Room for the environments of a run, by the numbers of its plan, with nothing made and no server asked."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from bisect_torch import temporary
from bisect_torch.doctor.check import Asked, Check, Status
from bisect_torch.doctor.chosen import called, chosen_builds
from bisect_torch.environments import DiskBudget, Store, is_installed, pythons
from bisect_torch.environments.disk import OWN_BYTES, SAFETY, gb
from bisect_torch.environments.locking import committed_lock
from bisect_torch.environments.short_disk import RESERVE_BYTES, wheel_bytes
from bisect_torch.environments.sizing import locked, sizes
from bisect_torch.environments.store import STORE_VARIABLE
from bisect_torch.first_names import first_of
from bisect_torch.releases import IndexOptions
from bisect_torch.releases.locks import parse_lock, read_lock
from bisect_torch.releases.platforms import Target
from bisect_torch.releases.sizes import lock_size


def other_store(asked: Asked, folder: str) -> str:
    """How another store is chosen, so that it counts: the option outranks the variable.

    Args:
        folder: Words that stand for it.
    """
    return f"bisect-torch run --store {folder}" if asked.store.option else f"export {STORE_VARIABLE}={folder}"


def room(asked: Asked, free: int) -> Check:
    """What the environments of the builds that are asked about need, of those that are not there.

    Args:
        free: Bytes on the store's file system.

    Raises:
        UsageError: A build that is asked about does not exist.
    """
    builds, later = chosen_builds(asked)
    # The committed sizes are enough: no server is asked for more.
    options = replace(asked.options(), index=IndexOptions(offline=True))
    with temporary.folder() as folder:  # uv writes into its cache what interpreters say; the store stays as it is
        choices = pythons.choose(builds, replace(options, store=Store.open(folder))) if builds else {}
    minors = {build.name: choice.minor for build in builds if (choice := choices.get(build.name)) is not None}
    missing = [build for build in builds if not is_installed(build, options, minors.get(build.name))]
    locks = {build.name: committed_lock(build, options) for build in missing if minors.get(build.name) is not None}
    pins = {
        name: (parse_lock(read_lock(path)), Target(str(minors[name])))
        for name, path in locks.items()
        if path is not None
    }
    # Sizes are committed for the default backend alone.
    unknown = [*(build.name for build in missing if build.name not in pins), *later]
    more = f"not counted: {first_of(unknown)}; `bisect-torch run --dry-run` says what they need" if unknown else ""
    if not pins:
        there = f"all environments are there ({called(builds)})" if builds else ""
        return Check("disk", Status.OK, f"{gb(free)} free", more or there)
    wheels = locked(pins, options)
    size = sizes(list(wheels.values()), options)
    needed = size.disk_bytes + len(wheels) * OWN_BYTES
    number = f"{len(wheels)} of {len(builds)} environments to make ({called(builds)})"
    shown = f"{gb(free)} free; {number}: {gb(size.download_bytes)} to download, {gb(needed)} on disk"
    if SAFETY * needed <= free - RESERVE_BYTES:
        return Check("disk", Status.OK, shown, more)
    names = list(wheels)
    budget = DiskBudget(
        max(0, free - RESERVE_BYTES), {name: wheel_bytes(each) for name, each in wheels.items()}, "they do not fit"
    )
    larger = other_store(asked, "/a/folder/on/a/larger/disk")
    fix = f"`bisect-torch envs prune --unused 30{asked.store.option}`, or {larger}"
    if len(budget.too_large(names)) == len(names):
        least = min(budget.bytes_of([name]) for name in names)
        return Check("disk", Status.FAULT, shown, f"not even one fits: the smallest takes {gb(least)}", fix)
    groups = budget.groups([name for name in names if budget.refusal(name) is None])
    at_once = gb(max(map(budget.bytes_of, groups)))
    again = gb(sum(lock_size(list(chain(*(wheels[name] for name in group)))).download_bytes for group in groups))
    means = (
        f"made in {len(groups)} turns of at most {at_once}, each removed after its cells; {again} to download in all"
    )
    return Check("disk", Status.WARNING, shown, "; ".join(filter(None, (means, more))), fix)

"""Folders that a run writes in: the store, the results', temporary ones, shared memory; and room on the disk."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bisect_torch.doctor.check import Asked, Check, Status
from bisect_torch.doctor.probing import Probe, file_system, probe
from bisect_torch.doctor.room import other_store, room
from bisect_torch.environments.disk import gb

_LEAST_TEMPORARY = 500_000_000
"""For what cells write and what a compiler leaves, until each ends."""

_LEAST_SHARED = 256 * 2**20
_NO_HARD_LINKS = frozenset({"vfat", "exfat", "msdos", "fuse.exfat", "cifs", "smb3", "9p", "fuse.gcsfuse"})
_OTHER_MACHINE = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "afs", "fuse.gcsfuse", "fuse.s3fs", "9p"})


def store_folder(asked: Asked) -> Iterator[Check]:
    """Whether the store can be written, and locked."""
    store = asked.store
    root, fix = store.root, other_store(asked, "/a/folder/that/can/be/written")
    inside = (store.envs, store.tmp, store.guards, store.uses, store.uv_cache)
    for folder in (root, *(each for each in inside if each.exists())):  # another user may have made some of them
        found = probe(folder)
        if found.problem:
            yield Check("store", Status.FAULT, f"{folder}: {found.problem}", "no environment can be made or used", fix)
            return
    if not found.locks:
        means = "two runs at once would damage each other's environments"
        yield Check("store", Status.FAULT, f"{root}: files cannot be locked there", means, fix)
        return
    there = "" if root.is_dir() else f"; it is made below {found.folder}"
    yield Check("store", Status.OK, f"{root}{there}")


def disk(asked: Asked) -> Iterator[Check]:
    """Whether what the run makes fits where the store lies, and how its files will be shared."""
    found = probe(asked.store.root)
    if found.problem:  # nothing is made there: the store's own line says so
        return
    yield room(asked, shutil.disk_usage(found.folder).free)
    yield from _sharing(asked, found)


def _sharing(asked: Asked, found: Probe) -> Iterator[Check]:
    """Whether environments can be links into uv's cache; else each takes its full size."""
    store, kind = asked.store, file_system(found.folder)
    devices = {folder.stat().st_dev for folder in (store.uv_cache, store.envs) if folder.is_dir()}
    means = "files of environments are copies: 15 releases take 80 GB in place of 47"
    if len(devices) > 1:
        fix = other_store(asked, "/a/folder/on/one/file/system")
        shown = f"{store.uv_cache} and {store.envs} lie on two file systems"
        yield Check("file system", Status.WARNING, shown, means, fix)
    elif kind in _NO_HARD_LINKS and not found.clones:
        fix = other_store(asked, "/a/folder/on/a/local/disk")
        yield Check("file system", Status.WARNING, f"{kind}: no hard links", means, fix)
    elif kind in _OTHER_MACHINE:
        slow = "importing torch reads thousands of small files: slow, and locks depend on the server"
        yield Check("file system", Status.WARNING, kind, slow, other_store(asked, "/a/folder/on/a/local/disk"))
    else:
        ways = ["hard links", *(["reflinks"] if found.clones else [])]
        name = f"{kind}, " if kind else ""
        yield Check("file system", Status.OK, f"{name}one for cache and environments; {' and '.join(ways)}")


def results_folder(asked: Asked) -> Iterator[Check]:
    """Whether the results file can be written."""
    path = asked.results.absolute()
    folder = path.parent
    if not folder.is_dir():
        yield Check(
            "results", Status.FAULT, f"{folder} does not exist", "a run refuses", f"mkdir -p {shlex.quote(str(folder))}"
        )
        return
    found = probe(folder)
    if found.problem:
        fix = "bisect-torch run -o /a/folder/that/can/be/written/results.parquet"
        yield Check("results", Status.FAULT, f"{folder}: {found.problem}", "a run cannot keep what it finds", fix)
    elif path.is_dir():
        yield Check("results", Status.FAULT, f"{path} is a folder", "a run refuses", "name another file with -o")
    else:
        yield Check("results", Status.OK, f"{path}{' (there already: a run adds to it)' if path.exists() else ''}")


def temporary_folder(asked: Asked) -> Iterator[Check]:
    """``TMPDIR``, where cells and compilers write until they end."""
    named = os.environ.get("TMPDIR")
    folder = Path(named or "/tmp")
    fix = "export TMPDIR=/a/folder/with/room"
    found = probe(folder) if folder.is_dir() else Probe(folder, "no such folder")
    if found.problem:
        yield Check("temporary files", Status.FAULT, f"{folder}: {found.problem}", "cells cannot run", fix)
        return
    free = shutil.disk_usage(folder).free
    if free < _LEAST_TEMPORARY:
        means = "cells that compile may fail with a full disk, and are then `infra`"
        yield Check("temporary files", Status.WARNING, f"{folder}: {gb(free)} free", means, fix)
    else:
        yield Check("temporary files", Status.OK, f"{folder}, {gb(free)} free")


def shared_memory(asked: Asked) -> Iterator[Check]:
    """``/dev/shm``, through which torch's processes exchange tensors. Containers have 64 MB of it."""
    if not sys.platform.startswith("linux"):
        return
    folder, means = Path("/dev/shm"), "cases with worker processes (DataLoader, multiprocessing) crash or hang"
    fix = "sudo mount -o remount,size=2g /dev/shm, or docker run --shm-size=2g"
    found = probe(folder) if folder.is_dir() else Probe(folder, "no such folder")
    size = shutil.disk_usage(folder).free if not found.problem else 0
    if found.problem:
        yield Check("shared memory", Status.WARNING, f"{folder}: {found.problem}", means, fix)
    elif size < _LEAST_SHARED:
        yield Check("shared memory", Status.WARNING, f"{folder}: {size / 2**20:.0f} MiB free", means, fix)
    else:
        yield Check("shared memory", Status.OK, f"{folder}, {gb(size)} free")

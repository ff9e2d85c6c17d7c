"""The store: the one folder in which everything that the tool builds lies."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch import temporary
from bisect_torch.errors import InfrastructureError, Interrupted

if TYPE_CHECKING:
    import filelock

STORE_VARIABLE = "BISECT_TORCH_STORE"


def default_root() -> Path:
    """``BISECT_TORCH_STORE``, or the user's data folder for this tool."""
    named = os.environ.get(STORE_VARIABLE)
    if named:
        return Path(os.path.expanduser(named)).absolute()
    import platformdirs

    return platformdirs.user_data_path("bisect-torch")


@dataclass(frozen=True)
class Store:
    """Where environments, uv's cache and all that can be made again lies. One file system: files are hard-linked."""

    root: Path
    cache: str = "uv-cache"
    """Name of the folder of uv's cache."""

    @property
    def option(self) -> str:
        """What a line needs to find it: `` --store FOLDER``, or nothing where it is found without."""
        return "" if self.root == default_root() else f" --store {shlex.quote(str(self.root))}"

    @classmethod
    def at(cls, root: Path | None = None) -> Store:
        """The store at ``root`` (default: :func:`default_root`), as it is: nothing is made."""
        return cls(Path(os.path.expanduser(root or default_root())).absolute())

    @classmethod
    def open(cls, root: Path | None = None) -> Store:
        """The store at ``root`` (default: :func:`default_root`), with its folders made.

        Raises:
            InfrastructureError: It cannot be written.
        """
        store = cls.at(root)
        try:
            for folder in (
                store.uv_cache,
                store.envs,
                store.tmp,
                store.locks,
                store.guards,
                store.uses,
                store.caches,
                store.staged,
                store.quarantine,
                store.index_cache,
                store.nightlies.parent,
                store.expansions,
                store.neutral,
            ):
                folder.mkdir(parents=True, exist_ok=True)
            # uv looks for a project's settings in the working directory and above: an empty file ends that search.
            (store.neutral / "uv.toml").touch()
        except OSError as error:
            raise InfrastructureError(
                f"the store {store.root} cannot be written: {error.strerror or error}",
                hint=f"choose another folder with --store or {STORE_VARIABLE}",
            ) from error
        return store

    @property
    def uv_cache(self) -> Path:
        """uv's cache, from which environments are linked."""
        return self.root / self.cache

    @property
    def caches(self) -> Path:
        """Caches of groups of environments that come and go together."""
        return self.root / "caches"

    def with_own_cache(self) -> Store:
        """The same store with a new, empty cache of uv that belongs to this process; it is removed whole."""
        folder = temporary.make_folder(self.caches)
        return replace(self, cache=f"{self.caches.name}/{folder.name}")

    @property
    def envs(self) -> Path:
        """The finished environments."""
        return self.root / "envs"

    @property
    def tmp(self) -> Path:
        """Environments being made. Whatever lies here is never used."""
        return self.root / "tmp"

    @property
    def locks(self) -> Path:
        """Requirement locks that were made on the fly."""
        return self.root / "locks"

    @property
    def guards(self) -> Path:
        """Lock files that keep two runs from building one environment twice."""
        return self.root / "guards"

    @property
    def uses(self) -> Path:
        """Lock files of the environments that are being used."""
        return self.root / "uses"

    def remove_own_cache(self) -> None:
        """Remove the cache of :meth:`with_own_cache`. What was linked from it stays."""
        if self.uv_cache.parent == self.caches:
            remove_tree(self.own(self.uv_cache))

    @property
    def staged(self) -> Path:
        """Copies of this package that children import."""
        return self.root / "staged"

    @property
    def quarantine(self) -> Path:
        """Environments that changed after they were made."""
        return self.root / "quarantine"

    @property
    def index_cache(self) -> Path:
        """Answers of indexes."""
        return self.root / "index-cache"

    @property
    def nightlies(self) -> Path:
        """The file in which nightly wheels are remembered."""
        return self.root / "nightlies" / "ledger.json"

    @property
    def expansions(self) -> Path:
        """What workers told of case files and suites."""
        return self.root / "expansions"

    @property
    def own_files(self) -> Path:
        """Which files runs have written to (:mod:`bisect_torch.own_files`)."""
        return self.expansions / "own-files.json"

    @property
    def neutral(self) -> Path:
        """The working directory of uv."""
        return self.root / "neutral"

    def free_bytes(self) -> int:
        """Room on its disk."""
        return shutil.disk_usage(self.root).free

    def used_bytes(self) -> int:
        """What the store takes on the disk."""
        return sum(bytes_below(self.root).values())

    @contextmanager
    def guard(self, name: str, *, cancel: threading.Event | None = None) -> Iterator[None]:
        """Hold the lock of one environment; waits for as long as another run holds it.

        Raises:
            Interrupted: ``cancel`` was set while waiting.
        """
        lock = self._lock(name)
        while True:
            try:
                lock.acquire(timeout=0.2)
                break
            except TimeoutError:
                if cancel is not None and cancel.is_set():
                    raise Interrupted("interrupted while another run builds this environment") from None
        try:
            yield
        finally:
            lock.release()

    def try_guard(self, name: str) -> filelock.BaseFileLock | None:
        """The held lock, or None when somebody else holds it."""
        lock = self._lock(name)
        try:
            lock.acquire(timeout=0)
        except TimeoutError:
            return None
        return lock

    def _lock(self, name: str) -> filelock.BaseFileLock:
        import filelock  # it loads asyncio, 0.04 s that a run with nothing to install does without

        return filelock.FileLock(self.guards / f"{name}.lock")

    def sweep_leftovers(self) -> None:
        """Remove what killed runs left half made, and empty the quarantine.

        A folder in ``tmp`` belongs to whoever holds the lock of its environment: if that can be had, its owner is dead.
        """
        for folder in sorted(self.tmp.iterdir()):
            name = folder.name.rpartition("~")[0]
            lock = self.try_guard(name) if name else None
            if lock is None:
                continue
            try:
                remove_tree(folder)
            finally:
                lock.release()
        for folder in sorted(self.quarantine.iterdir()):
            remove_tree(folder)
        temporary.sweep(self.caches)
        kept = (self.index_cache, self.expansions, self.nightlies.parent)
        for path in (path for folder in kept for path in folder.glob("*~*")):
            if temporary.is_gone(path.name.rpartition("~")[2].partition("-")[0]):
                path.unlink(missing_ok=True)
        self.sweep_downloads()

    def sweep_downloads(self) -> None:
        """Remove what a uv that failed or was killed had unpacked so far: it is never taken up again.

        Each running uv holds its cache's lock shared; who gets it for itself knows that none runs.
        """
        folders = sorted(self.uv_cache.glob(".tmp*"))
        if not folders:
            return
        with (self.uv_cache / ".lock").open("a") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return
            for folder in folders:
                remove_tree(folder)

    def new_tmp(self, name: str) -> Path:
        """A path in ``tmp`` that does not exist yet; the caller holds the lock ``name``."""
        return self.tmp / f"{name}~{os.getpid()}-{time.monotonic_ns():x}"

    def own(self, path: Path) -> Path:
        """``path`` if it lies strictly inside the store.

        Raises:
            InfrastructureError: It does not; nothing outside may ever be moved or removed.
        """
        root, inside = self.root.resolve(), path.parent.resolve() / path.name
        if root not in inside.parents:
            raise InfrastructureError(f"{path} is not inside the store {self.root}")
        return inside


def bytes_below(folder: Path) -> dict[tuple[int, int], int]:
    """What lies below a folder: device and inode to bytes on disk, so that a file with several names counts once."""
    found: dict[tuple[int, int], int] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            try:
                status = os.lstat(os.path.join(parent, name))
            except OSError:  # another run has removed it
                continue
            found[status.st_dev, status.st_ino] = status.st_blocks * 512
    return found


def remove_tree(folder: Path) -> None:
    """Remove a folder (or file) that may hold read-only files and folders. Links are removed, not followed.

    Nothing happens when it is gone, and another run may remove it at the same time.

    Removing a file needs a writable folder, not a writable file; the mode of a file may be shared through a hard link,
    so it is left alone.
    """
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    while True:
        try:
            for parent, folders, _ in os.walk(folder):
                for name in folders:
                    path = os.path.join(parent, name)
                    if not os.path.islink(path):
                        os.chmod(path, stat.S_IRWXU)
            os.chmod(folder, stat.S_IRWXU)
            shutil.rmtree(folder)
        except FileNotFoundError:
            if os.path.lexists(folder):
                continue  # something in it has gone meanwhile
        return

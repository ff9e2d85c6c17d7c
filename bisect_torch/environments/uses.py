"""Which environments are being used, by which no other process may remove them; and when one was used last."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from bisect_torch.environments.store import Store


class Uses:
    """The environments of a store that this process uses.

    For each it holds a lock that the kernel takes back when the process ends, however it ends.

    Args:
        passing: What is made here is marked: a later run on a short disk may remove it. The mark outlives a kill.
    """

    def __init__(self, store: Store, *, passing: bool = False) -> None:
        self._store = store
        self._passing = passing
        self._held: dict[str, IO[bytes]] = {}

    def take(self, name: str) -> None:
        """Mark an environment as used, from now on. The caller holds its guard, so that nobody is removing it.

        Args:
            name: Of its folder.
        """
        if name in self._held:
            return
        file = _path(self._store, name).open("ab")
        fcntl.flock(file, fcntl.LOCK_SH)
        os.utime(file.fileno())
        self._held[name] = file

    def begin(self, name: str) -> None:
        """An environment is about to be made. The caller holds its guard."""
        if self._passing:
            _passing(self._store, name).touch()

    def release(self, name: str) -> None:
        """It is not used here any more."""
        file = self._held.pop(name, None)
        if file is not None:
            os.utime(file.fileno())
            file.close()

    def close(self) -> None:
        """Nothing is used here any more."""
        for name in list(self._held):
            self.release(name)


@contextlib.contextmanager
def unused(store: Store, name: str) -> Iterator[bool]:
    """Whether no process uses an environment; while it is so, none can begin to. The caller holds its guard."""
    path = _path(store, name)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def last_used(store: Store, root: Path) -> float:
    """Seconds since the epoch when an environment was used or, never used, made last."""
    with contextlib.suppress(OSError):
        return _path(store, root.name).stat().st_mtime
    return root.stat().st_mtime


def is_passing(store: Store, name: str) -> bool:
    """Whether an environment was made on a short disk, and may make room for others."""
    return _passing(store, name).exists()


def forget(store: Store, name: str) -> None:
    """The environment is gone."""
    _passing(store, name).unlink(missing_ok=True)


def _passing(store: Store, name: str) -> Path:
    return store.uses / f"{name}.passing"


def _path(store: Store, name: str) -> Path:
    return store.uses / f"{name}.use"

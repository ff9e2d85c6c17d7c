"""Whether an environment is still the one that it was when its cells began."""

from __future__ import annotations

import os
from dataclasses import dataclass

from bisect_torch.environments import stamp
from bisect_torch.environments.control import LOCAL
from bisect_torch.first_names import first_of
from bisect_torch.model import Environment


@dataclass(frozen=True)
class Seal:
    """Which stamp an environment had. Another run that finds a change makes the environment anew, in the same place
    and with a stamp of its own.

    Args:
        inode: Of the stamp's file.
        modified_ns: Its modification time.
    """

    inode: int
    modified_ns: int


def seal(environment: Environment) -> Seal | None:
    """The seal of an environment that has just been swept or made; None for a local interpreter, which has no stamp."""
    if environment.backend == LOCAL:
        return None
    try:
        status = os.stat(environment.root / stamp.STAMP_NAME)
    except OSError:
        return Seal(0, 0)  # gone already: it will be found to have changed
    return Seal(status.st_ino, status.st_mtime_ns)


def whole(environment: Environment) -> bool:
    """Whether an environment is as it was made."""
    return changed_since(environment, seal(environment)) is None


def changed_since(environment: Environment, before: Seal | None) -> str | None:
    """What changed in an environment since it was sealed, in words; None when nothing did, or it cannot be known."""
    if before is None:
        return None
    if seal(environment) != before:
        return "it was made anew by another run"
    found, changes = stamp.sweep(environment.root)
    if found is not None:
        return None
    return first_of(changes, 1) if changes else "it has no stamp"

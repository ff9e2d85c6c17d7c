"""All looks, in the order in which a run needs what they look at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from bisect_torch.doctor import health, machine, network, places, programs, variables
from bisect_torch.doctor.check import Asked, Check, Status
from bisect_torch.errors import BisectTorchError
from bisect_torch.threads import map_in_threads

Look = Callable[[Asked], Iterable[Check]]

LOOKS: tuple[tuple[str, Look], ...] = (
    ("uv", programs.uv_program),
    ("Python", programs.python_interpreters),
    ("index", network.indexes),
    ("store", places.store_folder),
    ("disk", places.disk),
    ("store health", health.store_health),
    ("results", places.results_folder),
    ("temporary files", places.temporary_folder),
    ("shared memory", places.shared_memory),
    ("memory", machine.memory),
    ("C++ compiler", programs.compiler),
    ("GPU", machine.gpu),
    ("variables", variables.variables),
)


def examine(asked: Asked) -> tuple[Check, ...]:
    """Every check. A look that fails is a fault by itself, and does not stop the others."""
    looks = [functools.partial(_look, name, look, asked) for name, look in LOOKS]
    return tuple(check for checks in map_in_threads(lambda look: look(), looks, threads=4) for check in checks)


def _look(name: str, look: Look, asked: Asked) -> tuple[Check, ...]:
    try:
        return tuple(look(asked))
    except BisectTorchError as error:
        return (Check(name, Status.FAULT, error.message, fix=error.hint or ""),)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return (Check(name, Status.FAULT, f"{where}{error.strerror or error}", "this could not be looked at"),)

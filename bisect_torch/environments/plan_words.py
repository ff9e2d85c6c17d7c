"""What a plan of environments says in words: notes and hints."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bisect_torch.environments import pythons
from bisect_torch.environments.disk import gb
from bisect_torch.environments.options import DEFAULT_BACKEND, EnvironmentOptions
from bisect_torch.environments.planned import PlannedEnvironment
from bisect_torch.model import BuildKind

if TYPE_CHECKING:
    from bisect_torch.environments.disk import DiskBudget

_HINT_FROM_BYTES = 2_000_000_000


def notes(
    planned: Sequence[PlannedEnvironment],
    choices: Mapping[str, pythons.Choice],
    options: EnvironmentOptions,
    budget: DiskBudget | None,
    *,
    searched: bool,
) -> tuple[str, ...]:
    """What the user should know of a plan.

    Args:
        choices: Name of a build to the Python chosen for it.
        searched: The environments are a search's, made one after another.
    """
    return (
        *_python_notes(planned, choices),
        *_dependency_notes(planned, options),
        *_unresolved_notes(planned, options),
        *_budget_notes(budget, planned, searched=searched),
    )


def _budget_notes(
    budget: DiskBudget | None, planned: Sequence[PlannedEnvironment], *, searched: bool
) -> tuple[str, ...]:
    if budget is None:
        return ()
    missing = [one.build.name for one in planned if one.is_missing and not one.open]
    no_room = _no_room(budget, missing)
    if searched:
        come_and_go = "environments of the search are made one after another and removed when the next needs their room"
        return (f"{budget.reason}: {come_and_go}", *no_room)
    groups = [[name for name in group if name in missing] for group in budget.groups(list(budget.parts))]
    numbers = " + ".join(str(len(group)) for group in groups if group)
    turns = f"{len(missing)} environments are made in turns ({numbers}), each removed after its cells ran"
    return (f"{budget.reason}: {turns}", *no_room)


def _no_room(budget: DiskBudget, missing: Sequence[str]) -> tuple[str, ...]:
    """Which builds will have no environment for want of room, before the others have taken their time."""
    large = budget.too_large(missing)
    if not large:
        return ()
    more = gb(max(budget.bytes_of([name]) for name in large) - budget.room_bytes)
    return (
        f"there is no room for {', '.join(large)} even alone, and nothing will run there: {more} more are needed "
        "(`bisect-torch envs prune` makes room)",
    )


def hints(download: int, options: EnvironmentOptions) -> tuple[str, ...]:
    """What the user may want to do about it.

    Args:
        download: Bytes.
    """
    if download < _HINT_FROM_BYTES or not smaller(options, ""):
        return ()
    return ("--torch-backend cpu downloads about 0.25 GB for each release, when no GPU is needed",)


def smaller(options: EnvironmentOptions, joiner: str) -> str:
    """Words for the smaller backend where there is one: the default wheels carry CUDA on Linux x86_64."""
    carries_cuda = sys.platform == "linux" and platform.machine() == "x86_64" and options.backend == DEFAULT_BACKEND
    return f"{joiner} take --torch-backend cpu" if carries_cuda else ""


def _python_notes(planned: Sequence[PlannedEnvironment], choices: Mapping[str, pythons.Choice]) -> tuple[str, ...]:
    notes = []
    by_python: dict[str, list[str]] = {}
    for one in planned:
        if one.python is not None:
            by_python.setdefault(one.python, []).append(one.build.name)
    if len(by_python) > 1:
        parts = "; ".join(f"Python {python}: {', '.join(names)}" for python, names in by_python.items())
        notes.append(f"no one Python fits every build: {parts}")
    can_be = (choices.get(one.build.name) for one in planned if not one.impossible)
    fetched = sorted({choice.request for choice in can_be if choice is not None and not choice.installed})
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


def _unresolved_notes(planned: Sequence[PlannedEnvironment], options: EnvironmentOptions) -> tuple[str, ...]:
    """Of which builds nobody has asked yet whether what the user wants beside torch fits."""
    extras = [f"--with {name}" for name in dict.fromkeys(text.partition(";")[0].strip() for text in options.extras)]
    extras += [f"--with-editable {path.name}" for path in options.editable]
    of_builds = (one for one in planned if one.request is not None and one.lock is None and one.trouble is None)
    left = [one.build.name for one in of_builds if not one.impossible]
    if not extras or not left:
        return ()
    builds = left[0] if len(left) == 1 else f"{len(left)} builds from {left[0]} to {left[-1]}"
    return (f"not resolved yet: {', '.join(extras)} on {builds}; that is looked up when an environment is made",)

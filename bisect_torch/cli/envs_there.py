"""``envs list`` and ``envs path``: the environments that are there, told apart."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from bisect_torch.errors import UsageError
from bisect_torch.first_names import first_of
from bisect_torch.nearest import nearest_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_torch.model import Environment

_NAME_COLUMNS = 24

_MOST = 6
"""Environments, or releases, that an answer lists."""

_LISTS_ALL = "`bisect-torch envs list` has all"


def list_(args: argparse.Namespace) -> int:
    """Print the environments of the store."""
    from bisect_torch.environments import Store, beside_torch, in_release_order, list_environments

    found = in_release_order(list_environments(Store.open(args.store)))
    if args.json:
        import json

        print(json.dumps([_row(environment) for environment in found], indent=2))
        return 0
    for environment in found:
        beside = ", ".join(f"{name} {version}" for name, version in beside_torch(environment).items())
        name = environment.build.name
        if len(name) > _NAME_COLUMNS:  # a hybrid is called by all its packages: a line of its own
            print(name)
            name = ""
        print(
            f"{name:<{_NAME_COLUMNS}} {environment.torch_version:<28} Python {environment.python_version:<9} "
            f"{environment.backend:<8} {environment.root}{f'  with {beside}' if beside else ''}"
        )
    return 0


def _row(environment: Environment) -> dict[str, object]:
    return {
        "name": environment.build.name,
        "version": environment.build.version,
        "torch_version": environment.torch_version,
        "git_commit": environment.git_commit,
        "cuda": environment.cuda,
        "backend": environment.backend,
        "python_version": environment.python_version,
        "python": str(environment.python),
        "root": str(environment.root),
        "lock_hash": environment.lock_hash,
        "packages": dict(environment.packages),
    }


def path(args: argparse.Namespace) -> int:
    """Print one interpreter's path."""
    from bisect_torch.environments import Alike

    fitting = find(args, [args.version])
    every = Alike(fitting)
    picked = every.picked(fitting)
    if len(fitting) > 1:
        _say(f"note: {len(fitting)} environments of {args.version} fit; this is the first of them")
        others = every.others(picked)
        for each in (picked, *others[: _MOST - 1]):
            options = every.options(each) if each is not picked else None
            _say(f"  {every.words(each)}{f': picked by {shlex.join(options)}' if options else ''}")
        if len(others) >= _MOST:
            _say(f"  and {len(others) - _MOST + 1} more: {_LISTS_ALL}")
    print(picked.python)
    return 0


def find(args: argparse.Namespace, versions: Sequence[str] | None) -> list[Environment]:
    """The environments of these versions (all when None) that fit ``--python``, ``--torch-backend`` and ``--with``.

    Raises:
        UsageError: There is none of a version, or ``--with`` is no requirement.
    """
    from bisect_torch.environments import Store, extra_requirement, fits, list_environments

    options = [("--python", args.python), ("--torch-backend", args.torch_backend)]
    options += [("--with", str(extra_requirement(text))) for text in args.extras]
    asked = [option for option in options if option[1] is not None]
    every = list_environments(Store.open(args.store))
    fitting = [environment for environment in every if fits(environment, *asked)]
    if versions is None:
        return fitting
    there = {environment.build.name for environment in fitting}
    for version in versions:
        if version not in there:
            raise _none_of(version, fitting, [each for each in every if each.build.name == version])
    return [environment for environment in fitting if environment.build.name in versions]


def _none_of(version: str, fitting: Sequence[Environment], others: Sequence[Environment]) -> UsageError:
    """The refusal where no environment of a version fits.

    Args:
        fitting: Those of other versions that fit what was asked for.
        others: Those of this version, which do not.
    """
    from bisect_torch.environments import Alike, in_release_order
    from bisect_torch.model import is_variant_name

    if others:
        there = list(map(Alike(others).words, in_release_order(others)))
        more = f": {_LISTS_ALL}" if len(there) > _MOST else ""
        return UsageError(
            f"no environment of {version} is the one that was asked for",
            hint=f"there are: {first_of(there, _MOST, between='; ')}{more}",
        )
    names = [each.build.name for each in in_release_order(fitting)]
    names.sort(key=is_variant_name)  # a hybrid is called by all its packages
    ordered = list(dict.fromkeys([*nearest_names(version, names), *names]))
    known = f"there are: {first_of(ordered, _MOST)}" if names else "there are none"
    return UsageError(f"there is no environment of {version}", hint=f"{known}; `bisect-torch envs build` makes them")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

"""Options about environments, shared by every command that makes them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.arguments import locks, variable_name
from bisect_torch.cli.releases import add_index_arguments, index_options
from bisect_torch.errors import UsageError

if TYPE_CHECKING:
    from bisect_torch.environments import EnvironmentOptions


def add_environment_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that :func:`environment_options` reads: indexes and backend, Python, store, extras."""
    add_index_arguments(parser)
    group = parser.add_argument_group("environments")
    group.add_argument(
        "--python",
        metavar="X.Y",
        help="Python of every environment, or an interpreter's path (default: one that has wheels for the whole range)",
    )
    group.add_argument(
        "--with",
        dest="extras",
        action="append",
        default=[],
        metavar="REQUIREMENT",
        help="install this beside torch, resolved together with it; a bare name follows the release's day",
    )
    group.add_argument(
        "--with-editable",
        dest="editable",
        action="append",
        default=[],
        type=Path,
        metavar="FOLDER",
        help="install the project in this folder as editable",
    )
    group.add_argument(
        "--locks",
        type=locks,
        default=("release",),
        metavar="LIST",
        help="dependencies: release, as they were when the release came out (default); today, the newest ones; run "
        "takes both, as release,today, and says what differs",
    )
    add_store_option(group)


def add_pass_env_option(parser: argparse._ActionsContainer) -> None:
    """Declare ``--pass-env``, which :func:`environment_options` reads."""
    parser.add_argument(
        "--pass-env",
        action="append",
        default=[],
        type=variable_name,
        metavar="NAME",
        help="let cells see this variable: what holds a secret (*_TOKEN, *_KEY, AWS_*, a password in an address) is "
        "kept from them otherwise",
    )


def add_store_option(parser: argparse._ActionsContainer) -> None:
    """Declare ``--store``."""
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FOLDER",
        help="where environments and downloads lie (default: $BISECT_TORCH_STORE, or the user's data folder)",
    )


def environment_options(args: argparse.Namespace, *, both_locks: bool = False) -> EnvironmentOptions:
    """What the options of :func:`add_environment_options` say; the store is opened.

    Args:
        both_locks: Whether the command takes ``--locks release,today``; the options are then those of the release.

    Raises:
        UsageError: A folder, requirement or backend cannot be used.
        InfrastructureError: The store cannot be written.
    """
    from bisect_torch.environments import EnvironmentOptions, Store

    if len(args.locks) > 1 and not both_locks:
        raise UsageError("--locks takes one of release and today here", hint="`bisect-torch run` takes both")
    for text in args.extras:
        if _project_of(text) == "torch":
            raise UsageError(
                "--with torch: each environment has its own torch",
                hint="choose builds with --versions or --from and --to",
            )
    return EnvironmentOptions(
        pass_env=tuple(dict.fromkeys(vars(args).get("pass_env") or ())),
        store=Store.open(args.store),
        python=_python(args.python),
        backend=_backend(args.torch_backend),
        index=index_options(args),
        extras=(*args.extras, *implied_extras(args)),
        editable=tuple(_project(folder) for folder in args.editable),
        locks=args.locks[0],
        max_disk_bytes=vars(args).get("max_disk"),
    )


def _project_of(requirement: str) -> str:
    """The name of the project that ``--with`` names, in small letters.

    Raises:
        UsageError: It is no requirement.
    """
    from bisect_torch.environments import extra_requirement

    return extra_requirement(requirement).name.lower()


def _backend(name: str) -> str:
    """The one backend that ``--torch-backend`` means; a note on stderr says which, where it leaves that open."""
    from bisect_torch.environments.options import DEFAULT_BACKEND

    if name == DEFAULT_BACKEND:
        return name
    from bisect_torch.environments import resolve_backend

    backend, note = resolve_backend(name)
    if note:
        print(f"note: {note}", file=sys.stderr)
    return backend


def implied_extras(args: argparse.Namespace) -> tuple[str, ...]:
    """What ``--pytest`` needs and nobody has named."""
    if args.pytest_words is None:
        return ()
    from bisect_torch.cases import PYTEST_REQUIREMENTS

    return () if "pytest" in map(_project_of, args.extras) else PYTEST_REQUIREMENTS


def python_minor(options: EnvironmentOptions) -> str | None:
    """The minor version of the Python that was named; an interpreter's path is asked. None when none was named.

    Raises:
        UsageError: It is no version and no interpreter.
    """
    from bisect_torch.environments.pythons import named_minor

    return None if options.python is None else named_minor(options.python)


def _python(text: str | None) -> str | None:
    """A version as it is; the absolute path of an interpreter."""
    if text is None or os.sep not in text:
        return text
    return str(str(Path(os.path.expanduser(text)).absolute()))


def _project(folder: Path) -> Path:
    folder = Path(os.path.expanduser(folder)).absolute()
    if not any((folder / name).is_file() for name in ("pyproject.toml", "setup.py")):
        raise UsageError(
            f"--with-editable {folder}: no project there", hint="a folder with a pyproject.toml or setup.py"
        )
    return folder

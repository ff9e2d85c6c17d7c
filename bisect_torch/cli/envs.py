"""``bisect-torch envs``: build, list, find and remove environments; make and check locks."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from bisect_torch.cli.arguments import positive, size
from bisect_torch.cli.envs_lock import add_check_parser, add_lock_parser
from bisect_torch.cli.envs_there import find, list_, path
from bisect_torch.cli.options import add_environment_options, add_store_option, environment_options, python_minor
from bisect_torch.cli.releases import add_selection_arguments, selection
from bisect_torch.errors import BisectTorchError, InfrastructureError, Interrupted, UsageError

if TYPE_CHECKING:
    from bisect_torch.environments import EnvironmentPlan
    from bisect_torch.model import BuildProgress


_EXAMPLES = """\
examples:
  bisect-torch envs build --from 2.9.0 --python 3.12     make them before a run
  bisect-torch envs list
  $(bisect-torch envs path 2.9.1) -c "import torch"      use one by hand
  bisect-torch envs remove 2.4.1
  bisect-torch envs prune --unused 30                    what no run has used for 30 days
  bisect-torch envs prune --max-size 20GB                the longest unused, until the store is that small

next: bisect-torch envs list    what is there
"""
_BUILD_EXAMPLES = """\
examples:
  bisect-torch envs build --versions 2.8.0,2.9.1
  bisect-torch envs build --from 2.9.0 --python 3.12 --torch-backend cpu

exit codes: 0 all are there, 2 usage, 3 one could not be built
next: bisect-torch envs path 2.9.1    the interpreter of one
"""
_LIST_EXAMPLES = """\
examples:
  bisect-torch envs list
  bisect-torch envs list --json

next: bisect-torch doctor    whether they are whole
"""
_PATH_EXAMPLES = """\
examples:
  bisect-torch envs path 2.9.1
  $(bisect-torch envs path 2.9.1 --python 3.12) -c "import torch; print(torch.__config__.show())"
  bisect-torch envs path 2.9.1 --with torchvision

Of several that fit, the one with the least beside torch is meant, of several such the newest.

next: bisect-torch run --versions 2.9.1 -- python repro.py    the same environment, watched and recorded
"""
_REMOVE_EXAMPLES = """\
examples:
  bisect-torch envs remove 2.4.1 2.5.0
  bisect-torch envs remove --all

next: bisect-torch envs prune --unused 30    empties the cache of downloads too
"""
_PRUNE_EXAMPLES = """\
examples:
  bisect-torch envs prune --unused 30 --dry-run     what no run has used for 30 days
  bisect-torch envs prune --older 90
  bisect-torch envs prune --max-size 20GB           the longest unused first

exit codes: 0 removed, 2 usage, 3 some stay, since runs use them
next: bisect-torch doctor    what room there is
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``envs`` command and its sub-commands."""
    parser = subparsers.add_parser(
        "envs",
        usage="%(prog)s COMMAND ...",
        help="build, list, check and remove the environments of releases",
        description="Environments are built once and reused by every run. This command does by hand what a run does by "
        "itself, and looks after the locks that environments are made from.",
        epilog=_EXAMPLES,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, prog=parser.prog)
    build_parser = commands.add_parser(
        "build",
        usage="%(prog)s [OPTIONS]",
        help="build environments without running anything",
        description="Build the environments that are not there, and print each build's interpreter.",
        epilog=_BUILD_EXAMPLES,
    )
    add_selection_arguments(build_parser)
    add_environment_options(build_parser)
    build_parser.set_defaults(command=build)
    list_parser = commands.add_parser(
        "list",
        usage="%(prog)s [OPTIONS]",
        help="list the environments that are there",
        description="List the environments of the store.",
        epilog=_LIST_EXAMPLES,
    )
    list_parser.add_argument("--json", action="store_true", help="print a JSON list")
    add_store_option(list_parser)
    list_parser.set_defaults(command=list_)
    path_parser = commands.add_parser(
        "path",
        usage="%(prog)s [OPTIONS] VERSION",
        help="print the interpreter of an environment",
        description="Print the path of the interpreter of a build's environment, to run things there by hand.",
        epilog=_PATH_EXAMPLES,
    )
    _add_chooser(path_parser)
    path_parser.add_argument("version", metavar="VERSION", help="such as 2.9.1")
    path_parser.set_defaults(command=path)
    remove_parser = commands.add_parser(
        "remove",
        usage="%(prog)s [OPTIONS] VERSION ...\n       %(prog)s [OPTIONS] --all",
        help="remove environments",
        description="Remove environments. Downloads stay in the store's cache, so that building them again is quick.",
        epilog=_REMOVE_EXAMPLES,
    )
    _add_chooser(remove_parser)
    remove_parser.add_argument("versions", nargs="*", metavar="VERSION", help="such as 2.9.1")
    remove_parser.add_argument("--all", action="store_true", help="every environment of the store")
    remove_parser.set_defaults(command=remove)
    prune_parser = commands.add_parser(
        "prune",
        usage="%(prog)s [OPTIONS]",
        help="remove environments by age, use or size",
        description="Remove environments that fit any of the options, and empty the store's cache of downloads, else "
        "no room is made. An environment that a run is using stays.",
        epilog=_PRUNE_EXAMPLES,
    )
    prune_parser.add_argument("--unused", type=positive(float), metavar="DAYS", help="used by no run for so long")
    prune_parser.add_argument("--older", type=positive(float), metavar="DAYS", help="made so long ago")
    prune_parser.add_argument(
        "--max-size", type=size, metavar="SIZE", help="the longest unused, until the store takes at most this"
    )
    prune_parser.add_argument("--dry-run", action="store_true", help="only print them")
    add_store_option(prune_parser)
    prune_parser.set_defaults(command=prune)
    add_lock_parser(commands)
    add_check_parser(commands)


def command(args: argparse.Namespace) -> int:
    """Run the chosen sub-command."""
    return int(args.command(args))


def _add_chooser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python", metavar="X.Y", help="only those with this Python")
    parser.add_argument("--torch-backend", metavar="NAME", help="only those of this backend")
    parser.add_argument(
        "--with",
        dest="extras",
        action="append",
        default=[],
        metavar="REQUIREMENT",
        help="only those that hold this too",
    )
    add_store_option(parser)


# --- build


def build(args: argparse.Namespace) -> int:
    """Build what is missing; one line with the interpreter for each build on stdout.

    Exit code 3 when one could not be built; the others are built all the same.
    """
    from bisect_torch import environments
    from bisect_torch.releases.choosing import choose_builds

    options = environment_options(args)
    minor = python_minor(options)
    left_out = []

    def leave_out(name: str, error: InfrastructureError) -> None:
        left_out.append(name)
        _say(f"{name} is not known: {error.message}")

    builds = choose_builds(
        selection(args),
        options.index,
        python=minor,
        backend=options.backend,
        cache_dir=options.store.index_cache,
        ledger=options.store.nightlies,
        installed=lambda build: environments.is_installed(build, options, minor),
        note=lambda text: _say(f"note: {text}"),
        unknown=leave_out,
    )
    plan = environments.plan_environments(builds, options)
    _say_plan(plan)
    failed = len(left_out)
    for planned in plan.environments:
        try:
            if planned.reason:
                raise environments.NotInstallable(planned.reason)
            if planned.offline:
                raise InfrastructureError(planned.offline)
            environment, _ = environments.ensure(planned.build, options, progress=_Lines().show, python=planned.request)
        except Interrupted:
            raise
        except BisectTorchError as error:
            failed += 1
            _say(f"{planned.build.name}: {error.message}")
            if error.detail is not None:  # nothing keeps it here
                _say("\n".join(f"  {line}" for line in error.detail.splitlines()))
            continue
        print(f"{planned.build.name}\t{environment.python}", flush=True)
    if failed:
        raise InfrastructureError(
            f"{failed} of {len(builds) + len(left_out)} environments could not be built",
            hint="what failed stands above; the same line tries only those again",
        )
    return 0


class _Lines:
    """Progress as lines on stderr: a new phase at once, bytes at every tenth."""

    def __init__(self) -> None:
        self._seen: tuple[str, int] = ("", -1)

    def show(self, event: BuildProgress) -> None:
        total, done = event.total_bytes or 0, event.done_bytes or 0
        tenth = 10 * done // total if total else 0
        if (event.phase, tenth) == self._seen and not event.message:
            return
        self._seen = (event.phase, tenth)
        amount = f" {done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else ""
        _say(f"{event.build.name}: {event.phase}{amount}{': ' if event.message else ''}{event.message}")


def _say_plan(plan: EnvironmentPlan) -> None:
    from bisect_torch.cli.run_plan import UNSIZED, unsized_lines

    if plan.missing:
        sizes = f"{plan.download_bytes / 1e9:.1f} GB to download, {plan.disk_bytes / 1e9:.1f} GB on disk"
        _say(
            f"{len(plan.missing)} environments to build: {sizes if plan.sized else UNSIZED}, "
            f"{'about' if plan.sized else 'at least'} {max(1, round(plan.minutes))} min ({plan.basis})"
        )
    for line in unsized_lines(plan):
        _say(line)
    for note in plan.notes:
        _say(f"note: {note}")
    for hint in plan.hints:
        _say(f"hint: {hint}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- remove, prune


def remove(args: argparse.Namespace) -> int:
    """Remove environments; their folders on stdout."""
    from bisect_torch import environments

    if bool(args.versions) == args.all:
        raise UsageError("name the versions to remove, or --all", hint="`bisect-torch envs list` shows what is there")
    store = environments.Store.open(args.store)
    for environment in find(args, None if args.all else args.versions):
        environments.remove(environment, store)
        print(environment.root, flush=True)
    return 0


def prune(args: argparse.Namespace) -> int:
    """Remove environments by age, use or size; their folders on stdout.

    Exit code 3 when some stay because runs use them.
    """
    import time

    from bisect_torch import environments

    if args.unused is None and args.older is None and args.max_size is None:
        raise UsageError(
            "say what to prune: --unused DAYS, --older DAYS or --max-size SIZE",
            hint="bisect-torch envs prune --unused 30 --dry-run",
        )
    store = environments.Store.open(args.store)
    store.sweep_leftovers()
    found = environments.aged(store)
    condemned = environments.to_prune(found, now=time.time(), unused_days=args.unused, older_days=args.older)
    if args.max_size is not None:
        others = [each for each in found if each.environment not in condemned]
        condemned += environments.to_fit(others, *environments.files_of(store, others), args.max_size)
    if args.dry_run:
        print("".join(f"{environment.root}\n" for environment in condemned), end="")
        return 0
    before = store.used_bytes()
    in_use = 0
    for environment in condemned:
        try:
            environments.remove(environment, store)
        except environments.InUse as error:
            in_use += 1
            _say(error.message)
        else:
            print(environment.root, flush=True)
    environments.clean_cache(store)
    _say(f"{(before - store.used_bytes()) / 1e9:.1f} GB freed")
    return InfrastructureError.exit_code if in_use else 0

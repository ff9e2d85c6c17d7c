"""``bisect-torch envs lock`` and ``envs check``: make the committed locks, and check them against a package index."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bisect_torch.cli.releases import add_index_arguments, index_options

_LOCK_EXAMPLES = """\
examples:
  bisect-torch envs lock 2.15.0          one release
  bisect-torch envs lock                 every release that has no lock yet

next: bisect-torch envs check 2.15.0    whether every platform can be installed from it
"""
_CHECK_EXAMPLES = """\
examples:
  bisect-torch envs check
  bisect-torch envs check 2.15.0 --json

exit codes: 0 all are good, 1 one is not, 2 usage
next: bisect-torch run --versions 2.15.0    the shipped cases on it
"""


def add_lock_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Declare ``envs lock``."""
    parser = subparsers.add_parser(
        "lock",
        usage="%(prog)s [OPTIONS] [VERSION ...]",
        help="make the lock of a release, its row in the catalogue and its sizes",
        description="Make the locks of releases, their rows in the catalogue and the table of wheel sizes.",
        epilog=_LOCK_EXAMPLES,
    )
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="default: every release that has no lock yet")
    _add_folder(parser)
    add_index_arguments(parser)
    parser.set_defaults(command=lock)
    return parser


def add_check_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Declare ``envs check``."""
    parser = subparsers.add_parser(
        "check",
        usage="%(prog)s [OPTIONS] [VERSION ...]",
        help="check the locks against the index",
        description="Check that each lock can be installed with the oldest and newest Python on Linux x86_64, "
        "Linux aarch64 and macOS arm64: the hashes are on the index, and uv finds nothing missing.",
        epilog=_CHECK_EXAMPLES,
    )
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="default: all in the catalogue")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    _add_folder(parser)
    add_index_arguments(parser)
    parser.set_defaults(command=check)
    return parser


def lock(args: argparse.Namespace) -> int:
    """Make locks; prints their versions on stdout and each step on stderr."""
    from bisect_torch.errors import UsageError
    from bisect_torch.releases.locking import lock_releases
    from bisect_torch.temporary import why_unwritable

    folder = _folder(args)
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())  # it is made where it is not
    if why := why_unwritable(there):
        raise UsageError(
            f"nothing can be written in {there}: {why}", hint="name a folder for the locks: --folder FOLDER"
        )
    made = lock_releases(
        args.versions, index_options(args), folder, lambda text: print(text, file=sys.stderr, flush=True)
    )
    for version in made:
        print(version)
    return 0


def check(args: argparse.Namespace) -> int:
    """Check locks; one line each on stdout. Exit code 1 when one is not good."""
    from bisect_torch.releases.locking import check_locks

    rows = []
    for version, targets, problems in check_locks(args.versions, index_options(args), _folder(args)):
        where = [f"{target.platform} Python {target.python}" for target in targets]
        rows.append({"version": version, "checked": where, "problems": problems})
        if not args.json:
            print(f"{version}: {'; '.join(problems) or f'good on {len(where)} targets'}", flush=True)
    if args.json:
        import json

        print(json.dumps(rows, indent=2))
    return 1 if any(row["problems"] for row in rows) else 0


def _add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="of the locks (default: the tool's own)")


def _folder(args: argparse.Namespace) -> Path:
    from bisect_torch.releases.catalogue import envs_folder

    return args.folder if args.folder is not None else envs_folder()

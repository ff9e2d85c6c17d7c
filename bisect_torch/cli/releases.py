"""``bisect-torch releases``: which torch builds exist for this platform."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from bisect_torch.cli.arguments import backend, comma_list

if TYPE_CHECKING:
    from pathlib import Path

    from bisect_torch.model import Build
    from bisect_torch.releases.catalogue import Release
    from bisect_torch.releases.index import IndexOptions
    from bisect_torch.releases.nightly_words import NightlyWord
    from bisect_torch.releases.selection import Selection


_EXAMPLES = """\
examples:
  bisect-torch releases
  bisect-torch releases --from 2.9.0 --python 3.12
  bisect-torch releases --torch-backend cpu --json
  bisect-torch releases --torch-backend cpu --nightly 2026-11-01..2026-11-28

next: bisect-torch run --versions 2.9.1,2.14.0 --dry-run    what two of them would take
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Declare the command."""
    parser = subparsers.add_parser(
        "releases",
        usage="%(prog)s [OPTIONS]",
        help="list the torch builds that exist for this platform",
        description="List the torch builds that exist for this platform, with what is known about each: day, Pythons, "
        "CUDA, commit, size of torch and of all that is downloaded with it, and whether a lock ships with the tool.",
        epilog=_EXAMPLES,
    )
    add_selection_arguments(parser)
    add_index_arguments(parser)
    parser.add_argument("--python", metavar="X.Y", help="only builds with a wheel for this Python")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    parser.set_defaults(command=command)
    return parser


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that :func:`selection` reads."""
    group = parser.add_argument_group("which builds")
    group.add_argument("--from", dest="first", metavar="VERSION", help="oldest, inclusive (default: 2.4.1)")
    group.add_argument("--to", dest="last", metavar="VERSION", help="newest, inclusive (default: the newest there is)")
    group.add_argument(
        "--versions",
        action="append",
        type=comma_list,
        default=[],
        metavar="LIST",
        help="builds by name, separated by commas: versions, nightly, test, days, or paths of Python interpreters",
    )
    add_narrowing_arguments(group)
    add_nightly_argument(group)


def add_narrowing_arguments(group: argparse._ActionsContainer) -> None:
    """Declare what leaves builds of a range out: ``--exclude`` and ``--minor-only``."""
    group.add_argument(
        "--exclude",
        action="append",
        type=comma_list,
        default=[],
        metavar="LIST",
        help="versions that do not take part",
    )
    group.add_argument("--minor-only", action="store_true", help="only the last patch of each minor release")


def add_nightly_argument(parser: argparse._ActionsContainer) -> None:
    """Declare ``--nightly``, which :func:`nightly_words` reads."""
    parser.add_argument(
        "--nightly",
        action="append",
        type=comma_list,
        default=[],
        metavar="WHEN",
        help="builds that are no releases, beside the others that are named: latest, a day 2026-11-20, days "
        "2026-11-01..2026-11-28, or test (the release candidate)",
    )


def add_source_argument(parser: argparse._ActionsContainer) -> None:
    """Declare ``--source``, a path for :func:`bisect_torch.releases.commits.check_source`."""
    parser.add_argument(
        "--source",
        type=_path,
        metavar="CHECKOUT",
        help="a git clone of PyTorch, to find the commits of main from which nightly builds were made",
    )


def nightly_words(args: argparse.Namespace) -> tuple[NightlyWord, ...]:
    """What ``--nightly`` says.

    Raises:
        UsageError: A word means nothing.
    """
    if not args.nightly:
        return ()
    from bisect_torch.releases.nightly_words import nightly_word

    return tuple(dict.fromkeys(nightly_word(text) for text in _joined(args.nightly)))


def add_index_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that :func:`index_options` reads, and ``--torch-backend``."""
    group = parser.add_argument_group("where they come from")
    group.add_argument("--index-url", metavar="URL", help="package index in place of the default one")
    group.add_argument("--extra-index-url", action="append", default=[], metavar="URL", help="one more package index")
    group.add_argument(
        "--find-links", action="append", default=[], metavar="PLACE", help="folder of wheels, or a page of links"
    )
    group.add_argument("--offline", action="store_true", help="ask no server; use the catalogue and local folders")
    group.add_argument(
        "--torch-backend",
        type=backend,
        default="pypi",
        metavar="NAME",
        help="pypi (default: what `pip install torch` gives), cpu, cu128, rocm6.4, rocm, xpu, auto",
    )


def selection(args: argparse.Namespace) -> Selection:
    """What the options of :func:`add_selection_arguments` say."""
    from bisect_torch.releases.selection import Selection

    return Selection(
        first=args.first,
        last=args.last,
        versions=_joined(args.versions),
        exclude=_joined(args.exclude),
        minor_only=args.minor_only,
        nightly=nightly_words(args),
    )


def index_options(args: argparse.Namespace) -> IndexOptions:
    """What the options of :func:`add_index_arguments` say."""
    from bisect_torch.releases.index import IndexOptions

    return IndexOptions(
        index_url=args.index_url,
        extra_index_urls=tuple(args.extra_index_url),
        find_links=tuple(args.find_links),
        offline=args.offline,
    )


def command(args: argparse.Namespace) -> int:
    """Print the list on stdout."""
    from bisect_torch.releases.catalogue import load_catalogue
    from bisect_torch.releases.choosing import choose_builds
    from bisect_torch.releases.platforms import python_of

    if args.python is not None:
        args.python = python_of(args.python)
    builds = choose_builds(
        selection(args),
        index_options(args),
        python=args.python,
        backend=args.torch_backend,
        cache_dir=_store() / "index-cache",
        ledger=_store() / "nightlies" / "ledger.json",
        note=lambda text: print(f"note: {text}", file=sys.stderr),
    )
    catalogue = {release.version: release for release in load_catalogue()}
    rows = [_row(build, catalogue.get(build.version), args) for build in builds]
    if args.json:
        import json

        print(json.dumps(rows, indent=2))
    else:
        print(_table(rows))
    return 0


def _path(text: str) -> Path:
    from pathlib import Path

    return Path(text)


def _store() -> Path:
    from bisect_torch.environments.store import default_root

    return default_root()


def _joined(lists: list[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in lists for name in names))


def _row(build: Build, release: Release | None, args: argparse.Namespace) -> dict[str, object]:
    """What is known about a build, ready for JSON; sizes are in bytes, for the chosen Python or else the newest."""
    known = release if release is not None and build.git_commit == release.git_commit else None
    from_default = known is not None and build.lock is not None and args.torch_backend == "pypi"
    return {
        "version": build.version,
        "name": build.name,
        "kind": build.kind.value,
        "day": build.day.isoformat() if build.day is not None else None,
        "pythons": list(build.pythons),
        "cuda": known.cuda if known is not None and from_default and _on_linux_x86() else None,
        "git_commit": build.git_commit,
        "torch_bytes": build.download_bytes,
        "download_bytes": _whole_size(build, args.python),
        "locked": build.lock is not None,
        "yanked": build.yanked,
        "notes": known.notes if known is not None else "",
    }


def _on_linux_x86() -> bool:
    from bisect_torch.releases.platforms import LINUX_X86_64, this_platform

    return this_platform() == LINUX_X86_64


def _whole_size(build: Build, python: str | None) -> int | None:
    """Of all wheels that the lock installs here; None when there is no lock or a size is not known."""
    if build.lock is None or not build.pythons:
        return None
    from bisect_torch.releases.locks import parse_lock
    from bisect_torch.releases.platforms import Target
    from bisect_torch.releases.sizes import known_wheels, lock_size, locked_wheels

    pins = parse_lock(build.lock.read_text(encoding="utf-8"))
    size = lock_size(locked_wheels(pins, Target(python or build.pythons[-1]), known_wheels()))
    return None if size.unknown else size.download_bytes


def _table(rows: list[dict[str, object]]) -> str:
    head = ("version", "day", "Pythons", "CUDA", "commit", "torch", "with deps", "lock")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join(text)


def _cells(row: dict[str, object]) -> tuple[str, ...]:
    pythons = row["pythons"]
    assert isinstance(pythons, list)
    lock = "local" if row["kind"] == "local" else "yes" if row["locked"] else "made on the fly"
    return (
        f"{row['name']}{' (yanked)' if row['yanked'] else ''}",
        str(row["day"] or "-"),
        "-".join(dict.fromkeys((pythons[0], pythons[-1]))) if pythons else "?",
        str(row["cuda"] or "-"),
        str(row["git_commit"] or "-")[:10],
        _megabytes(row["torch_bytes"]),
        _megabytes(row["download_bytes"]),
        lock,
    )


def _megabytes(size: object) -> str:
    return f"{size / 1e6:.0f} MB" if isinstance(size, int) else "-"

"""``bisect-torch doctor``: would a run work on this machine, and what to mend where not."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.options import add_store_option
from bisect_torch.cli.releases import add_index_arguments, add_selection_arguments, index_options, selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_torch.doctor import Check

_DESCRIPTION = """\
Look at what a run needs: uv, Pythons, index, store, disk, memory, compiler, GPU, variables. Each line is
ok, a warning (a run works, but not all of it or not as well) or a fault (it does not work), with what it
means and a command that mends it. Builds, Python and backend are named as for `run`: room and downloads
are then those of that run. Nothing on the disk is changed, and torch is not needed.
"""

_EXAMPLES = """\
examples:
  bisect-torch doctor
  bisect-torch doctor --offline                              ask no server
  bisect-torch doctor --from 2.9.0 --store /data/torches     before the first run of these there
  bisect-torch doctor --json

exit codes: 0 a run would work, 2 usage, 3 it would not
next: bisect-torch run --dry-run    what would be downloaded
"""

_WIDTH = 16


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``doctor`` command."""
    parser = subparsers.add_parser(
        "doctor",
        usage="%(prog)s [OPTIONS]",
        help="what is missing on this machine, and how to mend it",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("results.parquet"),
        metavar="FILE",
        help="the results file that the run would write (default results.parquet)",
    )
    parser.add_argument("--python", metavar="X.Y", help="of environments, as for run")
    add_store_option(parser)
    add_index_arguments(parser)
    add_selection_arguments(parser)


def command(args: argparse.Namespace) -> int:
    """Print every check. Exit code 3 when one is a fault.

    Raises:
        UsageError: uv's settings are not valid, or the backend means nothing here, or a build does not exist.
    """
    import os

    from bisect_torch.doctor import Asked, Status, chosen_builds, examine
    from bisect_torch.environments import Store, resolve_backend
    from bisect_torch.environments.store import default_root

    root = Path(os.path.expanduser(args.store or default_root())).absolute()
    backend, _ = resolve_backend(args.torch_backend)
    asked = Asked(Store(root), args.output, index_options(args), backend, args.python, selection(args))
    chosen_builds(asked)  # a build that does not exist is a wrong line, and no fault of the machine
    checks = examine(asked)
    print(_json(checks) if args.json else _text(checks, _next(args.own_words)))
    return 3 if any(check.status is Status.FAULT for check in checks) else 0


def _json(checks: Sequence[Check]) -> str:
    import json

    from bisect_torch.doctor import Status
    from bisect_torch.redaction import this_machine

    hide = this_machine().hide_secrets
    rows = [
        {
            "name": check.name,
            "status": check.status.value,
            "found": hide(check.found),
            "means": hide(check.means),
            "fix": hide(check.fix),
        }
        for check in checks
    ]
    return json.dumps({"ok": all(check.status is not Status.FAULT for check in checks), "checks": rows}, indent=2)


def _next(own_words: Sequence[str]) -> str:
    """The run that was asked about: it knows every option of this command."""
    import shlex

    words = ["run" if word == "doctor" else word for word in own_words]
    return shlex.join(["bisect-torch", *words, "--dry-run"])


def _text(checks: Sequence[Check], then: str) -> str:
    from bisect_torch.cli.output import printable
    from bisect_torch.redaction import this_machine

    hide = this_machine().hide_secrets
    lines: list[str] = []
    for check in checks:
        margin = " " * (_WIDTH + 10)
        lines += _wrapped(f"{check.status.value:<8} {check.name:<{_WIDTH}} {check.found}", margin)
        if check.means:
            lines += _wrapped(f"{margin}{check.means}", margin)
        if check.fix:
            lines.append(f"{margin}fix: {check.fix}")
    lines += ["", _summary(checks, then)]
    return "\n".join(printable(hide(line)) for line in lines)


def _wrapped(line: str, margin: str) -> list[str]:
    """The line in the columns of a terminal, which would part its words."""
    import sys
    import textwrap

    from bisect_torch.report.terminal import width_for

    width = width_for(sys.stdout)
    if not sys.stdout.isatty() or len(line) <= width:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)


def _summary(checks: Sequence[Check], then: str) -> str:
    from bisect_torch.doctor import Status

    faults, warnings = (sum(check.status is status for check in checks) for status in (Status.FAULT, Status.WARNING))
    if faults:
        return f"A run would not work: {faults} fault{'s' if faults > 1 else ''} to mend first."
    warned = f" with {warnings} warning{'s' if warnings > 1 else ''}" if warnings else ""
    return f"A run would work{warned}. Next: {then}"

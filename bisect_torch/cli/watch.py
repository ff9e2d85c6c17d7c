"""``bisect-torch watch``: run a file again on every save."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.arguments import devices, positive, size
from bisect_torch.cli.options import add_environment_options, add_pass_env_option
from bisect_torch.cli.releases import add_selection_arguments

if TYPE_CHECKING:
    from bisect_torch.cases import Discovered
    from bisect_torch.interruption import Interruption

_DESCRIPTION = """\
Run a case file on all builds, and again on every save, on workers that stay warm: one for
each build, which has imported torch and forks for every cell. For making a repro smaller
while seeing that it still tells the releases apart. The ends of transitions are confirmed
afterwards, in interpreters of their own, and marked until then. A script works too, but
imports torch for every run. Nothing is kept: `run` makes results. Ctrl-C ends it.
"""

_EXAMPLES = """\
examples:
  bisect-torch watch cases.py --from 2.4.1 --to 2.14.0
  bisect-torch watch cases.py -k "bmm and not float64" --versions 2.6.0,2.7.0

exit codes: 130 as Ctrl-C ends it, 2 usage
next: bisect-torch run cases.py    results that are kept
"""

MEMORY_SHARE = 0.5
"""Of the memory that is available at the start, for the warm workers together."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``watch`` command."""
    parser = subparsers.add_parser(
        "watch",
        usage="%(prog)s [OPTIONS] FILE",
        help="run a file again on every save, on workers that stay warm",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a case file, or a script")
    add_selection_arguments(parser)
    running = parser.add_argument_group("running")
    running.add_argument("-k", dest="select", metavar="EXPRESSION", help="only what fits: 'bmm and not float64'")
    running.add_argument("--jobs", type=positive(int), metavar="N", help="cells at once (default: one a core)")
    running.add_argument(
        "--timeout", type=positive(float), default=20.0, metavar="SECONDS", help="for one cell (default %(default)g)"
    )
    running.add_argument(
        "--device", type=devices, default=("cpu",), metavar="LIST", help="such as cpu,cuda:0 (default cpu)"
    )
    running.add_argument("--threads", type=positive(int), metavar="N", help="that torch uses (default: its own choice)")
    running.add_argument("--seed", type=int, default=0, metavar="N", help="of cases, not scripts (default 0)")
    running.add_argument("--bad-if-output", metavar="REGEX", help="output of a script that means wrong")
    add_pass_env_option(running)
    running.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="for warm workers together, such as 4GiB; the oldest is dropped beyond (default: half of what is free)",
    )
    add_environment_options(parser)


def command(args: argparse.Namespace) -> int:
    """Watch until it is interrupted: 130.

    Raises:
        UsageError: The file does not exist, or is no single file.
    """
    from bisect_torch.interruption import Interruption

    interruption = Interruption()
    with interruption.watched():
        try:
            _command(args, interruption)
        except KeyboardInterrupt:
            print("watch ended", file=sys.stderr)
        return 130


def _command(args: argparse.Namespace, interruption: Interruption) -> None:
    import dataclasses
    import shlex

    from bisect_torch import cases, temporary
    from bisect_torch.cli.run_request import build_request
    from bisect_torch.engine import host
    from bisect_torch.engine.watch import Watch
    from bisect_torch.errors import UsageError
    from bisect_torch.report.watching import open_watch_report

    if not args.file.is_file():
        path, _, case = str(args.file).partition("::")
        named = f"only one of its cases: {shlex.join(['bisect-torch', 'watch', path, '-k', case])}" if case else ""
        what = "is a folder" if args.file.is_dir() else "no such file"
        raise UsageError(f"{args.file}: {what}", hint=named or "watch takes one case file or script")

    def read(path: Path) -> Discovered:
        return cases.discover([path], bad_if_output=args.bad_if_output)[0]

    # Its cases are read on every save, and nothing is kept: what a run would have beside that is not asked for.
    args.isolation, args.repeat, args.thorough, args.fresh, args.source = None, 1, False, False, None
    args.max_memory = None
    with temporary.folder() as folder:  # nothing is kept: where it was started, nothing needs to be writable
        args.output = folder / "results.parquet"
        request = build_request(args, discovered=())
    budget = args.memory or int(host.available_memory() * MEMORY_SHARE)
    missing = len(request.plan.missing)
    if missing:
        print(f"{missing} of {len(request.builds)} environments are made first", file=sys.stderr)
    with open_watch_report(sys.stdout) as show:
        watch = Watch(
            dataclasses.replace(request, working_directory=args.file.absolute().parent),
            args.file.absolute(),
            read=read,
            budget_bytes=budget,
            show=show,
        )
        watch.execute(interruption)

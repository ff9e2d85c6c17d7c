"""``bisect-torch run``: every case on every build, and what changed where."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.options import add_environment_options
from bisect_torch.cli.profiling import Profiling
from bisect_torch.cli.releases import add_selection_arguments
from bisect_torch.cli.running_options import add_pytest_argument, add_results_arguments, add_running_arguments
from bisect_torch.cli.sharding import add_shard_arguments, empty_line, placed

if TYPE_CHECKING:
    from bisect_torch.interruption import Interruption

_EXAMPLES = """\
examples:
  bisect-torch run --dry-run                          how much would be downloaded, and stop
  bisect-torch run                                    the shipped cases on every release since 2.4.1
  bisect-torch run repro.py --from 2.6.0 --to 2.9.1   a script: an exception or exit code not 0 is bad
  bisect-torch run cases.py -k "bmm and not float64"  some cases of a file
  bisect-torch run "cases.py::bmm[batch=65552]"       one of them
  bisect-torch run repro.py --versions 2.8.0,2.9.1,/opt/venv/bin/python
  bisect-torch run --with torchvision repro.py --minor-only
  bisect-torch run cases.py --no-confirm              a first look; the same line without it confirms
  bisect-torch run repro.py --locks release,today     what do newer dependencies change
  bisect-torch run repro.py --from 2.13.0 --nightly latest --torch-backend cpu
  bisect-torch run repro.py --nightly 2026-11-01..2026-11-28 --torch-backend cpu --source ~/pytorch
  bisect-torch run cases.py --shard 3/8 -o shard-3.parquet
  bisect-torch run --from 2.6.0 -- python train.py --steps 3
  bisect-torch run --with-editable . --minor-only --pytest tests -k attention

Results are kept, also after Ctrl-C: the same line again runs only what is missing. Once all cells have run,
what is told of them is confirmed, which may take longer: Ctrl-C then ends with the matrix, not confirmed, and
--no-confirm leaves it out from the start.
exit codes: 0 all good at the newest build, 1 something is bad there, 2 usage, 3 could not be judged, 130 interrupted
next: bisect-torch report results.parquet    a bug report, a page or a picture of what was found
"""

_CONFIRMING_HINT = "Ctrl-C ends it with the matrix, not confirmed; --no-confirm leaves this out"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``run`` command."""
    parser = subparsers.add_parser(
        "run",
        usage="%(prog)s [OPTIONS] [FILE ...]\n       %(prog)s [OPTIONS] -- COMMAND ARGS...\n"
        "       %(prog)s [OPTIONS] --pytest ARGS...",
        help="run cases on every release and say what changed where",
        description="Run case files, scripts or a command in an isolated, locked environment of each release, and say "
        "in which release something changed. Environments are made once and kept.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="case files (FILE::CASE for one case), scripts, folders (default: the shipped cases)",
    )
    add_pytest_argument(parser)
    add_selection_arguments(parser)
    add_running_arguments(parser, matrix=True)
    add_shard_arguments(parser)
    add_results_arguments(parser, kept="", doing="run")
    add_environment_options(parser)


def command(args: argparse.Namespace) -> int:
    """Run, print what was found, and return the exit code: see the program's help."""
    from bisect_torch.cli.output import until_interrupted
    from bisect_torch.cli.run_findings import continue_with

    return until_interrupted(
        lambda interruption: _command(args, interruption),
        None if args.dry_run else lambda: f"continue with: {continue_with(sys.argv[1:])}",
    )


def _command(args: argparse.Namespace, interruption: Interruption) -> int:
    from bisect_torch.cli.output import drop_stdout
    from bisect_torch.cli.run_findings import findings_of, print_findings
    from bisect_torch.cli.run_plan import print_plan, refuse_in_vain, show_plan
    from bisect_torch.cli.run_request import build_request, tell_late_options, tell_missing_program
    from bisect_torch.engine.run import Run
    from bisect_torch.errors import UsageError
    from bisect_torch.report.terminal import open_report

    elsewhere = args.executor != "local"
    if elsewhere and args.max_disk is not None:
        raise UsageError(
            "--max-disk is for the store of this machine, not for those of a cluster's nodes",
            hint="a node's own disk is what its environments may take",
        )
    profiling = Profiling(args.profile)
    with profiling.step("planning"):
        request = build_request(
            args, in_groups=not elsewhere, partial=True, elsewhere=elsewhere, confirm=not args.no_confirm
        )
    tell_late_options(args)
    tell_missing_program(args, request.plan)
    if args.dry_run:
        print_plan(request, as_json=args.json)
        refuse_in_vain(request)
        return 0
    if not args.quiet and request.plan.missing:
        show_plan(request)
    with (
        profiling.written(request.file.private),
        open_report(quiet=args.quiet, confirming_hint=_CONFIRMING_HINT) as observe,
        placed(args, request, observe) as (request, site),
    ):
        result = Run(request, profiling.observing(observe), interruption, site=site).execute()
    findings = findings_of(request, result)
    empty = request.shard is not None and not findings.series and not findings.interrupted
    if empty:
        print(f"note: {empty_line(request)}", file=sys.stderr)
    try:
        if args.json or not empty:
            print_findings(findings, as_json=args.json)
        sys.stdout.flush()
    except OSError:
        if not findings.interrupted:
            raise
        drop_stdout()  # SIGHUP: the terminal has gone
    return 0 if empty and not request.unread else findings.exit_code

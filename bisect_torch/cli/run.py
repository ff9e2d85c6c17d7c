"""``bisect-torch run``: every case on every build, and what changed where."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.options import add_environment_options, add_selection_options

if TYPE_CHECKING:
    from bisect_torch.cases import Discovered
    from bisect_torch.engine.request import RunRequest, RunResult
    from bisect_torch.model import Build

DEFAULT_FIRST = "2.4.1"
DEFAULT_TIMEOUT_S = 120.0

_EXAMPLES = """\
examples:
  bisect-torch run                                        the shipped cases on every release since 2.4.1
  bisect-torch run repro.py --from 2.6.0 --to 2.9.1       a script
  bisect-torch run cases.py -k "bmm and not float64" --versions 2.8.0,2.9.1,/opt/venv/bin/python
  bisect-torch run --with torchvision repro.py --minor-only
  bisect-torch run --from 2.6.0 -- python train.py --steps 3

Results are kept: the same line again runs only what is missing. --dry-run says what would be downloaded and stops.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``run`` command."""
    parser = subparsers.add_parser(
        "run",
        help="run cases on every release and say what changed where",
        description="Run case files, scripts or a command (after --) in an isolated, locked environment of each "
        "release, and say in which release something changed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="case files, scripts or folders of them; none: shipped ones"
    )
    add_selection_options(parser)
    running = parser.add_argument_group("running")
    running.add_argument("-k", dest="select", metavar="EXPRESSION", help="only instances whose name matches")
    running.add_argument("--repeat", type=_positive(int), default=1, metavar="N", help="runs of every cell (default 1)")
    running.add_argument("--jobs", type=_positive(int), metavar="N", help="cells at once (default: one a core)")
    running.add_argument(
        "--timeout",
        type=_positive(float),
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="of a cell; loading torch and its compiler does not count (default %(default)g)",
    )
    running.add_argument("--device", default="cpu", metavar="LIST", help="cpu, cuda, cuda:0, mps, xpu (default cpu)")
    running.add_argument("--threads", type=_positive(int), metavar="N", help="torch's threads (default: torch's choice)")
    running.add_argument("--isolation", choices=("fork", "process"), help="how cells run (default: fork where safe)")
    running.add_argument("--seed", type=int, default=0, metavar="N", help="of cases; scripts are never seeded")
    running.add_argument("--bad-if-output", metavar="REGEX", help="output of a script or command that means wrong")
    running.add_argument("--max-memory", type=_size, metavar="SIZE", help="for all cells together, such as 12GiB")
    results = parser.add_argument_group("results")
    results.add_argument(
        "-o", "--output", type=Path, default=Path("results.parquet"), metavar="FILE", help="default %(default)s"
    )
    results.add_argument("--fresh", action="store_true", help="run again what the results file already holds")
    results.add_argument("--dry-run", action="store_true", help="say what would be downloaded and run, and stop")
    results.add_argument("--json", action="store_true", help="the outcome as JSON on stdout")
    results.add_argument("-q", "--quiet", action="store_true", help="no progress, only the outcome")
    add_environment_options(parser)


def command(args: argparse.Namespace) -> int:
    """Run, print what was found, and return the exit code: see the program's help."""
    from bisect_torch.cli import run_report
    from bisect_torch.engine.run import Run

    request = build_request(args)
    if args.dry_run:
        run_report.print_plan(request, as_json=args.json)
        return 0
    if not args.quiet and not request.plan.nothing_to_do:
        run_report.print_plan_lines(request)
    with run_report.observer(quiet=args.quiet) as observe:
        result = Run(request, observe).execute()
    run_report.print_result(request, result, as_json=args.json)
    return exit_code(result)


def build_request(args: argparse.Namespace) -> RunRequest:
    """Everything that can be refused is refused here, before anything is downloaded.

    Raises:
        BisectTorchError: A file, a range, a version, an option cannot be used, or the disk is too small.
    """
    from bisect_torch import environments
    from bisect_torch.cli.options import environment_options, selection
    from bisect_torch.engine import host
    from bisect_torch.engine.executor import default_jobs
    from bisect_torch.engine.request import RunRequest
    from bisect_torch.model import Isolation

    discovered = discover(args)
    options = environment_options(args)
    builds = chosen_builds(selection(args, default_first=DEFAULT_FIRST), options)
    plan = environments.plan_environments(builds, options)
    memory = args.max_memory or int(host.available_memory() * 0.9)
    return RunRequest(
        builds=builds,
        discovered=discovered,
        environment_options=options,
        plan=plan,
        results=args.output,
        working_directory=Path.cwd(),
        devices=tuple(name.strip() for name in args.device.split(",") if name.strip()),
        select=args.select,
        jobs=args.jobs or default_jobs(),
        timeout_s=args.timeout,
        repeats=args.repeat,
        isolation=Isolation(args.isolation) if args.isolation else None,
        threads=args.threads,
        seed=args.seed,
        memory_bytes=memory,
        fresh=args.fresh,
    )


def discover(args: argparse.Namespace) -> tuple[Discovered, ...]:
    """The case files, scripts or command that the line names; the shipped cases when it names none."""
    from bisect_torch import cases
    from bisect_torch.shipped import shipped

    words = tuple(args.command_words or ())
    files = args.files or ([] if words else [shipped("cases") / "default.py"])
    return cases.discover(files, command=words, bad_if_output=args.bad_if_output)


def exit_code(result: RunResult) -> int:
    """0 all good at the newest build, 1 something is bad there, 3 something could not be judged there."""
    from bisect_torch.model import Verdict

    if result.interrupted:
        return 130
    newest = [series.points[-1] for series in result.series if series.points]
    verdicts = [point.judgement.verdict for point in newest if point is not None]
    if any(verdict.bad for verdict in verdicts):
        return 1
    if not verdicts or any(not verdict.judged and verdict is not Verdict.SKIP for verdict in verdicts):
        return 3
    return 0

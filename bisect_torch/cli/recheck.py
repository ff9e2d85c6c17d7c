"""``bisect-torch recheck``: does a new build fix what was bad in earlier results?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bisect_torch.cli.arguments import positive, size
from bisect_torch.cli.options import add_environment_options, add_pass_env_option
from bisect_torch.cli.releases import add_selection_arguments
from bisect_torch.cli.running_options import add_dry_run_option

if TYPE_CHECKING:
    from bisect_torch.engine.earlier import Conditions
    from bisect_torch.errors import InfrastructureError
    from bisect_torch.interruption import Interruption
    from bisect_torch.report.recheck import Recheck

_DESCRIPTION = """\
Run what was bad in an earlier results file on one new build (the latest nightly where none
is named), under the same conditions (device, threads, time, Python, backend, extras: what
is not named below is as it was then), and say what is fixed, still bad, or fails
differently; with a comment for the upstream issue. Of every row the newest build on which
it was judged counts. A fix is believed once it was seen in three processes, one of them an
interpreter of its own; a flaky row is repeated until chance is unlikely.
"""

_EXAMPLES = """\
examples:
  bisect-torch recheck results.parquet --versions 2.15.0
  bisect-torch recheck results.parquet -k "bmm and not float64" --versions 2.15.0    some rows
  bisect-torch recheck results.parquet repro.py --versions 2.15.0   the case file lies elsewhere now
  bisect-torch recheck results.parquet --versions 2.15.0 --comment - | gh issue comment 1234 -F -
  bisect-torch recheck results.parquet --versions 2.15.0 -q --state said.json     for cron: says a thing once

exit codes: 0 all that was bad is fixed, 1 something is still bad, 2 usage, 3 could not be judged, 130 interrupted
next: bisect-torch judge recheck.parquet    what the new build gave
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``recheck`` command."""
    parser = subparsers.add_parser(
        "recheck",
        usage="%(prog)s [OPTIONS] RESULTS [FILE ...]",
        help="does a new build fix what was bad in earlier results?",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="of an earlier run; it is not changed")
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="case files that lie elsewhere now, found by their names"
    )
    add_selection_arguments(parser)
    group = parser.add_argument_group("rechecking")
    group.add_argument("-k", dest="select", metavar="EXPRESSION", help="only what fits: 'bmm and not float64'")
    group.add_argument("--all", dest="everything", action="store_true", help="also what was ok: find what is newly bad")
    group.add_argument(
        "--changed",
        choices=("refuse", "run", "skip"),
        default="refuse",
        help="case files that have changed since or are gone: refuse (default), run them as they are now, or skip them",
    )
    group.add_argument("--jobs", type=positive(int), metavar="N", help="cells at once (default: one a core)")
    group.add_argument("--timeout", type=positive(float), metavar="SECONDS", help="for one cell (default: as then)")
    group.add_argument("--max-memory", type=size, metavar="SIZE", help="for all cells together, such as 12GiB")
    add_pass_env_option(group)
    results = parser.add_argument_group("results")
    results.add_argument(
        "-o", "--output", type=Path, default=Path("recheck.parquet"), metavar="FILE", help="default %(default)s"
    )
    results.add_argument("--fresh", action="store_true", help="run again what that file already holds")
    add_dry_run_option(results, doing="run")
    results.add_argument("--state", type=Path, metavar="FILE", help="remember what was said, and say only what is new")
    results.add_argument(
        "--comment", metavar="FILE", help="write the comment there, and keep what was there as FILE~; - prints it alone"
    )
    results.add_argument("--json", action="store_true", help="the outcome as JSON on stdout")
    results.add_argument("-q", "--quiet", action="store_true", help="no progress, only the outcome")
    add_environment_options(parser)
    parser.set_defaults(torch_backend=None, locks=None)


def command(args: argparse.Namespace) -> int:
    """Recheck, print what was found, and return the exit code: see the program's help."""
    from bisect_torch.cli.output import until_interrupted
    from bisect_torch.cli.run_findings import continue_with

    return until_interrupted(
        lambda interruption: _command(args, interruption),
        None if args.dry_run else lambda: f"continue with: {continue_with(sys.argv[1:])}",
    )


def _command(args: argparse.Namespace, interruption: Interruption) -> int:
    from bisect_torch.cli.output import refuse_unwritable
    from bisect_torch.cli.run_plan import print_plan, refuse_in_vain
    from bisect_torch.cli.run_request import build_request
    from bisect_torch.engine import host
    from bisect_torch.engine.earlier import read_earlier
    from bisect_torch.engine.recheck import compare, narrowed, observed, plan_recheck, refuse_older
    from bisect_torch.engine.run import Run
    from bisect_torch.errors import UsageError
    from bisect_torch.redaction import inside
    from bisect_torch.report.recheck import Recheck
    from bisect_torch.report.terminal import open_report
    from bisect_torch.report.unchecked import only_ran
    from bisect_torch.results import ResultsFile
    from bisect_torch.results.said import news, read_said, write_said

    if args.json and args.comment == "-":
        raise UsageError("--json and --comment - both want stdout", hint="name a file with --comment")
    if args.output.resolve() == args.results.resolve():
        raise UsageError("-o is RESULTS itself, which is not changed", hint="name another file with -o")
    for option, path in (("-o", args.output), ("--comment", args.comment), ("--state", args.state)):
        if path not in (None, "-"):
            refuse_unwritable(option, Path(path))
    said = {} if args.state is None else read_said(args.state)
    earlier = read_earlier(ResultsFile.open(args.results, must_exist=True), args.files, args.select)
    plan = plan_recheck(earlier, everything=args.everything, changed=args.changed)
    if not plan.rows:
        which = "these results" if args.select is None else f"the rows that fit -k {args.select!r}"
        print(f"nothing is bad at the newest build of {which}", file=sys.stderr)
        return 0
    _take_over(args, earlier.conditions)
    if left := sorted(set(earlier.conditions.pass_env) - set(args.pass_env)):
        print(f"note: the earlier cells saw {', '.join(left)}; --pass-env lets these see it too", file=sys.stderr)
    unknown = _name_one if _choose_build(args) else None
    request = narrowed(build_request(args, discovered=plan.discovered, in_groups=True, unknown=unknown), plan)
    refuse_older(request.builds[0], plan)
    if args.dry_run:
        print_plan(request, as_json=args.json)
        refuse_in_vain(request)
        return 0
    with open_report(quiet=args.quiet) as observe:
        result = Run(request, observe, interruption).execute()
    seen = observed(plan, request, result)
    checks_output = args.bad_if_output is not None
    only = {row for row, each in seen.items() if not checks_output and only_ran(each, request.file.sources)}
    rows = compare(plan, request, seen, result, only)
    build = request.builds[0]
    found = Recheck(
        build=build,
        environment=result.environments.get(build.name),
        earlier=earlier.environments,
        rows=rows,
        news=tuple(news(rows, said)) if args.state is not None else rows,
        observations=earlier.observations,
        seen=seen,
        results=args.results,
        output=args.output,
        interrupted=result.interrupted,
        seconds=result.seconds,
        notes=(*plan.notes, *request.plan.notes),
        machine=(host.machine_class(), host.cpu_name()),
    )
    found = inside(found, request.file.private)
    _print(found, args)
    if args.state is not None and not found.interrupted:
        write_said(args.state, rows, said)
    return found.exit_code


def _take_over(args: argparse.Namespace, then: Conditions) -> None:
    """The conditions of the earlier run, where the line says nothing else."""
    args.device, args.select, args.source = then.devices, None, None
    args.timeout = args.timeout or then.timeout_s
    args.threads, args.seed, args.thorough = then.threads, then.seed, then.thorough
    args.isolation, args.bad_if_output, args.repeat = then.isolation, then.bad_if_output, 1
    args.torch_backend = args.torch_backend or then.backend or "pypi"
    args.locks = args.locks or (then.locks.partition(",")[0],)  # of a run with both, those of the release
    args.python = args.python or then.python
    args.extras = args.extras or list(then.extras)
    args.editable = args.editable or list(then.editable)


def _choose_build(args: argparse.Namespace) -> bool:
    """The latest nightly where no build is named; whether that is so."""
    from bisect_torch.errors import UsageError

    if args.versions or args.first or args.last or vars(args).get("nightly"):
        return False
    if "nightly" not in vars(args):
        raise UsageError("which build? none is named", hint="name the new one: --versions 2.15.0")
    args.nightly = [("latest",)]
    return True


def _name_one(_: str, error: InfrastructureError) -> NoReturn:
    """Raises InfrastructureError where the nightly that nobody named cannot be found."""
    from bisect_torch.errors import InfrastructureError

    instead = "name a build with --versions; without one it is the latest nightly"
    raise InfrastructureError(error.message, hint=f"{instead}: {error.hint}" if error.hint else instead) from error


def _print(found: Recheck, args: argparse.Namespace) -> None:
    from bisect_torch.cli.output import printable
    from bisect_torch.report.recheck import recheck_data, recheck_lines
    from bisect_torch.report.recheck_comment import comments
    from bisect_torch.report.terminal import print_lines, width_for
    from bisect_torch.report.text import plural

    written = comments(found)
    text = "\n".join((f"<!-- {issue} -->\n" if issue else "") + comment for issue, comment in written)
    if args.comment not in (None, "-"):
        kept = _write(Path(args.comment), text)
        if not args.quiet:
            print(printable(f"wrote {args.comment}: {plural(len(written), 'comment')}{kept}"), file=sys.stderr)
    if args.json:
        import json

        document = {**recheck_data(found), "comments": [{"issue": issue, "text": body} for issue, body in written]}
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return
    if args.comment == "-":
        sys.stdout.write(text)
        return
    print_lines(recheck_lines(found, width_for(sys.stdout)))
    if args.comment is None:
        for issue, body in written:
            sys.stdout.write(f"\na comment for {issue or 'the upstream issue'}:\n\n{body}")


def _write(path: Path, text: str) -> str:
    """Write it; what is to be said of a file that stood there."""
    from bisect_torch.cli.output import write_and_keep
    from bisect_torch.errors import InfrastructureError

    try:
        return write_and_keep(path, text.encode())
    except OSError as problem:
        raise InfrastructureError(
            f"--comment {path}: cannot be written: {problem.strerror}", hint="name another file, or - for stdout"
        ) from problem

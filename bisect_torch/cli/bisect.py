"""``bisect-torch bisect``: which release changed it, with few installs."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING

from bisect_torch.cli.arguments import positive, probability
from bisect_torch.cli.bisect_words import build_bisection
from bisect_torch.cli.options import add_environment_options
from bisect_torch.cli.profiling import Profiling
from bisect_torch.cli.releases import add_narrowing_arguments
from bisect_torch.cli.run_findings import continue_with, known_releases, origins_of, print_findings
from bisect_torch.cli.running_options import add_pytest_argument, add_results_arguments, add_running_arguments

if TYPE_CHECKING:
    from bisect_torch.engine.search.request import BisectRequest, BisectResult
    from bisect_torch.interruption import Interruption
    from bisect_torch.report.findings import Findings

_EXAMPLES = """\
examples:
  bisect-torch bisect repro.py --good 2.6.0 --bad 2.9.0     which release broke it
  bisect-torch bisect repro.py --bad 2.9.0                  walk back from there to one that is good
  bisect-torch bisect repro.py --bad 2.9.0 --find-fix       walk on from there to one that is good
  bisect-torch bisect "cases.py::bmm[batch=65552]" --good 2.6.0 --bad 2.9.0
  bisect-torch bisect cases.py -k bmm --good 2.6.0 --bad 2.9.0
  bisect-torch bisect flaky.py --good 2.6.0 --bad 2.9.0 --flaky
  bisect-torch bisect repro.py --good 2.15.0 --bad nightly --torch-backend cpu --source ~/pytorch
  bisect-torch bisect repro.py --good 2.13.0 --nightly --torch-backend cpu       the release, then the nightly
  bisect-torch bisect repro.py --good 2026-11-01 --bad 2026-11-28 --torch-backend cpu
  bisect-torch bisect --good 2.6.0 --bad 2.9.0 -- python train.py --steps 3
  bisect-torch bisect --good 2.6.0 --bad 2.9.0 --with-editable . --pytest tests/test_ops.py::test_pad

The ends may be named either way round: a change of verdict is searched, and named afterwards (broke, fixed, first
available). What the results file holds is not run again, so that a search after `run` costs nothing.
exit codes: 0 good at the newer end, 1 bad or flaky there, 2 usage, 3 could not be judged, 130 interrupted
next: bisect-torch report results.parquet    a bug report of what was found
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``bisect`` command."""
    parser = subparsers.add_parser(
        "bisect",
        usage="%(prog)s [OPTIONS] CASE --good BUILD --bad BUILD\n"
        "       %(prog)s [OPTIONS] --good BUILD --bad BUILD -- COMMAND ARGS...\n"
        "       %(prog)s [OPTIONS] --good BUILD --bad BUILD --pytest ARGS...",
        help="find the release that changed it, with few installs",
        description="Find the two neighbouring releases between which a case changed: both ends are judged, then the "
        "middle, and so on: at most log2(builds) + 2 environments for one change. Builds that cannot be judged move "
        "no bound. A case that shows its bug only now and then is searched by probabilities.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "case", nargs="?", metavar="CASE", help="a case file, file.py::case, file.py::case[parameter=value], a script"
    )
    add_pytest_argument(parser)
    group = parser.add_argument_group("which builds")
    group.add_argument("--good", metavar="BUILD", help="said to be good; alone: search newer builds from there")
    group.add_argument("--bad", metavar="BUILD", help="said to be bad; alone: search older builds from there")
    group.add_argument(
        "--find-fix", action="store_true", help="with one end: the other way, from bad to newer, from good to older"
    )
    group.add_argument(
        "--from", dest="first", metavar="VERSION", help="with one end: not further back (default: 2.4.1)"
    )
    group.add_argument("--to", dest="last", metavar="VERSION", help="with one end: not beyond (default: the newest)")
    add_narrowing_arguments(group)
    group.add_argument(
        "--nightly",
        nargs="?",
        const="latest",
        metavar="WHEN",
        help="go on inside the gap between two releases, over the nightly builds that are left: all up to the latest "
        "(default), up to a day 2026-11-20, or those of days 2026-11-01..2026-11-28",
    )
    searching = parser.add_argument_group("searching")
    searching.add_argument(
        "--flaky", action="store_true", help="it shows only now and then: believe no single run (found out otherwise)"
    )
    searching.add_argument(
        "--confidence",
        type=probability,
        default=0.95,
        metavar="P",
        help="at which the boundary of a flaky case is named (default %(default)g)",
    )
    searching.add_argument(
        "--flaky-budget",
        type=positive(float),
        default=1800.0,
        metavar="SECONDS",
        help="for all runs of flaky cases together (default %(default)g)",
    )
    searching.add_argument(
        "--absent",
        choices=("skip", "judge"),
        default="skip",
        help="a torch that lacks a name which the case uses: skip, neither good nor bad (default); judge, where it is "
        "first available is what is searched for",
    )
    searching.add_argument(
        "--speculate",
        type=positive(int),
        default=0,
        metavar="N",
        help="make up to N environments ahead while cells run; takes more disk, less time",
    )
    add_running_arguments(parser, matrix=False)
    add_results_arguments(parser, kept="; what it holds is not run again without --fresh", doing="judged")
    add_environment_options(parser)


def command(args: argparse.Namespace) -> int:
    """Search, print what was found, and return the exit code: see the program's help."""
    from bisect_torch.cli.output import until_interrupted

    return until_interrupted(
        lambda interruption: _command(args, interruption),
        None if args.dry_run else lambda: f"continue with: {continue_with(sys.argv[1:])}",
    )


def _command(args: argparse.Namespace, interruption: Interruption) -> int:
    from bisect_torch.cli.run_plan import print_plan, print_wrapped, refuse_in_vain
    from bisect_torch.cli.run_request import tell_late_options, tell_missing_program
    from bisect_torch.engine.search.bisection import Bisection
    from bisect_torch.redaction import inside
    from bisect_torch.report.bisection import BisectionReport

    profiling = Profiling(args.profile)
    with profiling.step("planning"):
        request = build_bisection(args)
    tell_late_options(args)
    tell_missing_program(args, request.run.plan)
    lines = [request.run.file.private.redact(line) for line in _plan_lines(request)]
    if args.dry_run:
        print_plan(request.run, as_json=args.json, lines=lines)
        refuse_in_vain(request.run, search=True)
        return 0
    if not args.quiet:
        print_wrapped(lines, sys.stderr)
    with (
        profiling.written(request.run.file.private),
        BisectionReport(sys.stderr, quiet=args.quiet) as observe,
    ):
        result = Bisection(request, profiling.observing(observe), interruption).execute()
    _print(inside(result, request.run.file.private), findings_of(request, result), as_json=args.json)
    return result.exit_code


def _plan_lines(request: BisectRequest) -> list[str]:
    from bisect_torch.analysis.search import most_probes
    from bisect_torch.cli.run_plan import UNSIZED, impossible_lines, unsized_lines
    from bisect_torch.report.text import bytes_words, plural

    plan, builds = request.run.plan, request.run.builds
    missing, fine = len(plan.missing), len(request.question.fine)
    most = most_probes(request.question)
    inside = f", {fine} of them nightly builds that only a gap between two others asks for" if fine else ""
    lines = [
        f"{plural(len(builds), 'build')} from {builds[0].name} to {builds[-1].name}{inside}: at most {most} to judge "
        f"for one change, {plural(missing, 'environment')} of all missing"
    ]
    if missing:
        download, disk = bytes_words(plan.download_bytes), bytes_words(plan.disk_bytes)
        lines.append(
            f"{f'to download up to {download}, on disk {disk} of ' if plan.sized else f'{UNSIZED}, '}"
            f"{bytes_words(plan.free_bytes)} free; up to {max(1, round(plan.minutes))} min ({plan.basis})"
        )
    lines += [*impossible_lines(plan), *unsized_lines(plan)]
    return [*lines, *(f"note: {note}" for note in plan.notes), *(f"hint: {hint}" for hint in plan.hints)]


def findings_of(request: BisectRequest, result: BisectResult) -> Findings:
    """What the reports are made from: the builds of the range that was searched."""
    from bisect_torch.redaction import inside
    from bisect_torch.report.doubts import doubted
    from bisect_torch.report.findings import Findings

    names = _shown(result) or tuple(build.name for build in request.run.builds)
    series = tuple(
        dataclasses.replace(
            row.series,
            builds=names,
            points=tuple(row.series.points[row.series.builds.index(name)] for name in names),
        )
        for row in result.rows
    )
    found = Findings(
        builds=tuple(build for build in result.builds if build.name in names),
        environments=result.environments,
        series=series,
        transitions=result.transitions,
        observations=result.observations,
        results=request.run.results,
        continue_with=continue_with(request.run.file.private.kept_words(sys.argv[1:])) if result.interrupted else None,
        interrupted=result.interrupted,
        seconds=result.seconds,
        notes=request.run.plan.notes,
        known_releases=known_releases(),
        origins=origins_of(result.builds, result.environments, request.run.source),
        runs=request.run.file.runs,
        sources=request.run.file.sources,
    )
    return inside(doubted(found), request.run.file.private)


def _shown(result: BisectResult) -> tuple[str, ...]:
    """From the oldest to the newest build that has an answer in some row; of nightly builds those that have one."""
    from bisect_torch.model import BuildKind

    seen = {point.build for row in result.rows for point in row.series.points if point is not None}
    places = [place for place, build in enumerate(result.builds) if build.name in seen]
    if not places:
        return ()
    between = result.builds[places[0] : places[-1] + 1]
    return tuple(build.name for build in between if build.name in seen or build.kind is not BuildKind.NIGHTLY)


def _print(result: BisectResult, findings: Findings, *, as_json: bool) -> None:
    from bisect_torch.cli.output import drop_stdout
    from bisect_torch.report.bisection import search_data, search_lines

    try:
        if as_json:
            import json

            from bisect_torch.report.data import as_data

            sys.stdout.write(json.dumps({**as_data(findings), "search": search_data(result)}, indent=1) + "\n")
        else:
            from bisect_torch.report.terminal import print_lines, width_for

            if not result.interrupted or result.judged or result.known:
                print_lines([*search_lines(result, width_for(sys.stdout)), ()])
            print_findings(findings, as_json=False)
        sys.stdout.flush()
    except OSError:
        if not result.interrupted:
            raise
        drop_stdout()  # SIGHUP: the terminal has gone

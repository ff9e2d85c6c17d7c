"""``bisect-torch judge``: a new matrix from stored numbers, without running anything."""

from __future__ import annotations

import argparse
import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_torch.analysis import Tolerances
    from bisect_torch.report.findings import Findings
    from bisect_torch.results import ResultsFile

_DESCRIPTION = """\
Judge results again, without running. With --rtol or --atol an element is right when

    |actual - reference| <= atol + rtol * |reference|

instead of by the criterion that was in force when the cell ran; one alone leaves the other
at 0. So --rtol alone is stricter with small elements than the default of check(), which
measures every error by the largest element: one whose reference is 0 must be exactly 0.
What a case asserted itself does not change. Where the stored histogram of errors leaves it
open, the cell is undecidable, and no end of a transition: with these tolerances in its
check() it is run again by the line that is printed last. Rows that no tolerance can judge
are named, with the reason.
"""

_EXAMPLES = """\
examples:
  bisect-torch judge results.parquet                       the matrix again, as run printed it
  bisect-torch judge results.parquet --unfold -k bmm       a line for each row, no two as one
  bisect-torch judge results.parquet --rtol 1e-3 --atol 1e-5
  bisect-torch judge results.parquet --rtol 1e-3 --atol 1e-5 --json > judged.json

exit codes: 0 all good at the newest build, 1 something is bad there, 2 usage, 3 could not be judged
next: bisect-torch report results.parquet    a bug report, a page or a picture
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``judge`` command."""
    parser = subparsers.add_parser(
        "judge",
        usage="%(prog)s [OPTIONS] RESULTS [CASE ...]",
        help="judge results again with other tolerances, without running",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="a results file, such as results.parquet")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these")
    parser.add_argument("-k", dest="select", metavar="EXPRESSION", help="only what fits: 'bmm and not float64'")
    parser.add_argument("--unfold", action="store_true", help="a line for each row, by its whole name")
    parser.add_argument(
        "--rtol",
        type=_tolerance,
        metavar="X",
        help="relative to the reference's element: alone, no error where that is 0",
    )
    parser.add_argument("--atol", type=_tolerance, metavar="X", help="absolute")
    parser.add_argument("--json", action="store_true", help="the outcome as JSON on stdout")


def command(args: argparse.Namespace) -> int:
    """Print the matrix and the transitions; the exit code is that of ``run``."""
    from bisect_torch.cli.rows import only_chosen
    from bisect_torch.cli.run_findings import print_findings
    from bisect_torch.results import ResultsFile

    tolerances = _tolerances(args)
    findings = judged_again(ResultsFile.open(args.results, must_exist=True), tolerances)
    findings = _told(only_chosen(findings, args.cases, args.select, args.results), tolerances)
    findings = dataclasses.replace(findings, results=args.results)  # so that hints can be copied
    print_findings(findings, as_json=args.json, unfolded=args.unfold)
    return findings.exit_code


def judged_again(results: ResultsFile, tolerances: Tolerances | None) -> Findings:
    """What a results file holds, judged under these tolerances.

    Raises:
        UsageError: It holds no observation.
    """
    from bisect_torch import analysis
    from bisect_torch.cli.run_findings import known_releases
    from bisect_torch.errors import UsageError
    from bisect_torch.model import Series
    from bisect_torch.redaction import inside
    from bisect_torch.report.doubts import doubted
    from bisect_torch.report.earlier_texts import earlier_texts
    from bisect_torch.report.findings import Findings
    from bisect_torch.results import how_to_make
    from bisect_torch.results.recalled import recalled_builds, recalled_environments, recalled_twins

    observations = results.observations()
    if not observations:
        raise UsageError(f"{results.path} holds no results yet", hint=how_to_make(results.path))
    shown = analysis.counted(observations)
    environments = recalled_environments(results.runs)
    builds = recalled_builds(observations, environments, results.runs)
    order = analysis.PlannedOrder(results.runs)
    names = tuple(build.name for build in builds)
    seen = analysis.build_series(observations, names, tolerances)
    never = [Series(*row, names, (None,) * len(names)) for row in analysis.never_begun(results.runs, seen)]
    series = tuple(order.sorted((*seen, *never)))
    twins = tuple(
        each
        for pair in recalled_twins(observations, builds)
        for each in order.sorted(analysis.build_series(observations, pair, tolerances))
        if each.points[1] is not None
    )
    found = Findings(
        builds=builds,
        environments=environments,
        series=series,
        transitions=tuple(found for each in series for found in analysis.transitions(each)),
        observations=shown,
        results=results.path,
        notes=results.problems,
        known_releases=known_releases(),
        twins=twins,
        runs=results.runs,
        sources=results.sources,
        earlier=earlier_texts(observations, shown, results.runs),
    )
    return inside(doubted(found), results.private)


def _told(findings: Findings, tolerances: Tolerances | None) -> Findings:
    """With what is to be said of other tolerances, about these rows."""
    from bisect_torch.report.rejudged import not_rejudged_words

    if tolerances is None:
        return findings
    words = f"judged with rtol={tolerances.rtol:g} and atol={tolerances.atol:g}, and nothing was run"
    if tolerances.atol == 0:
        words += "; with atol=0 an element whose reference is 0 must be exactly 0, unlike by check()'s default"
    words += "; numbers of wrong elements are those that the run counted, by its own criterion"
    notes = (*findings.notes, words, *not_rejudged_words(findings))
    return dataclasses.replace(findings, notes=notes, tolerances=tolerances)


def _tolerances(args: argparse.Namespace) -> Tolerances | None:
    from bisect_torch.analysis import Tolerances

    if args.rtol is None and args.atol is None:
        return None
    return Tolerances(rtol=args.rtol or 0.0, atol=args.atol or 0.0)


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from zero up")
    return value

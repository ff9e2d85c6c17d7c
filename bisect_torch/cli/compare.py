"""``bisect-torch compare``: two results files, cell by cell."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.arguments import device_pair, positive

if TYPE_CHECKING:
    from bisect_torch.analysis.comparing import Comparison
    from bisect_torch.results import ResultsFile

_DESCRIPTION = """\
Compare two results files: two machines, devices, days, backends or choices of dependencies. Says which
cells differ in verdict, signature, bits or error, how many are equal to the bit, which stand in only one
of them, and what differs between the machines and environments. Nothing is run.
"""

_EXAMPLES = """\
examples:
  bisect-torch compare mine.parquet published.parquet
  bisect-torch compare cpu.parquet cuda.parquet --device cpu=cuda:0
  bisect-torch compare both.parquet both.parquet --device cpu=cuda:0    two devices of one run

exit codes: 0 no differences, 1 differences, 2 usage, 3 nothing that could be compared
next: bisect-torch report mine.parquet    a bug report of one of them
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``compare`` command."""
    parser = subparsers.add_parser(
        "compare",
        usage="%(prog)s [OPTIONS] A B",
        help="two machines, devices or days: what differs, what is equal to the bit",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("first", type=Path, metavar="A", help="a results file")
    parser.add_argument("second", type=Path, metavar="B", help="another one")
    parser.add_argument(
        "--device",
        type=device_pair,
        action="append",
        default=[],
        metavar="A=B",
        help="compare A's device with B's, such as cpu=cuda:0 (default: the same device, else the only one of each)",
    )
    parser.add_argument(
        "--factor",
        type=positive(float),
        default=None,
        metavar="X",
        help="ratio of two errors from which they differ (default 10: a digit lost)",
    )
    parser.add_argument("--json", action="store_true", help="every cell as JSON on stdout")


def command(args: argparse.Namespace) -> int:
    """Print the comparison; the exit code says whether anything differs.

    Raises:
        UsageError: A file holds no results, or a device that was named does not stand in its file.
    """
    from bisect_torch.errors import UsageError
    from bisect_torch.results import ResultsFile

    first, second = (ResultsFile.open(path, must_exist=True) for path in (args.first, args.second))
    if args.first.resolve() == args.second.resolve() and not args.device:
        raise UsageError(
            f"{args.first} is named twice", hint="--device cpu=cuda:0 compares two devices that stand in one file"
        )
    comparison = _compared(args, first, second)
    for problem in (*first.problems, *second.problems):
        print(f"note: {problem}", file=sys.stderr)
    _print(comparison, as_json=args.json)
    return comparison.exit_code


def _compared(args: argparse.Namespace, first: ResultsFile, second: ResultsFile) -> Comparison:
    from bisect_torch.analysis.comparing import FACTOR, Side, compare
    from bisect_torch.analysis.matching import devices_of
    from bisect_torch.errors import UsageError
    from bisect_torch.results import how_to_make
    from bisect_torch.results.recalled import recalled_builds, recalled_environments

    sides = []
    for place, (path, results) in enumerate(((args.first, first), (args.second, second))):
        observations = results.observations()
        if not observations:
            raise UsageError(f"{path} holds no results yet", hint=how_to_make(path))
        there = devices_of(observations)
        for name in (pair[place] for pair in args.device):
            if name not in there:
                raise UsageError(f"{path} holds no results on {name}", hint=f"it has {', '.join(there)}")
        sides.append(Side(str(path), tuple(observations), results.runs))
    known = [
        build.name
        for file in (first, second)
        for build in recalled_builds(file.observations(), recalled_environments(file.runs), file.runs)
    ]
    return compare(
        sides[0],
        sides[1],
        tuple(dict.fromkeys(known)),
        devices=tuple(args.device),
        factor=FACTOR if args.factor is None else args.factor,
    )


def _print(comparison: Comparison, *, as_json: bool) -> None:
    if as_json:
        import json

        from bisect_torch.report.comparing import comparison_data

        sys.stdout.write(json.dumps(comparison_data(comparison), indent=1) + "\n")
        return
    from bisect_torch.report.comparing import comparison_lines
    from bisect_torch.report.terminal import print_lines, width_for

    print_lines(comparison_lines(comparison, width_for(sys.stdout)))

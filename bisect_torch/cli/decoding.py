"""``bisect-torch decoding``: what changes the greedy output of a language model, from stored results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

_DESCRIPTION = """\
What a run of `--suite decoding` found, in one table: does upgrading torch change the greedy output of a
language model, from which release and at which token; does batch size, threads, left padding or tensor
parallel; in which precision; and does LayerCast stop it. With the four measures of arXiv 2506.09501.
Nothing is run.
"""

_EXAMPLES = """\
examples:
  bisect-torch run --suite decoding --from 2.9.0 -o decoding.parquet    makes the results
  bisect-torch decoding decoding.parquet
  bisect-torch decoding decoding.parquet --json > decoding.json

exit codes: 0 the table is printed, 2 usage
next: bisect-torch report decoding.parquet    a bug report of what changed
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``decoding`` command."""
    parser = subparsers.add_parser(
        "decoding",
        usage="%(prog)s [OPTIONS] RESULTS",
        help="what changes the greedy output of a language model, from stored results",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="a results file, such as results.parquet")
    parser.add_argument("--json", action="store_true", help="as JSON on stdout, with every number")


def command(args: argparse.Namespace) -> int:
    """Print the table; 0 unless there is nothing to print.

    Raises:
        UsageError: The file holds no results of decoding cases.
    """
    import shlex

    from bisect_torch.cli.judge import judged_again
    from bisect_torch.errors import UsageError
    from bisect_torch.report.decoding import decoding, decoding_lines
    from bisect_torch.results import ResultsFile

    found = decoding(judged_again(ResultsFile.open(args.results, must_exist=True), None))
    if found is None:
        raise UsageError(
            f"{args.results} holds no results of decoding cases",
            hint=f"`bisect-torch run --suite decoding -o {shlex.quote(str(args.results))}` adds them",
        )
    if args.json:
        import json

        from bisect_torch.report.decoding_data import decoding_data

        sys.stdout.write(json.dumps(decoding_data(found), indent=1) + "\n")
        return 0
    from bisect_torch.report.terminal import print_lines, width_for

    print_lines(list(decoding_lines(found, width_for(sys.stdout))))
    return 0

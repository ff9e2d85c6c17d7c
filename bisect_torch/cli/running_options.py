"""Options about how cells run and where results go, shared by ``run`` and ``bisect``."""

from __future__ import annotations

import argparse
from pathlib import Path

from bisect_torch.cli.arguments import comma_list, devices, positive, size
from bisect_torch.cli.options import add_pass_env_option
from bisect_torch.cli.profiling import add_profile_option
from bisect_torch.cli.releases import add_source_argument
from bisect_torch.model import DEFAULT_TIMEOUT_S


def add_running_arguments(parser: argparse.ArgumentParser, *, matrix: bool) -> None:
    """Declare how cells run, for every command that runs them.

    Args:
        matrix: Also what makes sense only where a whole matrix is run.
    """
    running = parser.add_argument_group("running")
    if matrix:
        running.add_argument(
            "--suite",
            type=comma_list,
            default=(),
            metavar="LIST",
            help="groups of shipped cases: default, large-index, decoding; they run beside the files",
        )
    running.add_argument("-k", dest="select", metavar="EXPRESSION", help="only what fits: 'bmm and not float64'")
    running.add_argument(
        "--thorough", action="store_true", help="compare everything that cases otherwise sample; takes much longer"
    )
    if matrix:
        running.add_argument(
            "--repeat", type=positive(int), default=1, metavar="N", help="runs of every cell (default 1)"
        )
        running.add_argument(
            "--no-confirm",
            action="store_true",
            help="a first look: nothing runs again to confirm what is told, and it is told as not confirmed",
        )
    running.add_argument(
        "--jobs",
        type=positive(int),
        metavar="N",
        help="cells at once (default: one a core, and one more for each accelerator)",
    )
    running.add_argument(
        "--timeout",
        type=positive(float),
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="for one cell, without loading torch and its compiler (default %(default)g)",
    )
    running.add_argument(
        "--device",
        type=devices,
        default=("cpu",),
        metavar="LIST",
        help="such as cpu,cuda:0 (default cpu); one cell at a time on each accelerator",
    )
    running.add_argument("--threads", type=positive(int), metavar="N", help="that torch uses (default: its own choice)")
    running.add_argument(
        "--isolation",
        choices=("fork", "process"),
        help="of cells (default: fork where safe)",
    )
    running.add_argument("--seed", type=int, default=0, metavar="N", help="of cases, not scripts (default 0)")
    running.add_argument("--bad-if-output", metavar="REGEX", help="output of a script or command that means wrong")
    running.add_argument("--max-memory", type=size, metavar="SIZE", help="for all cells together, such as 12GiB")
    running.add_argument(
        "--max-disk",
        type=size,
        metavar="SIZE",
        help="for the store, such as 16GB: environments are made in turns and removed (default: all that is free)",
    )
    add_pass_env_option(running)


def add_results_arguments(parser: argparse.ArgumentParser, *, kept: str, doing: str) -> None:
    """Declare where results go and what is shown.

    Args:
        kept: What ``--help`` says of a results file that is there already.
        doing: What happens to a cell: run, judged.
    """
    results = parser.add_argument_group("results")
    results.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("results.parquet"),
        metavar="FILE",
        help=f"default %(default)s{kept}",
    )
    add_source_argument(results)
    add_profile_option(results)
    results.add_argument("--fresh", action="store_true", help="run again what the results file already holds")
    add_dry_run_option(results, doing=doing)
    results.add_argument("--json", action="store_true", help="the outcome as JSON on stdout")
    results.add_argument("-q", "--quiet", action="store_true", help="no progress, only the outcome")


def add_dry_run_option(parser: argparse._ActionsContainer, *, doing: str) -> None:
    """Declare ``--dry-run``.

    Args:
        doing: What would happen to a cell: run, judged.
    """
    parser.add_argument("--dry-run", action="store_true", help=f"say what would be downloaded and {doing}, and stop")


def add_pytest_argument(parser: argparse.ArgumentParser) -> None:
    """Have ``--help`` tell of ``--pytest``; its words never reach argparse."""
    parser.add_argument(
        "--pytest",
        nargs=argparse.REMAINDER,
        metavar="ARGS...",
        help="run the project's tests with pytest: everything after it is pytest's own; pytest is installed too",
    )

"""``bisect-torch report``: what a results file says, in the format that its reader wants."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_torch.report.findings import Findings

_DESCRIPTION = """\
Write what a results file says as a report. Nothing is run.

  markdown  a bug report for GitHub, in the two fields of PyTorch's form: what changed where, the code
            that ran, traceback, environments; always below GitHub's limit of 65,536 characters
  html      one page to explore, without network
  png, svg  a picture of the matrix
  json      everything, as --json of run; report/findings.schema.json describes it
  csv       a row for each cell
  junit     a test suite for each build, for CI

Without CASE and -k the report covers all that was found, the most severe first. A CASE is an
instance, a case, a script or a case file, by name.
"""

_EXAMPLES = """\
examples:
  bisect-torch report results.parquet repro > issue.md
  bisect-torch report results.parquet -k "bmm and bfloat16" --format markdown -o issue.md
  bisect-torch report results.parquet --format html -o report.html
  bisect-torch report results.parquet --format junit -o junit.xml

exit codes: 0 the report is written, 1 nothing was found, so there is no markdown (stderr says why), 2 usage, 3 the same
where the newest build could not be judged, or it cannot be written
next: bisect-torch recheck results.parquet --versions 2.15.0    does a new build fix it?
"""


@dataclass(frozen=True)
class _Format:
    """Where a format is made.

    Args:
        module: Imported only when the format is wanted.
        function: Takes the findings, returns a text or bytes.
        binary: Not for a terminal.
    """

    module: str
    function: str
    binary: bool = False


FORMATS: Mapping[str, _Format] = {
    "markdown": _Format("bisect_torch.report.markdown", "markdown"),
    "html": _Format("bisect_torch.report.html", "html"),
    "png": _Format("bisect_torch.report.picture", "png", binary=True),
    "svg": _Format("bisect_torch.report.picture", "svg"),
    "json": _Format("bisect_torch.report.data", "json_text"),
    "csv": _Format("bisect_torch.report.csv_table", "csv_table"),
    "junit": _Format("bisect_torch.report.junit", "junit"),
}

_BY_SUFFIX = {"md": "markdown", **{name: name for name in FORMATS}, "xml": "junit"}
"""Ending of a file's name to its format."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``report`` command."""
    parser = subparsers.add_parser(
        "report",
        usage="%(prog)s [OPTIONS] RESULTS [CASE ...]",
        help="a bug report, a page, a picture or data from results",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="a results file, such as results.parquet")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these")
    parser.add_argument("-k", dest="select", metavar="EXPRESSION", help="only what fits: 'bmm and not float64'")
    parser.add_argument(
        "--format",
        choices=tuple(FORMATS),
        metavar="NAME",
        help=f"{', '.join(FORMATS)} (default: by the name of the file, else markdown)",
    )
    parser.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="FILE",
        help="write it there, and keep what was there as FILE~; - is stdout (default)",
    )


def command(args: argparse.Namespace) -> int:
    """Write the report; see the program's help for the exit codes.

    Raises:
        BisectTorchError: The results cannot be read, hold no such case, or the report cannot be made or written.
    """
    from bisect_torch.cli.judge import judged_again
    from bisect_torch.cli.output import print_note, printable
    from bisect_torch.cli.rows import only_chosen
    from bisect_torch.errors import UsageError
    from bisect_torch.report.earlier_texts import earlier_words
    from bisect_torch.report.text import bytes_words, plural, wrap
    from bisect_torch.results import ResultsFile

    _check_target(args.output, args.results)
    name = args.format or _format_of(args.output)
    if args.output == "-" and FORMATS[name].binary and sys.stdout.isatty():
        raise UsageError(f"{name} is nothing for a terminal", hint=f"name a file: -o matrix.{name}")
    results = ResultsFile.open(args.results, must_exist=True)
    findings = judged_again(results, None)
    findings = only_chosen(findings, args.cases, args.select, args.results)
    for note in earlier_words(findings.earlier):
        print_note(note)
    if name == "markdown":
        from bisect_torch.report.markdown import nothing_found
        from bisect_torch.report.terminal import width_for

        why = nothing_found(findings)
        if why:
            width = width_for(sys.stderr)
            for text in (f"no report: {why[0]}", *why[1:]):
                print("\n".join(wrap(text.split(" "), width, indent="  ")), file=sys.stderr)
            return 3 if findings.exit_code == 3 else 1
    content = made(name, findings)
    kept = _write(args.output, content)
    if args.output != "-":
        covered = f"{plural(len(findings.series), 'row')} on {plural(len(findings.builds), 'build')}"
        print(printable(f"wrote {args.output}: {name}, {bytes_words(len(content))}, {covered}{kept}"), file=sys.stderr)
    return 0


def made(name: str, findings: Findings) -> bytes:
    """The report in a format, as the bytes of its file.

    Raises:
        UsageError: A library that this format needs is not installed.
    """
    import importlib

    from bisect_torch.errors import UsageError

    chosen = FORMATS[name]
    try:
        content = getattr(importlib.import_module(chosen.module), chosen.function)(findings)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "bisect_torch"):
            raise
        from bisect_torch.uv_program import install_line

        raise UsageError(
            f"--format {name} needs {missing}, which is not installed", hint=install_line(missing)
        ) from error
    return content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")


def _format_of(output: str) -> str:
    """The format that a file's name stands for; Markdown for a name that says nothing."""
    from bisect_torch.errors import UsageError

    suffix = Path(output).suffix.removeprefix(".").lower()
    if output == "-" or suffix in ("", "txt"):
        return "markdown"
    if suffix not in _BY_SUFFIX:
        known = ", ".join(f".{each}" for each in _BY_SUFFIX)
        raise UsageError(f"-o {output}: no format is known by that ending", hint=f"these are: {known}")
    return _BY_SUFFIX[suffix]


def _check_target(output: str, results: Path) -> None:
    from bisect_torch.cli.output import refuse_unwritable
    from bisect_torch.errors import UsageError

    if output == "-":
        return
    kept = (results.resolve(), results.resolve().with_name(results.name + ".journal"))
    if Path(output).resolve() in kept:
        raise UsageError("-o is RESULTS itself, which is not changed", hint="name another file with -o")
    refuse_unwritable("-o", Path(output))


def _write(output: str, content: bytes) -> str:
    """Write it; what is to be said of a file that stood there."""
    from bisect_torch.cli.output import write_and_keep
    from bisect_torch.errors import InfrastructureError

    if output == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return ""
    try:
        return write_and_keep(Path(output), content)
    except OSError as problem:
        raise InfrastructureError(
            f"-o {output}: cannot be written: {problem.strerror or problem}", hint="name another file with -o"
        ) from problem

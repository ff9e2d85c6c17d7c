"""``bisect-torch new``: a script or case file from the text of a bug report."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

_DESCRIPTION = """\
Take the repro out of a bug report (the Markdown of an issue) and write it as a script, or
with --case as a case file; say what it lacks. Nothing of it is run. Of the report's code
blocks the only one with Python is taken; of several the first that imports torch, else the
first that says torch; else --block must name it. To one that only imports, the first that uses
this is joined. Prompts, output and notebook commands are taken out.
"""

_EXAMPLES = """\
examples:
  bisect-torch new report.md -o repro.py
  gh issue view 138908 -R pytorch/pytorch --json body -q .body | bisect-torch new - -o repro.py
  bisect-torch new report.md --case --block 1,3 -o cases.py

exit codes: 0 the file is written, 2 usage, or there is no repro
next: bisect-torch run repro.py --versions 2.6.0,2.7.0    the repro on two releases
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``new`` command."""
    parser = subparsers.add_parser(
        "new",
        usage="%(prog)s [OPTIONS] REPORT|-",
        help="a script or case file from the text of a bug report",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("report", metavar="REPORT", help="a file with the report's text; - reads stdin")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("repro.py"),
        metavar="FILE",
        help="default %(default)s; never overwritten; - writes to stdout",
    )
    parser.add_argument("--case", action="store_true", help="a case file with one case instead of a script")
    parser.add_argument(
        "--block",
        type=_numbers,
        default=(),
        metavar="LIST",
        help="take these blocks, counted from 1 over all of the report; several are joined in this order",
    )
    parser.add_argument("--json", action="store_true", help="what was done and what to add, as JSON on stdout")


def command(args: argparse.Namespace) -> int:
    """Write the file and say what to add; 0 when it is written.

    Raises:
        UsageError: The report cannot be read, has no repro, or the file exists.
    """
    from bisect_torch.cases.reading import declares_cases
    from bisect_torch.cases.report_advice import advice, first_two, options, reported_version
    from bisect_torch.cases.report_choice import choose, number_of
    from bisect_torch.cases.report_script import case_file, case_name, script
    from bisect_torch.cases.report_versions import told
    from bisect_torch.cli.output import refuse_unwritable
    from bisect_torch.cli.run_findings import known_releases
    from bisect_torch.errors import UsageError

    to_stdout = str(args.output) == "-"
    if to_stdout and args.json:
        raise UsageError("-o - and --json both want stdout", hint="name a file with -o")
    _refuse_existing(args.output)
    if not to_stdout:
        refuse_unwritable("-o", args.output)
    report = _read(args.report)
    choice = choose(report, args.block)
    name = case_name("repro" if to_stdout else args.output.stem)
    already = declares_cases(choice.code.module)  # a report of this tool shows case files, too
    as_case = args.case or already
    text = case_file(choice.code, name) if as_case and not already else script(choice.code)
    if to_stdout:
        sys.stdout.write(text)
    else:
        _write_new(args.output, text)
    releases = known_releases()
    found = advice(choice, report, as_case=as_case, releases=releases)
    words = ["repro.py" if to_stdout else str(args.output), *options(choice.code)]
    oldest, newest = first_two(report, releases)
    first = shlex.join(["bisect-torch", "run", *words, "--versions", f"{oldest},{newest}"])
    then = shlex.join(["bisect-torch", "run", *words, "--from", oldest, "--to", newest])
    by_sentences = told(report, releases)
    search = None
    if by_sentences.good is not None and by_sentences.bad is not None:
        ends = ["--good", by_sentences.good, "--bad", by_sentences.bad]
        search = shlex.join(["bisect-torch", "bisect", *words, *ends])
    if args.json:
        import json

        document = {
            "file": str(args.output),
            "kind": "case file" if as_case else "script",
            "block": number_of(report, choice.code),
            "line": choice.code.block.line,
            "why": choice.why,
            "other_blocks": [code.block.line for code in choice.others],
            "reported_version": reported_version(report),
            "advice": [{"kind": each.kind, "text": each.text} for each in found],
            "next": first,
            "then": then,
            "good": by_sentences.good,
            "bad": by_sentences.bad,
            "search": search,
        }
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return 0
    lines = [] if to_stdout else [f"wrote {args.output}: the block at line {choice.code.block.line}, {choice.why}"]
    if choice.others:
        lines.append(f"not taken: the code at {_lines(code.block.line for code in choice.others)}")
    lines += [f"{each.kind}: {each.text}" for each in found]
    lines.append(f"next, once it is saved as repro.py: {first}" if to_stdout else f"next: {first}")
    lines.append(f"then, where the two differ: {then}")
    lines += [] if search is None else [f"or, with few installs: {search}"]
    _say(lines, to_stderr=to_stdout)
    return 0


def _say(lines: list[str], *, to_stderr: bool) -> None:
    from bisect_torch.report.text import clean, for_encoding

    stream = sys.stderr if to_stderr else sys.stdout
    text = "".join(f"{clean(line)}\n" for line in lines)
    stream.write(for_encoding(text, getattr(stream, "encoding", None)))


def _lines(numbers: Iterable[int]) -> str:
    words = [str(number) for number in numbers]
    return f"line{'' if len(words) == 1 else 's'} {', '.join(words)}"


def _read(name: str) -> str:
    from bisect_torch.errors import UsageError
    from bisect_torch.nearest import which_one

    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as problem:
        meant = which_one(Path(name), Path.is_file) if isinstance(problem, FileNotFoundError) else None
        hint = meant or "- reads the report from stdin"
        raise UsageError(f"{name} cannot be read: {problem.strerror}", hint=hint) from None
    return data.decode("utf-8-sig", "replace")


def _refuse_existing(path: Path) -> None:
    from bisect_torch.errors import UsageError

    if str(path) != "-" and (path.exists() or path.is_symlink()):
        raise UsageError(f"{path} is there already and is not overwritten", hint="name another file with -o")


def _write_new(path: Path, text: str) -> None:
    from bisect_torch.errors import InfrastructureError, UsageError

    try:
        with open(path, "xb", buffering=0) as file:
            try:
                rest = memoryview(text.encode())
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError as problem:
                path.unlink()  # a half would be run, or stand in the way of the next try
                raise InfrastructureError(
                    f"{path} cannot be written: {problem.strerror}", hint="name another file with -o, or - for stdout"
                ) from None
    except FileExistsError:
        _refuse_existing(path)
        raise
    except OSError as problem:
        raise UsageError(
            f"{path} cannot be written: {problem.strerror}", hint="name another file with -o, or - for stdout"
        ) from None


def _numbers(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdigit() and int(word) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 1,3")
    return tuple(int(word) for word in words)

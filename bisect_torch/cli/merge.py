"""``bisect-torch merge``: one results file from several."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_torch.results import ResultsFile
    from bisect_torch.results.merging import Part

_DESCRIPTION = """\
Put the results of several files into one: shards of a run, several machines, a run that was killed (its
journal is read too). Each observation is kept once, with the manifests, locks and case texts. The files
that are read are not changed, unless the one after -o is among them: then the others are added to it,
and what it holds stays as it is.
With -k only the rows that fit come into a new file: what was run by mistake stays where it is.
"""

_EXAMPLES = """\
examples:
  bisect-torch merge shard-1.parquet shard-2.parquet -o all.parquet
  bisect-torch merge all.parquet new.parquet -o all.parquet    add to a file
  bisect-torch merge all.parquet -k "not scipy_sums" -o some.parquet    without rows that should not be there

exit codes: 0 merged, 1 merged with conflicts (the same observation, not the same facts), 2 usage
next: bisect-torch judge all.parquet    the matrix of all of them
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``merge`` command."""
    parser = subparsers.add_parser(
        "merge",
        usage="%(prog)s A B ... -o OUT",
        help="one results file from several",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="A", help="results files")
    parser.add_argument("-k", dest="select", metavar="EXPRESSION", help="only rows that fit: 'bmm and not float64'")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="a new file, or one of those that are merged"
    )


def command(args: argparse.Namespace) -> int:
    """Write the merged file, say what came together; 1 where two files contradict one another.

    Raises:
        UsageError: A file holds no results, one is named twice, a file that is not merged is in the place of OUT, or
            -k fits no row, or is to take rows out of a file that is kept.
        InfrastructureError: OUT cannot be written; nothing has changed.
    """
    from bisect_torch.report.merging import merge_lines
    from bisect_torch.report.terminal import print_lines, width_for
    from bisect_torch.results import ResultsFile
    from bisect_torch.results.merging import Part, merge

    _refuse_twice(args.files)
    _refuse_other_file(args.output, args.files)
    _refuse_taking_out(args)
    place = args.output.resolve()
    # Of two records of one observation that of the file named first is kept: what a file holds stays as it is there.
    paths = sorted(args.files, key=lambda path: path.resolve() != place)
    own = paths[0].resolve() == place
    files = [ResultsFile.open(path, must_exist=True) for path in paths]
    target = ResultsFile.open(args.output)
    _tell_problems(paths, files)
    parts = [Part(str(path), file.observations(), file.metadata) for path, file in zip(paths, files, strict=True)]
    every = sum(len(part.observations) for part in parts)
    if args.select is not None:
        parts = _only(parts, args.select)
    left_out = every - sum(len(part.observations) for part in parts)
    merged = merge(parts)
    target.take_over(merged.observations, merged.metadata)
    target.finish()
    told = left_out if args.select is not None else None
    width = width_for(sys.stdout)
    print_lines(merge_lines(parts, merged, str(args.output), width, left_out=told, added_to_first=own))
    return int(bool(merged.conflicts or merged.other_texts))


def _refuse_twice(files: Sequence[Path]) -> None:
    from bisect_torch.errors import UsageError

    seen: dict[Path, Path] = {}
    for path in files:
        before = seen.setdefault(path.resolve(), path)
        if before is not path:
            same = "is named twice" if path == before else f"is the same file as {before}"
            raise UsageError(f"{path} {same}", hint="name each file once")


def _refuse_other_file(output: Path, files: Sequence[Path]) -> None:
    from bisect_torch.errors import UsageError

    place = output.resolve()
    if place in {path.resolve() for path in files}:
        return
    for each in (place, place.with_name(place.name + ".journal")):
        if each.exists():
            raise UsageError(
                f"{each} is there already, and is not among the files to be merged",
                hint="name a new file after -o, or name this one among the files too to add the others to it",
            )


def _refuse_taking_out(args: argparse.Namespace) -> None:
    from bisect_torch.errors import UsageError

    if args.select is not None and args.output.resolve() in {path.resolve() for path in args.files}:
        raise UsageError(
            f"-k takes nothing out of {args.output}: what was observed is never removed",
            hint="name a new file after -o",
        )


def _only(parts: Sequence[Part], expression: str) -> list[Part]:
    """The rows that fit, with all manifests, locks and texts."""
    import dataclasses

    from bisect_torch.cases import chooser, none_fits

    every = [each for part in parts for each in part.observations]
    fits = chooser(expression)
    found = [
        dataclasses.replace(
            part, observations=tuple(o for o in part.observations if fits(Path(o.case_file).name, o.instance))
        )
        for part in parts
    ]
    if not any(part.observations for part in found):
        raise none_fits(expression, (f"{Path(o.case_file).name}::{o.instance}" for o in every))
    return found


def _tell_problems(paths: Sequence[Path], files: Sequence[ResultsFile]) -> None:
    from bisect_torch.errors import UsageError
    from bisect_torch.results import how_to_make

    empty = [path for path, file in zip(paths, files, strict=True) if not file.observations()]
    if len(empty) == len(paths):
        raise UsageError(f"{empty[0]} holds no results", hint=how_to_make(empty[0]))
    notes = [f"{path} holds no results" for path in empty]
    for note in [*notes, *(problem for file in files for problem in file.problems)]:
        print(f"note: {note}", file=sys.stderr)

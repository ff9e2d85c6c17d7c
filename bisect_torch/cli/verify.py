"""``bisect-torch verify``: do the changes that somebody's results claim happen here too?"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from bisect_torch.cli.arguments import positive, size
from bisect_torch.cli.options import add_store_option
from bisect_torch.cli.releases import add_index_arguments
from bisect_torch.errors import UsageError

if TYPE_CHECKING:
    from bisect_torch.analysis.verifying import Verified
    from bisect_torch.cases import Discovered
    from bisect_torch.engine.request import RunRequest
    from bisect_torch.engine.verifying import Claim, Group
    from bisect_torch.interruption import Interruption
    from bisect_torch.results import ResultsFile

_DESCRIPTION = """\
Take somebody's results file, show the code that is kept in it, and ask; then run both ends
of each change that the file claims, here, in environments of your own, and say of each
change: reproduced, not reproduced, or cannot say (other machine class, other dependencies,
source left out). Nothing of the file is believed but what it claims, and nothing is run
before the code was shown and you agreed. It then runs as you: no sandbox is promised.
"""

_EXAMPLES = """\
examples:
  bisect-torch verify results.parquet --dry-run     show the code and the plan, and stop
  bisect-torch verify results.parquet               the same, then ask
  bisect-torch verify results.parquet rms_norm --yes --json

exit codes: 0 every claim was reproduced, 1 one was not, 2 usage (also: nobody there to ask, and no --yes),
3 nothing can be said of one, 130 interrupted
next: bisect-torch report results.parquet    a bug report of what was reproduced
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``verify`` command."""
    parser = subparsers.add_parser(
        "verify",
        usage="%(prog)s [OPTIONS] RESULTS [CASE]",
        help="run the claims of somebody's results here",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="a results file; it is not changed")
    parser.add_argument("case", nargs="?", metavar="CASE", help="one instance, case or script in it (default: all)")
    parser.add_argument("--yes", action="store_true", help="run the code that is shown, without asking")
    parser.add_argument("--dry-run", action="store_true", help="show the code and what would run, and stop")
    parser.add_argument("--jobs", type=positive(int), metavar="N", help="cells at once (default: one a core)")
    parser.add_argument("--max-memory", type=size, metavar="SIZE", help="for all cells together, such as 12GiB")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="keep what was seen here (default: nothing)")
    parser.add_argument("--json", action="store_true", help="the outcome as JSON on stdout")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, only code and outcome")
    add_index_arguments(parser)
    add_store_option(parser)
    parser.set_defaults(torch_backend=None)


def command(args: argparse.Namespace) -> int:
    """Show, ask, run, and say what was seen; the exit code is that of the program's help."""
    from bisect_torch.cli.output import until_interrupted
    from bisect_torch.cli.run_findings import continue_with

    return until_interrupted(
        lambda interruption: _command(args, interruption),
        None if args.dry_run else lambda: f"start again with: {continue_with(sys.argv[1:])}",
        kept="nothing is said of these claims",
    )


def _command(args: argparse.Namespace, interruption: Interruption) -> int:
    from bisect_torch import temporary
    from bisect_torch.engine.verifying import groups_of, refused
    from bisect_torch.results import ResultsFile

    if args.output is not None:
        ResultsFile.open(args.output)  # a place where nothing can be kept is refused before any code is shown
    results = ResultsFile.open(args.results, must_exist=True)
    claims = _claimed(results, args)
    if not args.yes:
        claims = tuple(_only_with_yes(each) for each in claims)
    with temporary.folder() as folder:
        found = refused(claims)
        prepared = []
        for number, group in enumerate(groups_of(claims)):
            try:
                prepared.append(_prepare(args, group, results, folder / str(number)))
            except UsageError as problem:
                found += refused([dataclasses.replace(each, problem=problem.message) for each in group.claims])
        _show(claims, prepared, sys.stdout if args.dry_run else sys.stderr)
        if args.dry_run:
            return _tell_refused(found, results)
        if prepared and not _agreed(args):
            print("nothing was run", file=sys.stderr)
            return 3
        for each in prepared:
            found += each.run(args, interruption)
    return _tell(found, claims, results, args)


def _claimed(results: ResultsFile, args: argparse.Namespace) -> tuple[Claim, ...]:
    """The changes that the file claims, or those of one case.

    Raises:
        UsageError: There is no such case in it, or its manifests are not of this tool.
    """
    from bisect_torch.cli.judge import judged_again
    from bisect_torch.cli.rows import is_named, unknown_case
    from bisect_torch.engine.verifying import claims_of

    try:
        findings = judged_again(results, None)
        chosen = [each for each in findings.transitions if args.case is None or is_named(args.case, each.series)]
        claims = claims_of(results, chosen, findings.observed)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:  # of a stranger's manifests anything may come
        raise UsageError(
            f"{args.results} cannot be read as results: {type(problem).__name__}: {problem}",
            hint="the file is damaged or of another tool: name another results file",
        ) from None
    if args.case is not None and not any(is_named(args.case, each) for each in findings.series):
        raise unknown_case(args.case, args.results, findings.series)
    return claims


def _only_with_yes(claim: Claim) -> Claim:
    """A command may do anything, and what it starts was not shown: a nod is not enough."""
    if claim.command is None or claim.problem:
        return claim
    return dataclasses.replace(claim, problem="its command is run only with --yes")


@dataclasses.dataclass(frozen=True)
class _Prepared:
    """A group, ready to run."""

    group: Group
    files: dict[str, Discovered]
    request: RunRequest
    packages: dict[str, tuple[str, ...]]
    differences: tuple[str, ...]

    def run(self, args: argparse.Namespace, interruption: Interruption) -> list[Verified]:
        from bisect_torch.engine.run import Run
        from bisect_torch.engine.verifying import compared
        from bisect_torch.errors import Interrupted
        from bisect_torch.report.terminal import open_report

        with open_report(quiet=args.quiet) as observe:
            result = Run(self.request, observe, interruption).execute()
        if result.interrupted:
            raise Interrupted("interrupted: nothing is said of these claims")
        return compared(self.group, self.request, result, self.files, self.differences)


def _prepare(args: argparse.Namespace, group: Group, results: ResultsFile, folder: Path) -> _Prepared:
    """Write the code out, read it, and plan; nothing is run or downloaded.

    Raises:
        BisectTorchError: It cannot be run as it stands.
    """
    from bisect_torch import environments
    from bisect_torch.cli.run_request import build_request
    from bisect_torch.engine.verifying import dependencies, narrowed, written

    folder.mkdir()
    files = written(group, folder)
    options = _run_options(args, group, folder)
    request = build_request(options, discovered=tuple(files.values()))
    chosen = dependencies(request, group, results, folder)
    if chosen.packages:
        plan = environments.plan_environments(chosen.builds, request.environment_options)
        request = dataclasses.replace(request, builds=chosen.builds, plan=plan)
    request = narrowed(request, group, files, folder)
    differences = chosen.differences
    if args.torch_backend not in (None, group.conditions.backend):
        differences += (f"torch is that of {args.torch_backend} here, not of {group.conditions.backend}",)
    return _Prepared(group, files, request, dict(chosen.packages), differences)


def _run_options(args: argparse.Namespace, group: Group, folder: Path) -> argparse.Namespace:
    """The options of a run under the conditions of the claim. They come from a stranger: argparse checks them."""
    from bisect_torch.cli.parser import parse

    then = group.conditions
    words = [f"--versions={','.join(group.builds)}", f"--device={','.join(then.devices)}", f"--seed={then.seed}"]
    words += [f"--timeout={then.timeout_s}"]
    words += [f"--threads={then.threads}"] if then.threads is not None else []
    words += [f"--isolation={then.isolation}"] if then.isolation is not None else []
    words += [f"--python={_minor(then.python)}"] if then.python is not None else []
    backend = args.torch_backend or then.backend
    words += [f"--torch-backend={backend}"] if backend is not None else []
    words += ["--thorough"] if then.thorough else []
    options = parse(["run", *words])
    for name in ("jobs", "max_memory", "store", "index_url", "extra_index_url", "find_links", "offline"):
        if name in vars(args):
            setattr(options, name, vars(args)[name])
    options.bad_if_output = then.bad_if_output
    options.output = args.output or folder / "seen.parquet"
    options.fresh = True
    return options


def _minor(python: str) -> str:
    major, _, minor = python.partition(".")
    if not (major.isdigit() and minor.isdigit()):  # a path would be started as an interpreter
        raise UsageError(
            f"{python!r} is not a version of Python",
            hint="the file is damaged or of another tool: name another results file",
        )
    return python


def _show(claims: Sequence[Claim], prepared: Sequence[_Prepared], stream: TextIO) -> None:
    """Every file once, then what would run where."""
    from bisect_torch.report.text import for_encoding

    lines = [*_code(claims), *(line for each in prepared for line in _plan(each))]
    encoding = getattr(stream, "encoding", None)
    stream.write("".join(f"{for_encoding(line, encoding)}\n" for line in lines))
    stream.flush()


def _code(claims: Sequence[Claim]) -> Iterator[str]:
    import hashlib

    from bisect_torch.report.text import clean
    from bisect_torch.report.verifying import shown_code

    shown = set()
    for claim in claims:
        if claim.command is not None and claim.command.words not in shown:
            shown.add(claim.command.words)
            yield f"--- command: {clean(shlex.join(claim.command.words))}"
        for name, text in claim.code.files.items() if claim.code is not None else ():
            digest = hashlib.sha256(text.encode()).hexdigest()
            if (name, digest) not in shown:
                shown.add((name, digest))
                yield from shown_code(name, digest, text)


def _plan(each: _Prepared) -> list[str]:
    from bisect_torch.report.verifying import plan_lines

    names = [claim.transition.series.instance for claim in each.group.claims]
    then = each.group.conditions
    return ["", *plan_lines(names, each.group.builds, then.python, then.timeout_s, each.packages, each.differences)]


def _agreed(args: argparse.Namespace) -> bool:
    """Whether the user wants this code to run.

    Raises:
        UsageError: There is nobody to ask.
    """
    if args.yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("nobody is there to ask whether this code may run", hint="read it, then say --yes")
    sys.stderr.write("\nRun this code here? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tell_refused(found: Sequence[Verified], results: ResultsFile) -> int:
    """Of a dry run: of which claims nothing can be said here."""
    from bisect_torch.redaction import inside
    from bisect_torch.report.terminal import print_lines, width_for
    from bisect_torch.report.verifying import sentence_lines

    for each in inside(tuple(found), results.private):
        print_lines(sentence_lines(each, width_for(sys.stdout)))
    return 0


def _tell(found: Sequence[Verified], claims: Sequence[Claim], results: ResultsFile, args: argparse.Namespace) -> int:
    from bisect_torch.analysis.verifying import exit_code
    from bisect_torch.redaction import inside
    from bisect_torch.report.terminal import print_lines, width_for
    from bisect_torch.report.verifying import verified_data, verified_lines

    order = {id(claim.transition): place for place, claim in enumerate(claims)}
    code = exit_code(found)
    shown = inside(tuple(sorted(found, key=lambda each: order[id(each.claim)])), results.private)
    if args.json:
        import json

        sys.stdout.write(json.dumps(verified_data(shown, code, results.problems), indent=1) + "\n")
    else:
        print_lines(verified_lines(shown, width_for(sys.stdout), results.problems))
    return code

"""``bisect-torch attribute``: torch, or one of its dependencies?"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bisect_torch.cli.options import add_pass_env_option, add_store_option
from bisect_torch.cli.running_options import add_dry_run_option
from bisect_torch.errors import UsageError
from bisect_torch.first_names import first_of
from bisect_torch.redaction import HIDDEN, STORE, inside

if TYPE_CHECKING:
    from bisect_torch.cases import Discovered
    from bisect_torch.engine.attributing import AttributionRequest
    from bisect_torch.engine.request import RunRequest
    from bisect_torch.interruption import Interruption
    from bisect_torch.model import Build, Series, Transition
    from bisect_torch.redaction import Private
    from bisect_torch.results import ResultsFile

_EXAMPLES = """\
examples:
  bisect-torch attribute results.parquet          where one row changes
  bisect-torch attribute results.parquet repro
  bisect-torch attribute results.parquet "bmm[dtype=bfloat16,batch=2]" --before 2.6.0 --after 2.7.0
  bisect-torch attribute results.parquet repro --before 2.7.0 --after 2.7.0+today   after run --locks release,today

Everything else is as in the run that made the results: files, options, Python, indexes (only --pass-env is named
anew). Hybrids are environments like others: they are kept in the store, their results in the results file, and
`bisect-torch envs remove NAME` removes one.
exit codes: 0 a cause was found, 2 usage, 3 it could not be separated or judged, 130 interrupted
next: bisect-torch report results.parquet    a bug report that names the cause
"""


_HYBRIDS = (
    "where the two differ, hybrids of them are made one after another until the cause is found: linked files, about "
    "0.1 GB each, and what is downloaded is packages that the other build has already"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``attribute`` command."""
    parser = subparsers.add_parser(
        "attribute",
        usage="%(prog)s [OPTIONS] RESULTS [CASE]",
        help="torch, or one of its dependencies?",
        description="Where a case changes from one build to the next, find out what made the difference: torch itself, "
        "one of the packages around it that changed with the release, or both together. Hybrids are made (the new "
        "torch with the old packages, and the reverse) and judged like any other build.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="a results file, such as results.parquet")
    parser.add_argument(
        "case",
        metavar="CASE",
        nargs="?",
        help="an instance, a case or a script in it, by name (default: the row that changes, where there is one)",
    )
    parser.add_argument("--before", metavar="VERSION", help="the older end of the change (default: of the first)")
    parser.add_argument("--after", metavar="VERSION", help="its newer end")
    parser.add_argument("--device", metavar="NAME", help="where the case ran on several")
    add_dry_run_option(parser, doing="run")
    parser.add_argument("--json", action="store_true", help="the outcome as JSON on stdout")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, only the outcome")
    add_pass_env_option(parser)
    add_store_option(parser)


def command(args: argparse.Namespace) -> int:
    """Find the cause, print it, and return the exit code: see the program's help."""
    from bisect_torch.cli.output import until_interrupted
    from bisect_torch.cli.run_findings import continue_with

    return until_interrupted(
        lambda interruption: _command(args, interruption),
        None if args.dry_run else lambda: f"continue with: {continue_with(sys.argv[1:])}",
    )


def _command(args: argparse.Namespace, interruption: Interruption) -> int:
    from bisect_torch.cli.run_plan import print_plan, refuse_in_vain
    from bisect_torch.engine.attributing import Attributing
    from bisect_torch.report.attribution import attribution_data, attribution_lines, solved
    from bisect_torch.report.plain import PlainReport

    request, notes = build_attribution(args)
    if args.dry_run:
        plan = request.run.plan
        said = (*plan.notes, *notes, _HYBRIDS)
        print_plan(dataclasses.replace(request.run, plan=dataclasses.replace(plan, notes=said)), as_json=args.json)
        refuse_in_vain(request.run)
        return 0
    found = Attributing(request, lambda: PlainReport(sys.stderr, quiet=args.quiet), interruption).execute()
    result = inside(found, request.run.file.private)
    if args.json:
        import json

        sys.stdout.write(json.dumps({**attribution_data(result), "notes": list(notes)}, indent=1) + "\n")
    else:
        from bisect_torch.report.terminal import print_lines, width_for

        print_lines(attribution_lines(result, notes, width_for(sys.stdout)))
    return 0 if solved(result) else 3


def build_attribution(args: argparse.Namespace) -> tuple[AttributionRequest, tuple[str, ...]]:
    """Everything that can be refused is refused here, before anything is made.

    Returns:
        The request, and what the user should know about the choice.

    Raises:
        BisectTorchError: The results, the case or its file cannot be used, or it has no such change.
    """
    from bisect_torch.engine.attributing import AttributionRequest
    from bisect_torch.results import ResultsFile

    file = ResultsFile.open(args.results, must_exist=True)
    transition, notes = _choose(args, file)
    series = transition.series
    before, after = transition.before.build, transition.after.build
    words, earlier, item = _earlier_run(file, series, before, after, args.store)
    before, after = file.private.expand(before), file.private.expand(after)
    run = _request(args, earlier, item, (before, after))
    run = dataclasses.replace(
        run,
        lines=((before, after),),
        only=frozenset({(_file_of(item, series, file.private), series.instance)}),
        devices=(series.device,),
        select=None,
        command_line=words,
    )
    return AttributionRequest(run, (series.case_file, series.instance, series.device)), notes


# --- which change


def _choose(args: argparse.Namespace, file: ResultsFile) -> tuple[Transition, tuple[str, ...]]:
    from bisect_torch import analysis
    from bisect_torch.cli.judge import judged_again
    from bisect_torch.cli.rows import is_named, unknown_case

    findings = judged_again(file, None)
    every = [*findings.series, *findings.twins]
    case = _only_one_that_changes(args, every) if args.case is None else args.case
    rows = [each for each in every if args.device in (None, each.device) and is_named(case, each)]
    if not rows:
        raise unknown_case(case, args.results, every, args.device)
    found = [each for series in rows for each in analysis.transitions(series)]
    chosen = [each for each in found if _lies_there(args, each)]
    if args.before is None and args.after is None:
        chosen = [each for each in chosen if each.series in findings.series] or chosen
    if not chosen:
        where = " there" if found else f" in {args.results}"
        raise UsageError(f"{case} does not change{where}", hint=_what_changes(found, every))
    first = chosen[0]
    notes = [] if args.case is not None else [f"the only row that changes in {args.results} was taken: {case}"]
    if len(chosen) > 1:
        others = first_of([f"{each.series.instance} {_ends(each)}" for each in chosen[1:]], 3, between="; ")
        notes.append(
            f"the first of {len(chosen)} changes was taken; the others: {others} (choose by --before and --after)"
        )
    if first.between:
        names = ", ".join(name for name, _ in first.between)
        notes.append(f"between {first.before.build} and {first.after.build} lie builds that say nothing: {names}")
    return first, tuple(notes)


def _lies_there(args: argparse.Namespace, change: Transition) -> bool:
    return args.before in (None, change.before.build) and args.after in (None, change.after.build)


def _only_one_that_changes(args: argparse.Namespace, every: Sequence[Series]) -> str:
    """The name of the row that changes.

    Raises:
        UsageError: None does, or several do.
    """
    import shlex

    from bisect_torch import analysis
    from bisect_torch.report.text import listed

    rows = [each for each in every if args.device in (None, each.device)]
    changes = (each for series in rows for each in analysis.transitions(series))
    names = list(dict.fromkeys(each.series.instance for each in changes if _lies_there(args, each)))
    if not names:
        where = " there" if args.before or args.after else f" in {args.results}"
        raise UsageError(f"nothing changes{where}", hint=_what_changes((), rows))
    if len(names) > 1:
        line = shlex.join(["bisect-torch", "attribute", str(args.results), names[0]])
        raise UsageError(
            f"{len(names)} rows change in {args.results}: {listed(names, most=6)}", hint=f"name one of them: {line}"
        )
    return names[0]


def _what_changes(found: Sequence[Transition], every: Sequence[Series]) -> str:
    """The changes of the row that was named; else the rows that change."""
    from bisect_torch import analysis
    from bisect_torch.report.text import listed

    if found:
        return f"it changes {'; '.join(map(_ends, found))}"
    names = list(dict.fromkeys(each.instance for each in every if analysis.transitions(each)))
    if not names:
        return "attribute explains a change between two builds, and nothing changes there"
    return f"attribute explains a change between two builds; what changes there: {listed(names)}"


def _ends(transition: Transition) -> str:
    return f"from {transition.before.build} to {transition.after.build}"


# --- how it was run


def _earlier_run(
    file: ResultsFile, series: Series, before: str, after: str, store: Path | None
) -> tuple[tuple[str, ...], argparse.Namespace, Discovered]:
    """The newest run that ran the case: its words, its options, and the case's file as it still is.

    Raises:
        UsageError: No run tells how, or the file has changed or gone.
    """
    hashes = {
        each.case_file_hash
        for each in file.observations()
        if (each.case_file, each.instance, each.device) == (series.case_file, series.instance, series.device)
        and each.build_name in (before, after)
    }
    newest: UsageError | None = None
    differs: str | None = None
    for run in sorted(file.runs, key=lambda run: _covers(run, before, after)):
        words = _words(run, file.private)
        options = _options(words) if hashes & set(_list(run.get("case_files"))) else None
        if options is None:
            continue
        options.store = store or options.store
        try:
            items = _discover(options)
        except UsageError as error:
            newest = error
            continue
        item = next((item for item in items if item.file.sha256 in hashes), None)
        if item is not None:
            return words, options, _called(item, series.instance)
        item = next((item for item in items if _is_of(item, series, file.private, hashes)), None)
        if item is not None:
            why = _what_differs(run, item, options)
            if why is None:
                return words, options, item
            differs = differs or why
    if differs is not None:
        raise UsageError(
            f"{series.case_file} is as it was when it ran, but {differs}",
            hint="restore that, or run it again with `bisect-torch run`",
        )
    hint = newest.message if newest else "run it again with `bisect-torch run`, from the folder where it was run"
    raise UsageError(f"{series.case_file} is not found here as it was when it ran", hint=hint)


def _file_of(item: Discovered, series: Series, private: Private) -> Path:
    """Where the row's file lies: a suite has many, seen from the working directory."""
    from bisect_torch.model import CaseKind

    return Path.cwd() / private.expand(series.case_file) if item.file.kind is CaseKind.PYTEST else item.file.path


def _is_of(item: Discovered, series: Series, private: Private, hashes: Collection[str]) -> bool:
    """Whether a suite has the row's file of tests as it was."""
    return item.covered.get(private.expand(series.case_file)) in hashes


def _what_differs(run: Mapping[str, object], suite: Discovered, options: argparse.Namespace) -> str | None:
    """What else a test may depend on, and is not as it was in that run."""
    from bisect_torch.cli.run_request import own_files_of
    from bisect_torch.engine.other_state import what_differs
    from bisect_torch.environments import Store, project_at

    own = own_files_of(options)
    projects = [project_at(folder.resolve(), own) for folder in options.editable]
    return what_differs(run, [suite], projects, Store.at(options.store).expansions)


def _called(item: Discovered, name: str) -> Discovered:
    from bisect_torch import cases
    from bisect_torch.model import CaseKind

    return cases.called(item, name) if item.file.kind is CaseKind.COMMAND else item


def _covers(run: Mapping[str, object], before: str, after: str) -> tuple[bool, str]:
    """Sorts runs of both builds first, and of those the newest."""
    names = _list(run.get("builds"))
    started = str(run.get("started_at") or "")
    return not (before in names and after in names), "".join(chr(0x10FFFF - ord(letter)) for letter in started)


def _words(run: Mapping[str, object], private: Private) -> tuple[str, ...]:
    """The words of an earlier command line, with this machine's folders where theirs were.

    Raises:
        UsageError: It had credentials, which are not kept.
    """
    words = tuple(private.expand(str(word)) for word in _list(run.get("arguments")))
    if any(HIDDEN in word for word in words):
        raise UsageError(
            "the earlier command line held credentials, which results do not keep",
            hint="run it again with the address in UV_DEFAULT_INDEX or uv.toml instead of on the command line",
        )
    return words


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _options(words: Sequence[str]) -> argparse.Namespace | None:
    """The options of an earlier command; None where they cannot be read any more."""
    from bisect_torch.cli.parser import parse

    try:
        options = parse(words)
    except UsageError:
        return None
    return options if hasattr(options, "extras") and hasattr(options, "timeout") else None


def _discover(options: argparse.Namespace) -> tuple[Discovered, ...]:
    from bisect_torch import cases
    from bisect_torch.cli.run_request import own_files_of

    files = getattr(options, "files", None)
    if files is None:
        case = getattr(options, "case", None)
        files = [] if case is None else [Path(case)]
    return cases.discover(
        # Whole files: that run may have chosen another case of them than the one that is asked about.
        [path if path.exists() else Path(str(path).partition("::")[0]) for path in files],
        suites=getattr(options, "suite", ()),
        command=tuple(options.command_words or ()),
        pytest_words=options.pytest_words,
        own=own_files_of(options),
        bad_if_output=options.bad_if_output,
    )


def _request(
    args: argparse.Namespace, earlier: argparse.Namespace, item: Discovered, ends: tuple[str, str]
) -> RunRequest:
    """A run of both ends as the earlier one would run them."""
    from bisect_torch import environments
    from bisect_torch.cli.options import environment_options
    from bisect_torch.cli.run_request import build_request
    from bisect_torch.results.recalled import recalled_environments

    options = argparse.Namespace(**vars(earlier))
    if args.store is None and STORE in str(earlier.store):
        raise UsageError("results do not keep where the store of the earlier run lies", hint="name it with --store")
    options.store = args.store or earlier.store
    options.pass_env = args.pass_env  # a file never decides which secrets a case sees
    options.output, options.quiet, options.json = args.results, args.quiet, args.json
    options.first = options.last = options.select = None
    options.exclude, options.minor_only, options.fresh, options.repeat = [], False, False, 1
    options.nightly = []  # the ends are named one by one
    options.versions = [tuple(dict.fromkeys(_torch(name) for name in ends))]
    options.locks = options.locks[:1]
    if not hasattr(options, "files"):
        options.files, options.suite = [item.file.path], ()
    request = build_request(options)
    recalled = recalled_environments(request.file.runs)
    pythons = [".".join(recalled[name].python_version.split(".")[:2]) if name in recalled else None for name in ends]
    builds = tuple(_end(name, request.builds) for name in ends)
    if None not in pythons and pythons[0] != pythons[1]:
        builds = tuple(
            dataclasses.replace(build, own_python=python) for build, python in zip(builds, pythons, strict=True)
        )
    elif pythons[0] is not None and options.python is None:
        # The run chose one Python for its whole range: the two ends alone might get another.
        options.python = pythons[0]
    chosen = environment_options(options)
    return dataclasses.replace(
        request,
        builds=builds,
        discovered=(item,),
        environment_options=chosen,
        plan=environments.plan_environments(builds, chosen),
    )


def _torch(name: str) -> str:
    """The build that a name stands for: ``2.7.0`` of ``2.7.0+today``."""
    return name if "/" in name else name.partition("+")[0]


def _end(name: str, builds: Sequence[Build]) -> Build:
    from bisect_torch.model import TODAY

    build = next((each for each in builds if each.name == _torch(name)), None)
    if build is None:
        raise UsageError(
            f"{name} is not a build that can be made", hint="choose two releases with --before and --after"
        )
    return build if build.name == name else build.with_variant(TODAY)

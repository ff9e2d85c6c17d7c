"""``bisect-torch run``: every case on every build, and what changed where."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.arguments import comma_list, devices, positive, size
from bisect_torch.cli.options import add_environment_options, add_pass_env_option, implied_extras
from bisect_torch.cli.releases import add_selection_arguments, add_source_argument, selection
from bisect_torch.cli.sharding import add_shard_arguments, empty_line, placed, shard_of
from bisect_torch.cli.words import before_dashes, before_pytest

if TYPE_CHECKING:
    from bisect_torch.cases import Discovered
    from bisect_torch.engine.bisect_request import Scope
    from bisect_torch.engine.request import RunRequest, RunResult
    from bisect_torch.environments import EnvironmentPlan, Project
    from bisect_torch.interruption import Interruption
    from bisect_torch.model import Build, Environment
    from bisect_torch.releases.commits import Origin
    from bisect_torch.releases.selection import Selection
    from bisect_torch.report.findings import Findings

DEFAULT_TIMEOUT_S = 120.0
_EXAMPLES = """\
examples:
  bisect-torch run --dry-run                          how much would be downloaded, and stop
  bisect-torch run                                    the shipped cases on every release since 2.4.1
  bisect-torch run repro.py --from 2.6.0 --to 2.9.1   a script: an exception or exit code not 0 is bad
  bisect-torch run cases.py -k "bmm and not float64"  some cases of a file
  bisect-torch run repro.py --versions 2.8.0,2.9.1,/opt/venv/bin/python
  bisect-torch run --with torchvision repro.py --minor-only
  bisect-torch run repro.py --locks release,today     what do newer dependencies change
  bisect-torch run repro.py --from 2.13.0 --nightly latest --torch-backend cpu
  bisect-torch run repro.py --nightly 2026-11-01..2026-11-28 --torch-backend cpu --source ~/pytorch
  bisect-torch run cases.py --shard 3/8 -o shard-3.parquet
  bisect-torch run --from 2.6.0 -- python train.py --steps 3
  bisect-torch run --with-editable . --minor-only --pytest tests -k attention

Results are kept: the same line again runs only what is missing.
exit codes: 0 all good at the newest build, 1 something is bad there, 2 usage, 3 could not be judged, 130 interrupted
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the ``run`` command."""
    parser = subparsers.add_parser(
        "run",
        usage="%(prog)s [OPTIONS] [FILE ...]\n       %(prog)s [OPTIONS] -- COMMAND ARGS...\n"
        "       %(prog)s [OPTIONS] --pytest ARGS...",
        help="run cases on every release and say what changed where",
        description="Run case files, scripts or a command in an isolated, locked environment of each release, and say "
        "in which release something changed. Environments are made once and kept.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="case files, scripts, folders (default: the shipped cases)"
    )
    add_pytest_argument(parser)
    add_selection_arguments(parser)
    add_running_arguments(parser, matrix=True)
    add_shard_arguments(parser)
    add_results_arguments(parser, kept="", doing="run")
    add_environment_options(parser)


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
    if matrix:
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
    results.add_argument("--fresh", action="store_true", help="run again what the results file already holds")
    results.add_argument("--dry-run", action="store_true", help=f"say what would be downloaded and {doing}, and stop")
    results.add_argument("--json", action="store_true", help="the outcome as JSON on stdout")
    results.add_argument("-q", "--quiet", action="store_true", help="no progress, only the outcome")


def add_pytest_argument(parser: argparse.ArgumentParser) -> None:
    """Have ``--help`` tell of ``--pytest``; its words never reach argparse."""
    parser.add_argument(
        "--pytest",
        nargs=argparse.REMAINDER,
        metavar="ARGS...",
        help="run the project's tests with pytest: everything after it is pytest's own; pytest is installed too",
    )


def command(args: argparse.Namespace) -> int:
    """Run, print what was found, and return the exit code: see the program's help."""
    from bisect_torch.cli.output import until_interrupted

    return until_interrupted(
        lambda interruption: _command(args, interruption),
        lambda: f"continue with: {continue_with(sys.argv[1:])}",
    )


def _command(args: argparse.Namespace, interruption: Interruption) -> int:
    from bisect_torch.cli.output import drop_stdout
    from bisect_torch.engine.run import Run
    from bisect_torch.errors import UsageError
    from bisect_torch.report.terminal import open_report

    elsewhere = args.executor != "local"
    if elsewhere and args.max_disk is not None:
        raise UsageError("--max-disk is for the store of this machine, not for those of a cluster's nodes")
    request = build_request(args, in_groups=not elsewhere, elsewhere=elsewhere)
    plan_lines = [request.file.private.redact(line) for line in _plan_lines(request)]
    if args.dry_run:
        _print_plan(request, plan_lines, as_json=args.json)
        return 0
    if not args.quiet and request.plan.missing:
        from bisect_torch.report.terminal import print_lines, width_for
        from bisect_torch.report.text import wrap

        width = width_for(sys.stderr)
        wrapped = [each for line in plan_lines for each in wrap(line.split(" "), width, indent="  ")]
        print_lines([((line, ""),) for line in wrapped], sys.stderr)
    with open_report(quiet=args.quiet) as observe, placed(args, request, observe) as (request, site):
        result = Run(request, observe, interruption, site=site).execute()
    findings = findings_of(request, result)
    empty = request.shard is not None and not findings.series and not findings.interrupted
    if empty:
        print(f"note: {empty_line(request)}", file=sys.stderr)
    try:
        if args.json or not empty:
            print_findings(findings, as_json=args.json)
        sys.stdout.flush()
    except OSError:
        if not findings.interrupted:
            raise
        drop_stdout()  # SIGHUP: the terminal has gone
    return 0 if empty else findings.exit_code


def build_request(
    args: argparse.Namespace,
    *,
    choice: Selection | None = None,
    discovered: tuple[Discovered, ...] | None = None,
    scope: Callable[[tuple[Build, ...]], Scope] | None = None,
    in_groups: bool = False,
    elsewhere: bool = False,
) -> RunRequest:
    """Everything that can be refused is refused here, before anything is downloaded.

    Args:
        choice: Which builds, instead of what the options say.
        discovered: What is run, instead of what the line names.
        scope: What a search takes of the builds that there are; a run takes all of them.
        in_groups: Environments may come and go, where the disk does not hold all of them.
        elsewhere: Environments are made on other machines.

    Raises:
        BisectTorchError: A file, a range, a version, an option cannot be used, or the disk is too small.
    """
    from bisect_torch import environments
    from bisect_torch.cli.options import environment_options, python_minor
    from bisect_torch.engine import host
    from bisect_torch.engine.executor import default_jobs
    from bisect_torch.engine.request import RunRequest
    from bisect_torch.model import CaseKind, Isolation
    from bisect_torch.redaction import private_of, this_machine
    from bisect_torch.releases.choosing import choose_builds
    from bisect_torch.releases.commits import check_source
    from bisect_torch.results import ResultsFile

    named: Path | None = vars(args).get("source")
    source = None if named is None else check_source(named)
    discovered = discover(args) if discovered is None else discovered
    _refuse_empty_choice(discovered, args.select)
    options = environment_options(args, both_locks=choice is None)
    private = private_of(
        this_machine(),
        store=options.store.root,
        projects=options.editable,
        case_files=[item.file.path for item in discovered if item.file.kind is not CaseKind.COMMAND],
    )
    file = ResultsFile.open(args.output, private=private)
    minor = python_minor(options)
    projects = tuple(environments.project_at(folder) for folder in options.editable)
    builds = choose_builds(
        choice or selection(args),
        options.index,
        python=minor,
        backend=options.backend,
        cache_dir=options.store.index_cache,
        ledger=options.store.nightlies,
        installed=lambda build: environments.is_installed(build, options, minor),
        note=_note,
        ask_facts=scope is None,
    )
    at_most = first = None
    if scope is not None:
        part = scope(builds)
        builds, at_most, first = _with_facts(part, options.store.nightlies, minor), part.at_most, part.first
    shard, whole = shard_of(args), builds
    builds, lines = _with_twins(whole if shard is None else shard.builds(whole), args.locks)
    return RunRequest(
        builds=builds,
        lines=lines,
        discovered=discovered,
        environment_options=options,
        plan=_with_notes(
            environments.plan_environments(
                builds,
                options,
                at_most=at_most,
                now=first,
                in_groups=in_groups,
                elsewhere=elsewhere,
                among=_with_twins(whole, args.locks)[0],
            ),
            args,
            projects,
        ),
        results=args.output,
        file=file,
        working_directory=Path.cwd(),
        devices=args.device,
        select=args.select,
        jobs=args.jobs or default_jobs(args.device),
        timeout_s=args.timeout,
        repeats=args.repeat,
        isolation=Isolation(args.isolation) if args.isolation else None,
        threads=args.threads,
        seed=args.seed,
        memory_bytes=args.max_memory or host.memory_for_cells(),
        fresh=args.fresh,
        thorough=args.thorough,
        guard=_guard(),
        projects=projects,
        command_line=tuple(sys.argv[1:]),
        source=source,
        shard=shard,
        edges=(True, True) if shard is None else shard.holds_ends(len(whole)),
    )


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _with_facts(scope: Scope, ledger: Path, minor: str | None) -> tuple[Build, ...]:
    """The builds of a search; of the first ones the commit and size that must be asked for."""
    from bisect_torch.releases.nightly_ledger import NightlyLedger
    from bisect_torch.releases.unreleased import with_facts

    first = [build for build in scope.builds if build.name in scope.first]
    known = {build.name: build for build in with_facts(first, NightlyLedger(ledger), python=minor, note=_note)}
    return tuple(known.get(build.name, build) for build in scope.builds)


def _with_twins(
    builds: tuple[Build, ...], locks: Sequence[str]
) -> tuple[tuple[Build, ...], tuple[tuple[str, ...], ...]]:
    """Where both kinds of locks are asked for: each build that has one once more with today's dependencies, and the
    lines along which they are compared."""
    from bisect_torch.model import TODAY, BuildKind

    if len(locks) < 2:
        return builds, ()
    pairs = [(each, each.with_variant(TODAY)) for each in builds if each.kind is not BuildKind.LOCAL]
    lines = (tuple(each.name for each in builds), *((each.name, twin.name) for each, twin in pairs))
    return (*builds, *(twin for _, twin in pairs)), lines


def _with_notes(plan: EnvironmentPlan, args: argparse.Namespace, projects: Sequence[Project]) -> EnvironmentPlan:
    """The plan, which also says what is tested and that pytest is installed though nobody named it."""
    import dataclasses

    notes = [f"--with-editable: {project}" for project in projects]
    if implied := implied_extras(args):
        pytest = implied[0].partition(";")[0]
        notes.append(f"{pytest} is installed in each environment; --with pytest==… chooses another")
    return dataclasses.replace(plan, notes=(*plan.notes, *notes))


def _guard() -> str | None:
    """The guard that the environment asks for; the workers inherit the variable."""
    from bisect_torch.errors import UsageError
    from bisect_torch.numerics.guard import settings

    try:
        asked = settings.from_environment()
    except ValueError as wrong:
        raise UsageError(str(wrong)) from wrong
    return None if asked is None else f"{asked.device}:{asked.limit}"


def discover(args: argparse.Namespace) -> tuple[Discovered, ...]:
    """The case files, scripts, suites or command that the line names."""
    from bisect_torch import cases

    words = tuple(args.command_words or ())
    return cases.discover(
        args.files,
        suites=args.suite,
        command=words,
        pytest_words=args.pytest_words,
        bad_if_output=args.bad_if_output,
    )


def _refuse_empty_choice(discovered: tuple[Discovered, ...], expression: str | None) -> None:
    """An expression that cannot be read, or fits nothing, ends the run here where every instance is known by now."""
    from bisect_torch import cases
    from bisect_torch.errors import UsageError

    if expression is None:
        return
    known = [instance for item in discovered for instance in item.instances or ()]
    if cases.matching(known, expression) or any(item.instances is None for item in discovered):
        return
    names = list(dict.fromkeys(instance.case.name for instance in known))
    raise UsageError(
        f"-k {expression!r} fits none of {len(known)} instances",
        hint=f"their names begin with: {', '.join(names[:6])}{', …' if len(names) > 6 else ''}",
    )


def findings_of(request: RunRequest, result: RunResult) -> Findings:
    """What the reports are made from."""
    from bisect_torch.report.findings import Findings

    found = Findings(
        builds=result.builds,
        environments=result.environments,
        series=result.series,
        transitions=result.transitions,
        observations=result.observations,
        results=request.results,
        continue_with=continue_with(sys.argv[1:]),
        interrupted=result.interrupted,
        seconds=result.seconds,
        notes=request.plan.notes,
        known_releases=known_releases(),
        twins=result.beside,
        origins=origins_of(result.builds, result.environments, request.source),
        runs=request.file.runs,
        locks=request.file.locks,
        sources=request.file.sources,
    )
    return request.file.private.inside(found)


def origins_of(builds: Sequence[Build], made: Mapping[str, Environment], source: Path | None) -> Mapping[str, Origin]:
    """What the commits of builds are; their messages and tags are read in a source checkout where one is named."""
    from bisect_torch.releases.commits import origins

    inside = {name: environment.git_commit for name, environment in made.items()}
    return origins(builds, {build.name: inside.get(build.name) or build.git_commit for build in builds}, source)


def known_releases() -> tuple[str, ...]:
    """Every release in the catalogue, oldest first."""
    from bisect_torch.releases.catalogue import load_catalogue

    return tuple(release.version for release in load_catalogue())


def continue_with(words: Sequence[str]) -> str:
    """The command line that goes on: it must not begin anew."""
    import shlex

    words, pytest_words = before_pytest(words)
    own, command_words = before_dashes(words)
    kept = ["bisect-torch", *(word for word in own if word != "--fresh")]
    kept += [] if command_words is None else ["--", *command_words]
    return shlex.join(kept if pytest_words is None else [*kept, "--pytest", *pytest_words])


def print_findings(findings: Findings, *, as_json: bool) -> None:
    """Matrix, sentences and counts on stdout."""
    if as_json:
        from bisect_torch.report.data import json_text

        sys.stdout.write(json_text(findings))
        return
    from bisect_torch.report.summary import summary
    from bisect_torch.report.terminal import print_lines, width_for

    print_lines(summary(findings, width_for(sys.stdout)))


def _plan_lines(request: RunRequest) -> list[str]:
    from bisect_torch.report.text import bytes_words, plural

    plan = request.plan
    there = sum(planned.present is not None for planned in plan.environments)
    are_there = f"{plural(there, 'environment')} {'is' if there == 1 else 'are'} there"
    lines = [f"{plural(len(request.builds), 'build')}: {are_there}, {len(plan.missing)} to be made"]
    if plan.elsewhere:
        lines = [
            f"{plural(len(request.builds), 'build')}: environments are made on the nodes where they are not there;",
            f"at most {bytes_words(plan.download_bytes)} to download and {bytes_words(plan.disk_bytes)} on disk, shared"
            f" out among the nodes; about {max(1, round(plan.minutes))} min on one ({plan.basis})",
        ]
    elif plan.missing:
        lines.append(
            f"to download {bytes_words(plan.download_bytes)}, on disk {bytes_words(plan.disk_bytes)} more"
            f"{' at once,' if plan.budget else ' of'} {bytes_words(plan.free_bytes)} free;"
            f" about {max(1, round(plan.minutes))} min ({plan.basis})"
        )
    lines += [f"{planned.build.name}: {planned.reason}" for planned in plan.environments if planned.reason]
    lines += [f"size not known, and not counted: {', '.join(plan.unknown)}"] if plan.unknown else []
    lines += [f"note: {note}" for note in plan.notes]
    return lines + [f"hint: {hint}" for hint in plan.hints]


def _print_plan(request: RunRequest, lines: list[str], *, as_json: bool) -> None:
    if not as_json:
        from bisect_torch.model import CaseKind
        from bisect_torch.report.text import plural

        instances = len(request.known_instances())
        suites = sum(item.file.kind is CaseKind.PYTEST for item in request.discovered)
        unread = sum(item.instances is None for item in request.discovered) - suites
        more = f" and those of {plural(unread, 'file')} that torch must expand" if unread else ""
        more += " and the tests that pytest finds there" if suites else ""
        lines = [*lines, f"would run {plural(instances, 'instance')}{more} on each build"]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return
    import json

    plan = request.plan
    described = {
        "builds": [
            {
                "name": planned.build.name,
                "python": planned.python,
                "present": planned.present is not None,
                "reason": planned.reason or None,
            }
            for planned in plan.environments
        ],
        "download_bytes": plan.download_bytes,
        "disk_bytes": plan.disk_bytes,
        "free_bytes": plan.free_bytes,
        "minutes": plan.minutes,
        "unknown_sizes": list(plan.unknown),
        "notes": list(plan.notes),
        "hints": list(plan.hints),
    }
    sys.stdout.write(json.dumps(request.file.private.value(described), indent=1) + "\n")

"""What a line of ``run`` asks for, for every command that runs cells: builds, cases, environments, conditions."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.options import implied_extras
from bisect_torch.cli.releases import selection
from bisect_torch.cli.sharding import shard_of

if TYPE_CHECKING:
    from bisect_torch.cases import Discovered, LeftOut
    from bisect_torch.engine.request import RunRequest
    from bisect_torch.engine.search.request import Scope
    from bisect_torch.environments import EnvironmentPlan, Project
    from bisect_torch.errors import InfrastructureError, UsageError
    from bisect_torch.model import Build
    from bisect_torch.own_files import OwnFiles
    from bisect_torch.releases.choosing import Unknown
    from bisect_torch.releases.selection import Selection


def build_request(
    args: argparse.Namespace,
    *,
    choice: Selection | None = None,
    discovered: tuple[Discovered, ...] | None = None,
    scope: Callable[[tuple[Build, ...]], Scope] | None = None,
    in_groups: bool = False,
    partial: bool = False,
    unknown: Unknown | None = None,
    elsewhere: bool = False,
    confirm: bool = True,
) -> RunRequest:
    """Everything that can be refused is refused here, before anything is downloaded.

    Args:
        choice: Which builds, instead of what the options say.
        discovered: What is run, instead of what the line names.
        scope: What a search takes of the builds that there are; a run takes all of them.
        in_groups: Environments may come and go, where the disk does not hold all of them.
        partial: Builds that cannot be known, since their index cannot be asked, are named and left out, and so are
            files of a folder that cannot be read.
        unknown: Told of them, where ``partial`` does not say what becomes of them.
        elsewhere: Environments are made on other machines.
        confirm: Cells on which conclusions rest run again.

    Raises:
        BisectTorchError: A file, a range, a version, an option cannot be used, or the disk is too small.
    """
    from bisect_torch import environments
    from bisect_torch.cli.options import environment_options, python_minor
    from bisect_torch.engine import host
    from bisect_torch.engine.request import RunRequest
    from bisect_torch.model import CaseKind, Isolation
    from bisect_torch.redaction import private_of, this_machine
    from bisect_torch.releases.choosing import choose_builds
    from bisect_torch.releases.commits import check_source
    from bisect_torch.results import ResultsFile

    named: Path | None = vars(args).get("source")
    source = None if named is None else check_source(named)
    unread = UnreadFiles()
    if discovered is None:
        discovered = discover(args, unread if partial else None)
        for sentence in unread.sentences():
            _note(sentence)
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
    own = own_files_of(args)
    projects = tuple(environments.project_at(folder, own) for folder in options.editable)
    left_out: dict[str, str] = {}

    def leave_out(name: str, error: InfrastructureError) -> None:
        left_out[name] = error.message
        _note(f"{name} is not known, and left out: {error.message}")

    builds = choose_builds(
        choice or selection(args),
        options.index,
        python=minor,
        backend=options.backend,
        cache_dir=options.store.index_cache,
        ledger=options.store.nightlies,
        installed=lambda build: environments.is_installed(build, options, minor),
        note=_note,
        unknown=leave_out if partial else unknown,
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
        jobs=args.jobs or host.default_jobs(args.device),
        timeout_s=args.timeout,
        repeats=args.repeat,
        isolation=Isolation(args.isolation) if args.isolation else None,
        threads=args.threads,
        seed=args.seed,
        memory_bytes=args.max_memory or host.memory_for_cells(),
        fresh=args.fresh,
        thorough=args.thorough,
        confirm=confirm,
        guard=_guard(),
        projects=projects,
        own=own,
        command_line=tuple(sys.argv[1:]),
        source=source,
        shard=shard,
        edges=(True, True) if shard is None else shard.holds_ends(len(whole)),
        unknown=left_out,
        unread=unread.sentences(),
    )


def tell_late_options(args: argparse.Namespace) -> None:
    """Say which words look like options of the command, and go to another program all the same: it may have them."""
    from bisect_torch.cli.output import print_note

    late = args.late_options
    if late:
        mark, owner = ("--pytest", "pytest") if args.command_words is None else ("--", "the command")
        goes = "goes" if len(late) == 1 else "go"
        print_note(f"{', '.join(late)} after {mark} {goes} to {owner}; options of bisect-torch stand before {mark}")


_IN_EVERY_ENVIRONMENT = re.compile(r"python[\d.]*|torchrun")


def tell_missing_program(args: argparse.Namespace, plan: EnvironmentPlan) -> None:
    """Say that a command is found nowhere so far. Which environments bring it is known only once they are there, so
    that nothing is refused for it."""
    import shutil

    from bisect_torch.cli.output import print_note

    program = next(iter(args.command_words or ()), None)
    if program is None or os.sep in program or plan.elsewhere or _IN_EVERY_ENVIRONMENT.fullmatch(program):
        return
    there = [str(each.present.python.parent) for each in plan.environments if each.present is not None]
    if not shutil.which(program, path=os.pathsep.join([*there, os.environ.get("PATH", os.defpath)])):
        print_note(
            f"{program} is not on PATH: where no package of the environment brings it (--with PACKAGE), its cells will "
            "be broken"
        )


class UnreadFiles:
    """Takes the files of folders that cannot be read, and says it; those that stumble over one file, together."""

    def __init__(self) -> None:
        self._found: dict[str, list[Path]] = {}

    def __call__(self, path: Path, error: UsageError) -> None:
        """Take a file, and why it cannot be read."""
        why = error.message + (f" ({error.hint})" if error.hint else "")
        self._found.setdefault(why, []).append(path)

    def sentences(self) -> tuple[str, ...]:
        """One for each file that is at fault, paths as seen from the working directory."""
        return tuple(self._sentence(why, paths) for why, paths in self._found.items())

    def _sentence(self, why: str, paths: Sequence[Path]) -> str:
        from bisect_torch.report.text import listed

        folder = re.escape(str(paths[0].parent) + os.sep)
        shown = os.path.relpath(paths[0].parent)
        near = "" if shown == "." else os.path.join(shown, "")
        others = [f"{near}{path.name}" for path in paths if not why.startswith(f"{path}:")]
        whose = f"{listed(others)}, since " if others else ""
        return f"left out: {whose}{re.sub(folder, lambda _: near, why)}"


def discover(args: argparse.Namespace, left_out: LeftOut | None = None) -> tuple[Discovered, ...]:
    """The case files, scripts, suites or command that the line names.

    Args:
        left_out: See :func:`bisect_torch.cases.discover`.
    """
    from bisect_torch import cases

    words = tuple(args.command_words or ())
    _refuse_missing_program(words)
    if words:
        cases.refuse_idle_command(words)
    _refuse_missing_file(args)
    return cases.discover(
        args.files,
        suites=args.suite,
        command=words,
        pytest_words=args.pytest_words,
        bad_if_output=args.bad_if_output,
        own=own_files_of(args),
        left_out=left_out,
    )


def own_files_of(args: argparse.Namespace) -> OwnFiles:
    """What a line, and the lines before it, write to: no part of a suite or a project."""
    from bisect_torch.environments import Store
    from bisect_torch.own_files import own_files

    options = vars(args)
    named = (options.get(name) for name in ("profile", "state", "comment"))
    return own_files([Path(path) for path in named if path is not None], Store.at(args.store).own_files)


def _refuse_missing_program(words: Sequence[str]) -> None:
    """A program that is named by a path; one without a path may lie in the environments. A script that nothing can
    start by itself, since ``python`` was forgotten."""
    import shlex
    import shutil

    from bisect_torch.errors import UsageError

    if words and words[0].endswith(".py") and os.path.isfile(words[0]) and not shutil.which(words[0]):
        raise UsageError(f"{words[0]}: no such program", hint=f"did you mean `-- python {shlex.join(words)}`?")
    if words and os.sep in words[0] and not os.path.exists(words[0]):
        raise UsageError(f"{words[0]}: no such program", hint="what stands after -- is run as it is, options and all")


def _refuse_missing_file(args: argparse.Namespace) -> None:
    """Words that are no files, where it is plain that none were meant; what is left is refused as a file."""
    from bisect_torch.cli.meant import no_such_file

    files = [str(path) for path in args.files]
    if all(os.path.exists(name.partition("::")[0]) for name in files):
        return
    refusal = no_such_file(args.command_name, args.own_words, files)
    if refusal is not None:
        raise refusal


def _refuse_empty_choice(discovered: tuple[Discovered, ...], expression: str | None) -> None:
    """An expression that cannot be read, or fits nothing, ends the run here where every instance is known by now."""
    from bisect_torch import cases
    from bisect_torch.nearest import nearest_names

    if expression is None:
        return
    cases.chooser(expression)
    if not discovered:  # watch reads its file later, and says itself what does not fit
        return
    known = [instance for item in discovered for instance in item.instances or ()]
    if cases.matching(known, expression) or any(item.instances is None for item in discovered):
        return
    names = list(dict.fromkeys(instance.case.name for instance in known))
    hint = f"their names begin with: {', '.join(names[:6])}{', …' if len(names) > 6 else ''}"
    if "[" in expression:  # a whole name was meant
        near = nearest_names(expression, (instance.name for instance in known), most=3, cutoff=0.5)
        hint = f"the nearest: {', '.join(near)}" if near else hint
    raise cases.none_fits(expression, (f"{each.case.file.path}::{each.name}" for each in known), hint)


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
    if "BISECT_TORCH_GUARD" not in os.environ:  # as in most runs, which do without loading what reads it
        return None
    from bisect_torch.errors import UsageError
    from bisect_torch.numerics.guard import settings

    try:
        asked = settings.from_environment()
    except ValueError as wrong:
        raise UsageError(
            str(wrong), hint="unset BISECT_TORCH_GUARD, or set it to 1 or to DEVICE:LIMIT as in mps:4294967296"
        ) from wrong
    return None if asked is None else f"{asked.device}:{asked.limit}"

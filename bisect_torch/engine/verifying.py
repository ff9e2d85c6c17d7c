"""What somebody's results claim, the code that would have to run, and running its boundary cells here."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bisect_torch import cases
from bisect_torch.analysis.verifying import Answer, Verified, verified
from bisect_torch.cases import Discovered
from bisect_torch.cases.kept import KeptCode, kept_code, refuse_inputs
from bisect_torch.cases.locating import Remembered, locate
from bisect_torch.engine import host
from bisect_torch.engine.earlier import Conditions, command_lines, conditions_of
from bisect_torch.engine.ledger import display_names
from bisect_torch.engine.request import RunRequest, RunResult
from bisect_torch.environments.lock_text import lock_digest, only_pins
from bisect_torch.errors import UsageError
from bisect_torch.model import Build, BuildKind, Observation, Series, Transition, is_variant_name
from bisect_torch.releases.locks import parse_lock
from bisect_torch.results import ResultsFile

Observed = Callable[[Series, str], Sequence[Observation]]

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*([a-z]+[0-9]+)?(\.(dev|post)[0-9]+)?")


@dataclass(frozen=True)
class Command:
    """A command that a claim is about.

    Args:
        words: As the file keeps them.
        problem: Why it is not run; empty where every file that it named lies here as it was.
    """

    words: tuple[str, ...]
    problem: str


@dataclass(frozen=True)
class Claim:
    """A transition that a file claims, and what is needed to see it here.

    Args:
        code: None for a command, and where there is a problem.
        problem: Why nothing can be run; empty where it can.
        conditions: How its cells ran.
        locks: Build name to hash of the lock that it ran with.
        machines: Machine classes on which it was seen.
    """

    transition: Transition
    code: KeptCode | None = None
    command: Command | None = None
    problem: str = ""
    conditions: Conditions = field(default_factory=Conditions)
    locks: Mapping[str, str] = field(default_factory=dict)
    machines: frozenset[str] = frozenset()

    @property
    def builds(self) -> tuple[str, str]:
        """Names of the builds between which it changed."""
        return self.transition.before.build, self.transition.after.build


@dataclass(frozen=True)
class Group:
    """Claims that run together: the same builds, device and conditions."""

    builds: tuple[str, str]
    conditions: Conditions
    claims: tuple[Claim, ...]


def claims_of(results: ResultsFile, transitions: Iterable[Transition], observed: Observed) -> tuple[Claim, ...]:
    """What is needed for each of these transitions. Nothing is run or written.

    Args:
        observed: Gives the observations of one cell of a series, by the build's name.
    """
    manifests = {str(run.get("run_id")): run for run in results.runs}
    return tuple(_claim(each, results, observed, manifests) for each in transitions)


def _claim(
    transition: Transition, results: ResultsFile, observed: Observed, manifests: Mapping[str, Mapping[str, Any]]
) -> Claim:
    ends = (transition.before.build, transition.after.build)
    by_end = {name: observed(transition.series, name) for name in ends}
    seen = [each for name in ends for each in by_end[name]]
    newest = manifests.get(seen[-1].run_id)
    known = conditions_of(newest, results.private) if newest is not None else Conditions()
    claim = Claim(
        transition,
        conditions=dataclasses.replace(
            known,
            devices=(transition.series.device,),
            timeout_s=seen[-1].timeout_s or known.timeout_s,
            python=".".join((seen[-1].python or "").split(".")[:2]) or None,
            backend=seen[-1].backend,
            extras=(),  # they are in the lock
            editable=(),
        ),
        locks={name: each.lock_hash for name in ends for each in by_end[name][-1:] if each.lock_hash},
        machines=frozenset(each.machine for each in seen if each.machine),
    )
    try:
        _check_builds(seen, known)
        command = _command(seen, results, manifests)
        if command is not None:
            return dataclasses.replace(claim, command=command, problem=command.problem)
        refuse_inputs(seen)
        every = [each for each in results.observations() if each.case_file_hash == seen[-1].case_file_hash]
        return dataclasses.replace(claim, code=kept_code([*every, *seen], results.sources))
    except UsageError as problem:
        return dataclasses.replace(claim, problem=problem.message)


def _check_builds(seen: Sequence[Observation], known: Conditions) -> None:
    """Refuse what cannot be had on another machine."""
    for each in seen:
        if each.build_kind == BuildKind.LOCAL.value:
            raise UsageError(f"{each.build_name} is a local interpreter of another machine")
        if is_variant_name(each.build_name):
            raise UsageError(f"{each.build_name} is a build with other dependencies")
        if not _VERSION.fullmatch(each.build_name):  # a path would be started as an interpreter
            raise UsageError(f"{each.build_name} is not the version of a release or nightly build")
    if known.editable:
        raise UsageError("it tests a project that was installed as editable")


def _command(
    seen: Sequence[Observation], results: ResultsFile, manifests: Mapping[str, Mapping[str, Any]]
) -> Command | None:
    """The command that these cells ran; None where they ran a file."""
    digest = seen[-1].case_file_hash
    if digest in results.sources:
        return None
    lines = command_lines([manifests[each.run_id] for each in seen if each.run_id in manifests], results.private)
    found = locate(Remembered("", digest, {}, commands=lines), named=(), folders=())
    if not found.command:
        return None
    here = cases.discover([], command=found.command)[0].file.local_modules
    problem = ""
    if not here:
        problem = "none of the files that its command names is here"
    elif not all(results.is_whole(each) for each in here.values()):
        problem = "the files that its command names are not here as they were"
    return Command(found.command, problem)


def groups_of(claims: Iterable[Claim]) -> tuple[Group, ...]:
    """The claims that can be run, those together that one run covers."""
    found: dict[tuple[object, ...], list[Claim]] = {}
    for claim in claims:
        if not claim.problem:
            same = (claim.builds, claim.conditions, tuple(sorted(claim.locks.items())), claim.command is not None)
            found.setdefault(same, []).append(claim)
    return tuple(Group(members[0].builds, members[0].conditions, tuple(members)) for members in found.values())


def written(group: Group, folder: Path) -> dict[str, Discovered]:
    """Write the code of a group below a folder and read it; SHA-256 of the case file to what was read.

    Raises:
        UsageError: A file cannot be read as a case file.
    """
    found: dict[str, Discovered] = {}
    for claim in group.claims:
        if claim.code is not None and claim.code.sha256 not in found:
            path = claim.code.write(folder / claim.code.sha256[:12])
            found[claim.code.sha256] = cases.discover([path], bad_if_output=group.conditions.bad_if_output)[0]
        elif claim.command is not None:
            item = cases.discover([], command=claim.command.words, bad_if_output=group.conditions.bad_if_output)[0]
            found[item.file.sha256] = item
    return found


def narrowed(request: RunRequest, group: Group, found: Mapping[str, Discovered], folder: Path) -> RunRequest:
    """The run of just these cells, each repeated until it could be the end of a transition."""
    only = frozenset((found[_digest(claim)].file.path, claim.transition.series.instance) for claim in group.claims)
    commands = any(claim.command is not None for claim in group.claims)
    return dataclasses.replace(
        request,
        only=only,
        select=None,
        confirm_every_cell=True,
        working_directory=request.working_directory if commands else folder,
    )


def _digest(claim: Claim) -> str:
    if claim.code is not None:
        return claim.code.sha256
    assert claim.command is not None
    return cases.discover([], command=claim.command.words)[0].file.sha256


@dataclass(frozen=True)
class Dependencies:
    """From which locks the two ends are made.

    Args:
        builds: With the lock that each is made from.
        packages: Build name to ``name==version`` that a lock of the file, and not one of the tool, brings.
        differences: What is not as it was there, in words.
    """

    builds: tuple[Build, ...]
    packages: Mapping[str, tuple[str, ...]]
    differences: tuple[str, ...]


def dependencies(request: RunRequest, group: Group, results: ResultsFile, folder: Path) -> Dependencies:
    """The tool's own lock where it is the one that ran; else the file's, if it holds nothing but hashed versions."""
    claimed = group.claims[0].locks
    builds: list[Build] = []
    packages: dict[str, tuple[str, ...]] = {}
    differences: list[str] = []
    for planned in request.plan.environments:
        build, digest = planned.build, claimed.get(planned.build.name)
        text = results.locks.get(digest or "", "")
        if digest is None or planned.lock_hash == digest:
            builds.append(build)
        elif lock_digest(text) == digest and only_pins(text):
            path = folder / f"{digest[:16]}.lock"
            path.write_text(text, encoding="utf-8")
            builds.append(dataclasses.replace(build, lock=path, only_lock=True))
            packages[build.name] = tuple(f"{pin.project}=={pin.version}" for pin in parse_lock(text))
        else:
            differences.append(f"{build.name} has other dependencies here than there")
            builds.append(build)
    return Dependencies(tuple(builds), packages, tuple(differences))


def compared(
    group: Group,
    request: RunRequest,
    result: RunResult,
    found: Mapping[str, Discovered],
    differences: Sequence[str],
) -> list[Verified]:
    """Each claim of a group, and what was seen here."""
    names = display_names([item.file.path for item in request.discovered], request.working_directory)
    points = {
        (each.case_file, request.file.private.instance(each.instance), each.device): each for each in result.series
    }
    answers = []
    for claim in group.claims:
        series = claim.transition.series
        key = (names[found[_digest(claim)].file.path], series.instance, series.device)
        here = points.get(key)
        seen = dict(zip(here.builds, here.points, strict=True)) if here is not None else {}
        other = list(differences)
        if claim.machines and host.machine_class() not in claim.machines:
            other.append(f"this machine is of class {host.machine_class()}, not {', '.join(sorted(claim.machines))}")
        python = _pythons(result)
        if claim.conditions.python is not None and python - {claim.conditions.python}:
            other.append(f"Python {', '.join(sorted(python))}, not {claim.conditions.python}")
        before, after = claim.builds
        answers.append(verified(claim.transition, seen.get(before), seen.get(after), other))
    return answers


def _pythons(result: RunResult) -> set[str]:
    return {".".join(each.python_version.split(".")[:2]) for each in result.environments.values()}


def refused(claims: Iterable[Claim]) -> list[Verified]:
    """The claims that could not be run."""
    return [Verified(each.transition, Answer.CANNOT_SAY, reason=each.problem) for each in claims if each.problem]

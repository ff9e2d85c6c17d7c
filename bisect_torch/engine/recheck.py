"""Run again what earlier results call bad, on one new build."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from packaging.version import Version

from bisect_torch import cases
from bisect_torch.analysis.rechecking import Rechecked, is_bad, rechecked, repeats_for
from bisect_torch.analysis.unreached import why_unreached
from bisect_torch.cases import Discovered
from bisect_torch.cases.locating import Located
from bisect_torch.engine.earlier import Earlier, Row
from bisect_torch.engine.ledger import display_names
from bisect_torch.engine.request import RunRequest, RunResult
from bisect_torch.errors import UsageError
from bisect_torch.first_names import first_of
from bisect_torch.model import Build, BuildKind, Observation, Point


@dataclass(frozen=True)
class RecheckPlan:
    """What is run again.

    Args:
        rows: In the order of the earlier results; those in ``skipped`` do not run.
        discovered: Their case files as read.
        skipped: Row to the reason why it does not run.
    """

    earlier: Earlier
    rows: tuple[Row, ...]
    discovered: tuple[Discovered, ...]
    skipped: Mapping[Row, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def plan_recheck(earlier: Earlier, *, everything: bool, changed: str) -> RecheckPlan:
    """Which rows run again, and from which files.

    Args:
        everything: Also rows that were ok, to see what is newly bad.
        changed: ``refuse`` to go on where a case file has changed or is gone, ``run`` the changed file as
            it is now (one that is gone cannot be run), or ``skip`` its rows.

    Raises:
        UsageError: A file has changed or is gone, or can no longer be read as a case file.
    """
    rows = tuple(row for row, point in earlier.points.items() if everything or is_bad(point))
    files = {row: earlier.files[row] for row in rows}
    trouble = list({located.remembered.name: located for located in files.values() if located.problem}.values())
    gone = [located for located in trouble if located.path is None]
    if trouble and (changed == "refuse" or (changed == "run" and gone)):
        raise UsageError(_refusal(gone if changed == "run" else trouble), hint=_hint(gone))
    left_out = {located.remembered.name: located.problem for located in trouble if changed == "skip"}
    running = {row: located for row, located in files.items() if row[0] not in left_out}
    notes = [f"{located.remembered.name} {located.problem}: {_done(changed)}" for located in trouble]
    if earlier.never_judged:
        number = len(earlier.never_judged)
        subject, verb = ("1 row was", "is") if number == 1 else (f"{number:,} rows were", "are")
        notes.append(f"{subject} never judged in the earlier results, and {verb} not run")
    skipped = {row: f"its case file {left_out[row[0]]}" for row in rows if row[0] in left_out}
    return RecheckPlan(earlier, rows, tuple(_discover(running, earlier)), skipped, (*earlier.notes, *notes))


def refuse_older(build: Build, plan: RecheckPlan) -> None:
    """A build that came before the one on which something is bad cannot tell whether that is fixed.

    Raises:
        UsageError: It did, for one of the rows.
    """
    seen = {each.name: each for each in plan.earlier.builds}
    for name in dict.fromkeys(plan.earlier.points[row].build for row in plan.rows):
        other = seen.get(name)
        if other is None or BuildKind.LOCAL in (build.kind, other.kind):
            continue
        if Version(build.version) < Version(other.version):
            raise UsageError(
                f"{build.name} is older than {name}, where the results have it: it cannot show a fix",
                hint="`bisect-torch run` takes older builds",
            )


def _done(changed: str) -> str:
    return "its rows are left out" if changed == "skip" else "it runs as it is now"


def _refusal(trouble: Sequence[Located]) -> str:
    by_problem: dict[str, list[str]] = {}
    for located in trouble:
        by_problem.setdefault(located.problem, []).append(located.remembered.name)
    parts = []
    for problem, names in by_problem.items():
        what = "the case file" if len(names) == 1 else f"each of the {len(names)} case files"
        parts.append(f"{what} {first_of(names, 3)} {problem}")
    return "; ".join(parts)


def _hint(gone: Sequence[Located]) -> str:
    named = "name the file after RESULTS where it lies elsewhere now; " if gone else ""
    run = "" if gone else "--changed run takes it as it is now, "
    return f"{named}{run}--changed skip leaves its rows out"


def _discover(running: Mapping[Row, Located], earlier: Earlier) -> Iterable[Discovered]:
    expression = earlier.conditions.bad_if_output
    commands = {row[1]: located.command for row, located in running.items() if located.command}
    if commands:
        found = (
            cases.called(one, name)
            for name, words in commands.items()
            for one in cases.discover([], command=words, bad_if_output=expression)
        )
        yield cases.together(tuple(found))
    paths = [located.path for located in running.values() if located.path is not None and not located.command]
    if paths:
        yield from cases.discover(paths, bad_if_output=expression)


def narrowed(request: RunRequest, plan: RecheckPlan) -> RunRequest:
    """The run of just these rows, each repeated until it could be the end of a transition.

    Raises:
        UsageError: More than one build was chosen.
    """
    if len(request.builds) != 1:
        names = ", ".join(build.name for build in request.builds[:4])
        raise UsageError(
            f"recheck takes one build, and {len(request.builds)} are chosen: {names}{', …' if len(names) > 4 else ''}",
            hint="name one with --versions; `bisect-torch run` takes several",
        )
    running = [row for row in plan.rows if row not in plan.skipped]
    only = frozenset((path, row[1]) for row in running if (path := plan.earlier.files[row].path) is not None)
    return dataclasses.replace(
        request,
        only=only,
        confirm_every_cell=True,
        repeats=repeats_for(plan.earlier.points[row] for row in running),
    )


def compare(
    plan: RecheckPlan,
    request: RunRequest,
    seen: Mapping[Row, Sequence[Observation]],
    result: RunResult,
    only_ran: Container[Row],
) -> tuple[Rechecked, ...]:
    """Every row, before and now.

    Args:
        seen: What :func:`observed` gives.
        only_ran: Rows that are known to check nothing.
    """
    keys = _keys(plan, request)
    now: dict[Row, Point | None] = {
        (series.case_file, request.file.private.instance(series.instance), series.device): series.points[-1]
        for series in result.series
    }
    found = []
    for row in plan.rows:
        before = plan.earlier.points[row]
        key = keys.get(row)
        if row in plan.skipped or key is None:
            found.append(rechecked(row, before, None, missing=plan.skipped.get(row, "its case file is gone")))
            continue
        missing = "it did not run" if key in now else "the case file has no such instance any more"
        unreached = why_unreached(plan.earlier.observations[row], seen[row], plan.earlier.sources)
        nothing = row in only_ran
        found.append(rechecked(row, before, now.get(key), missing=missing, unreached=unreached, only_ran=nothing))
    return tuple(found)


def observed(plan: RecheckPlan, request: RunRequest, result: RunResult) -> dict[Row, tuple[Observation, ...]]:
    """What was seen of every row on the new build."""
    now: dict[Row, list[Observation]] = {}
    name = request.builds[0].name
    names = {name, request.file.private.redact(name)}
    for each in result.observations:
        if each.build_name in names:
            now.setdefault((each.case_file, each.instance, each.device), []).append(each)
    return {row: tuple(now.get(key, ())) for row, key in _keys(plan, request).items()}


def _keys(plan: RecheckPlan, request: RunRequest) -> dict[Row, Row]:
    """Row of the earlier results to how the new ones call it; those whose case file is gone are left out."""
    names = display_names([item.file.path for item in request.discovered], request.working_directory)
    paths = {row: plan.earlier.files[row].path for row in plan.rows if row not in plan.skipped}
    return {row: (names[path], row[1], row[2]) for row, path in paths.items() if path is not None}

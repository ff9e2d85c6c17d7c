"""What a run leaves behind: its part of the results' manifest, and what it found."""

from __future__ import annotations

import datetime

from bisect_torch import analysis
from bisect_torch.engine.ledger import Ledger
from bisect_torch.engine.other_state import describe_suite
from bisect_torch.engine.request import RunRequest, RunResult
from bisect_torch.engine.rows import Rows
from bisect_torch.engine.site import Site
from bisect_torch.model import Verdict
from bisect_torch.shipped import tool_version


def manifest(
    request: RunRequest,
    ledger: Ledger,
    rows: Rows,
    site: Site,
    *,
    run_id: str,
    started: datetime.datetime,
    ended: bool,
) -> dict[str, object]:
    """What was asked for and what is known of the environments, as results keep it.

    Args:
        run_id: Marks the rows of this run.
        started: When, in UTC.
        ended: It ends now; else it goes on, or was cut off.
    """
    known = ledger.environments
    return {
        "run_id": run_id,
        "tool_version": tool_version(),
        "started_at": started.isoformat(timespec="seconds"),
        "ended_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds") if ended else None,
        "arguments": list(request.command_line),
        "builds": [build.name for build in request.builds],
        "devices": list(request.devices),
        **analysis.planned(map(ledger.row_of, rows.planned())),
        "timeout_s": request.timeout_s,
        "threads": request.threads,
        "seed": request.seed,
        "fresh": request.fresh,
        "thorough": request.thorough,
        "variables": ledger.variables,
        "pass_env": sorted(set(request.environment_options.pass_env)),
        "case_files": sorted(
            {item.file.sha256 for item in request.discovered}
            | {instance.case.file.sha256 for instance in rows.suites.instances}
        ),
        "projects": [project.describe() for project in request.projects],
        **({"suite": suite} if (suite := describe_suite(request.discovered)) else {}),
        "environments": [known[build.name].describe() for build in request.builds if build.name in known],
        **site.describe(),
    }


def result(request: RunRequest, ledger: Ledger, rows: Rows, *, interrupted: bool, seconds: float) -> RunResult:
    """What a run found.

    Args:
        interrupted: It was cut off.
        seconds: That it took.
    """
    builds = [build.name for build in request.builds]
    # Tests that only builds outside of this run have; where one could not be collected here, that is said.
    elsewhere = set() if interrupted else rows.suites.elsewhere(builds)
    every = rows.all()
    foreign = [row for row in every if (row.case.file.path, row.name) in elsewhere]
    hidden = {
        (each.case_file, each.instance)
        for each in ledger.series(foreign)
        if all(point is None or point.judgement.verdict is Verdict.SKIP for point in each.points)
    }
    series = tuple(each for each in ledger.series(every) if (each.case_file, each.instance) not in hidden)
    return RunResult(
        builds=tuple(build for build in request.builds if build.name in request.matrix),
        environments=dict(ledger.environments),
        series=series,
        transitions=tuple(found for each in series for found in analysis.transitions(each)),
        observations=ledger.observations,
        interrupted=interrupted,
        seconds=seconds,
        ran=ledger.ran(series),
        beside=ledger.beside(every),
    )

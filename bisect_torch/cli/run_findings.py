"""What came out of a run, as the reports take it, and printed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.words import before_dashes, before_pytest

if TYPE_CHECKING:
    from bisect_torch.engine.request import RunRequest, RunResult
    from bisect_torch.model import Build, Environment
    from bisect_torch.releases.commits import Origin
    from bisect_torch.report.findings import Findings


def findings_of(request: RunRequest, result: RunResult) -> Findings:
    """What the reports are made from."""
    from bisect_torch.redaction import inside
    from bisect_torch.report.doubts import doubted
    from bisect_torch.report.findings import Findings

    found = Findings(
        builds=result.builds,
        environments=result.environments,
        series=result.series,
        transitions=result.transitions,
        observations=result.observations,
        results=request.results,
        continue_with=continue_with(request.file.private.kept_words(sys.argv[1:])),
        interrupted=result.interrupted,
        seconds=result.seconds,
        ran=result.ran,
        notes=request.plan.notes,
        unknown=request.unknown,
        unread=request.unread,
        known_releases=known_releases(),
        twins=result.beside,
        origins=origins_of(result.builds, result.environments, request.source),
        runs=request.file.runs,
        sources=request.file.sources,
    )
    return inside(doubted(found), request.file.private)


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
    """The command line that goes on: it must not begin anew.

    Args:
        words: Of the line, as they were typed or as they are kept.
    """
    from bisect_torch.report.retyped import shell_line, typed

    words, pytest_words = before_pytest(words)
    own, command_words = before_dashes(words)
    kept = ["bisect-torch", *(word for word in own if word != "--fresh")]
    kept += [] if command_words is None else ["--", *command_words]
    return shell_line(map(typed, kept if pytest_words is None else [*kept, "--pytest", *pytest_words]))


def print_findings(findings: Findings, *, as_json: bool, unfolded: bool = False) -> None:
    """Matrix, sentences and counts on stdout.

    Args:
        unfolded: A line of the matrix for each row.
    """
    if as_json:
        from bisect_torch.report.data import json_text

        sys.stdout.write(json_text(findings))
        return
    from bisect_torch.report.summary import summary
    from bisect_torch.report.terminal import print_lines, width_for

    print_lines(summary(findings, width_for(sys.stdout), unfolded=unfolded))

"""What came out of a run, as the reports take it, and printed."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch.cli.words import before_dashes, before_pytest

if TYPE_CHECKING:
    from bisect_torch.engine.request import RunRequest, RunResult
    from bisect_torch.model import Build, Environment
    from bisect_torch.releases.commits import Origin
    from bisect_torch.report.earlier_texts import EarlierText
    from bisect_torch.report.findings import Findings
    from bisect_torch.results import ResultsFile


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
    found = inside(doubted(found), request.file.private)
    return dataclasses.replace(found, earlier=_earlier(found, request.file))


def _earlier(found: Findings, file: ResultsFile) -> tuple[EarlierText, ...]:
    """What the file has of these rows with an earlier text or command.

    The manifests tell whether there may be some, so that nothing is looked at where all runs had the same files.
    """
    from bisect_torch.report.files import COMMANDS

    texts = {str(run.get("case_files")) for run in file.runs}
    if len(file.runs) < 2 or (len(texts) == 1 and all(each.case_file != COMMANDS for each in found.series)):
        return ()
    from bisect_torch.analysis import counted
    from bisect_torch.report.earlier_texts import earlier_texts

    cases = {(each.case_file, each.instance.partition("[")[0]) for each in found.series}
    observations = file.observations()
    every = earlier_texts(observations, counted(observations), file.runs)
    return tuple(each for each in every if (each.case_file, each.case) in cases)


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

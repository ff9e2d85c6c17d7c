"""What a report is made from. Every format is a pure function of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bisect_torch.model import Build, Environment, Observation, Series, Transition, Verdict


@dataclass(frozen=True)
class Findings:
    """The judged results of a run, or of a results file judged again.

    Args:
        builds: In column order.
        environments: Build name to environment, for those that have one.
        series: One for each instance and device.
        transitions: As found by the analysis.
        observations: Of which only digests and reasons are read; without them drift is not mentioned.
        results: Where the results are.
        continue_with: The command line that goes on where this run stopped.
        interrupted: The user stopped it.
        seconds: How long it took; None for results that are only judged again.
    """

    builds: tuple[Build, ...]
    environments: Mapping[str, Environment]
    series: tuple[Series, ...]
    transitions: tuple[Transition, ...]
    observations: tuple[Observation, ...] = ()
    results: Path | None = None
    continue_with: str | None = None
    interrupted: bool = False
    seconds: float | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def build_names(self) -> tuple[str, ...]:
        return tuple(build.name for build in self.builds)

    def commit(self, build: str) -> str | None:
        """Full hash of the commit that a build was made from, where known."""
        environment = self.environments.get(build)
        if environment is not None and environment.git_commit:
            return environment.git_commit
        return next((each.git_commit for each in self.builds if each.name == build), None)

    def counts(self) -> Counter[Verdict]:
        """Cells of each verdict."""
        return Counter(point.judgement.verdict for each in self.series for point in each.points if point is not None)

    def not_run(self) -> int:
        """Cells without any observation."""
        return sum(point is None for each in self.series for point in each.points)

    def flaky(self) -> int:
        return sum(point is not None and point.flaky for each in self.series for point in each.points)

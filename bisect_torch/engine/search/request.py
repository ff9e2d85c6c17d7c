"""What a search over real environments is asked for, what it tells on its way, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from bisect_torch import analysis
from bisect_torch.analysis.noisy import CONFIDENCE
from bisect_torch.analysis.question import Finished, Question, RemarkKind
from bisect_torch.engine import events
from bisect_torch.engine.request import RunRequest
from bisect_torch.engine.second_look import CONFIRMING_S
from bisect_torch.model import Boundary, Build, Environment, Observation, Series, Transition, TransitionKind

RowKey = tuple[str, str, str]
"""Case file, instance, device."""

SHOWN_FROM = 0.01
"""Boundaries below this probability are not listed."""


@dataclass(frozen=True)
class BisectRequest:
    """What a search is asked for.

    Args:
        run: Files, options and results file, with every build that the search may judge.
        question: The ends. Its builds are those of ``run``.
        confidence: Posterior probability at which the boundary of a flaky case is named.
        flaky: The bug shows only sometimes: no single answer is believed from the beginning.
        flaky_budget_s: Seconds that the runs of flaky cases may take together, besides installing.
        ahead: How many environments are made ahead of the search.
        judge_absent: A torch without the name is a state that is searched for; else it is neither good nor bad.
        finer: Nightly builds between two releases that differ are searched, so far as there are any.
    """

    run: RunRequest
    question: Question
    confidence: float = CONFIDENCE
    flaky: bool = False
    flaky_budget_s: float = CONFIRMING_S
    ahead: int = 0
    judge_absent: bool = False
    finer: bool = False


@dataclass(frozen=True)
class Scope:
    """What a search takes of the builds that there are.

    Args:
        builds: Those that it may judge.
        first: Names of those that it is expected to begin with. The plan rests on these, where looking at all of them
            would take long.
        at_most: How many it judges at most, for one change and when all can be judged.
    """

    builds: tuple[Build, ...]
    first: frozenset[str]
    at_most: int


@dataclass(frozen=True)
class Weighed:
    """A flaky row's boundaries.

    Args:
        boundaries: The likeliest first, those above :data:`SHOWN_FROM`. The older build stands first in each.
        fixed: The older builds have the bug.
        everywhere: Probability that every build of the range has it.
        nowhere: Probability that none has, and what was seen were false alarms.
        shows: Expected probability that a run on a build with the bug shows it.
        confidence: What was asked for.
        counts: Build to runs that showed the bug and runs in all.
        processes: Worker processes that this rests on.
        seconds: What the runs took.
        stopped: Why it ended below the confidence; empty where it did not.
    """

    boundaries: tuple[Boundary, ...]
    fixed: bool
    everywhere: float
    nowhere: float
    shows: float
    confidence: float
    counts: Mapping[str, tuple[int, int]]
    processes: int
    seconds: float
    stopped: str = ""

    @property
    def named(self) -> Boundary | None:
        """The boundary, where it is as sure as asked for."""
        first = self.boundaries[0] if self.boundaries else None
        return first if first is not None and first.confidence >= self.confidence else None

    @property
    def exit_code(self) -> int:
        """0: the newest build does not have it; 1: it has; 3: not known."""
        if self.everywhere >= self.confidence or (self.named and not self.fixed):
            return 1
        return 0 if self.nowhere >= self.confidence or self.named else 3


@dataclass(frozen=True)
class Row:
    """What was found about one instance on one device.

    Args:
        series: Over all builds of the question; None where a build was not judged.
        finished: The search's end; for a flaky row what it would be without the flaky builds.
        weighed: For a row whose repeats differ: the boundaries by their probabilities.
    """

    series: Series
    finished: Finished
    weighed: Weighed | None = None


@dataclass(frozen=True)
class BisectResult:
    """What a search found.

    Args:
        rows: One for each instance and device.
        judged: Builds that were judged now, in the order of the search.
        known: Builds that were known from earlier runs and of use.
        made: Environments that had to be made for that.
        ahead: Environments that were made ahead of the search, and that it may not have come to.
        builds: Those of the question.
        finer: Nightly builds were to be searched between releases.
        judge_absent: As in the request.
    """

    rows: tuple[Row, ...]
    environments: Mapping[str, Environment]
    observations: tuple[Observation, ...]
    judged: tuple[str, ...]
    known: tuple[str, ...]
    made: tuple[str, ...]
    ahead: tuple[str, ...]
    interrupted: bool
    seconds: float
    builds: tuple[Build, ...] = ()
    finer: bool = False
    judge_absent: bool = False

    @cached_property
    def absent_names(self) -> Mapping[tuple[RowKey, str], list[str]]:
        """Row and build to the names that its torch did not have."""
        found: dict[tuple[RowKey, str], list[str]] = {}
        for each in self.observations:
            if each.absent_name is not None:
                row = (each.case_file, each.instance, each.device)
                found.setdefault((row, each.build_name), []).append(each.absent_name)
        return found

    @property
    def transitions(self) -> tuple[Transition, ...]:
        """Of rows that are not flaky: where one is, the posterior decides, and few runs of a build prove nothing.

        Those that the search looks for, and where the name appears and disappears.
        """
        steady = [row.series for row in self.rows if row.weighed is None]
        return tuple(found for series in steady for found in self._of_row(series))

    def _of_row(self, series: Series) -> list[Transition]:
        every = analysis.transitions(series)
        if self.judge_absent:
            return every
        searched = analysis.transitions(series, over_absent=True)
        available = [each for each in every if each.kind in (TransitionKind.APPEARED, TransitionKind.DISAPPEARED)]
        return sorted([*searched, *available], key=lambda each: series.builds.index(each.after.build))

    @property
    def exit_code(self) -> int:
        """0: good at the newer end; 1: bad or flaky there; 3: it could not be judged; 130: interrupted."""
        if self.interrupted:
            return 130
        codes = [_exit_code(row) for row in self.rows]
        return 1 if 1 in codes else 3 if 3 in codes or not codes else 0


def _exit_code(row: Row) -> int:
    if row.weighed is not None:
        return row.weighed.exit_code
    searched = row.finished.searched
    if searched is None:
        return 3
    newest = row.series.points[row.series.builds.index(searched[1])]
    if newest is not None and newest.judgement.verdict.bad:
        return 1
    unjudged = {remark.build for remark in row.finished.remarks if remark.kind is RemarkKind.END_NOT_JUDGED}
    newer_builds = row.series.builds[row.series.builds.index(searched[1]) + 1 :]
    return 3 if unjudged & set(newer_builds) else 0


@dataclass(frozen=True)
class Judging:
    """The search is about to judge builds.

    Args:
        older: Name and signature of the judged build below, where the search is between two.
        newer: The one above.
        at_most: Builds to judge until the end, these included, when all goes as usual.
        installs: How many environments that takes at most.
        seconds: How long that and the confirming will take; None where nothing tells yet.
    """

    builds: tuple[str, ...]
    older: tuple[str, str] | None
    newer: tuple[str, str] | None
    at_most: int
    installs: int
    seconds: float | None


@dataclass(frozen=True)
class Judged:
    """A build was judged: signature (or what it could not be judged for) to number of rows."""

    build: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Repeating:
    """Builds are run again in further processes, since the ends are not as they were said to be."""

    builds: tuple[str, ...]


@dataclass(frozen=True)
class Weighs:
    """A flaky row: what is held likeliest so far, and what runs next."""

    instance: str
    weighed: Weighed
    build: str
    processes: int
    each: int


BisectEvent = events.Event | Judging | Judged | Repeating | Weighs
BisectObserver = Callable[[BisectEvent], None]

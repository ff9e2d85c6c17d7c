"""Find a boundary of a bug that shows only sometimes, in the least expected time. Pure.

A build before the boundary shows the bug by a false alarm at most, one behind it with some probability; neither is
known, nor how much the repeats inside one worker process depend on each other (measured: from not at all to
completely), nor how much that probability differs from build to build (measured on one case, on one machine: from 5 %
to 19 %). All of that is a grid of hypotheses, weighed by Bayes' rule after every worker process; the build to try
next is the one that is expected to tell most about the boundary per second, as in probabilistic bisection (Horstein
1963; Waeber, Frazier and Henderson 2013, doi 10.1137/120861898), with three prices: a repeat in a process that runs, a
new process, a new environment.

Builds are numbered from the end without the bug: ``0`` is said not to have it, the last one to have it. The caller
turns the order round where the bug was fixed.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import mul
from typing import NamedTuple

CONFIDENCE = 0.95
"""Posterior probability at which a boundary is named."""

PROCESSES_PLANNED = (1, 2, 4, 8, 16, 32)
"""A plan may look this many processes ahead, since one alone does not pay for a new environment. One is run, then the
next is planned anew."""

REPEATS_PLANNED = (1, 4, 16)

_NEGLIGIBLE = 1e-7


class Hypothesis(NamedTuple):
    """One way in which the bug may behave.

    Args:
        shows: Probability that a run on a build with the bug shows it.
        false_alarm: Probability that a run on a build without it looks like it.
        copies: A process draws once at its start, and each repeat in it copies that with this probability, else it
            draws anew: 0 means that repeats are independent, 1 that they are all alike.
        spread: A process draws its own probability of showing the bug, from a beta distribution whose intraclass
            correlation this is. One of ``copies`` and ``spread`` is 0.
    """

    shows: float
    false_alarm: float
    copies: float
    spread: float


@dataclass(frozen=True)
class Prior:
    """What is held possible before the first run; every value of a list is as likely as the others.

    Args:
        shows: See :class:`Hypothesis`.
        false_alarms: See :class:`Hypothesis`.
        copies: See :class:`Hypothesis`.
        spreads: See :class:`Hypothesis`. Two models of how repeats depend on each other, since a small number of
            silent repeats means much under one of them and little under the other.
        alike: Probability that a build with the bug shows it as often as such builds do in general.
        near: Probability that it does so with the value of ``shows`` just below or above that instead. Else it may be
            any of the values. Without this a few silent runs of a build that shows it seldom are taken for its absence.
        everywhere: Probability that there is no boundary in the range since every build has the bug.
        nowhere: Probability that none has it.
    """

    shows: tuple[float, ...] = (0.08, 0.13, 0.2, 0.3, 0.4, 0.55, 0.7, 0.85, 1.0)
    false_alarms: tuple[float, ...] = (0.0, 0.003, 0.012)
    copies: tuple[float, ...] = (0.0, 0.3, 0.7, 1.0)
    spreads: tuple[float, ...] = (0.2, 0.45, 0.75)
    alike: float = 0.5
    near: float = 0.3
    everywhere: float = 0.0
    nowhere: float = 0.0

    @cached_property
    def kernel(self) -> tuple[tuple[float, ...], ...]:
        """For each value of ``shows``, as it is in general, the probability of each value on one build."""
        size = len(self.shows)
        if size == 1:
            return ((1.0,),)
        rows = []
        for general in range(size):
            beside = [place for place in (general - 1, general + 1) if 0 <= place < size]
            row = [(1.0 - self.alike - self.near) / size] * size
            row[general] += self.alike
            for place in beside:
                row[place] += self.near / len(beside)
            rows.append(tuple(row))
        return tuple(rows)

    @cached_property
    def grid(self) -> tuple[Hypothesis, ...]:
        """Every combination."""
        dependences = [*((copies, 0.0) for copies in self.copies), *((0.0, spread) for spread in self.spreads)]
        return tuple(
            Hypothesis(shows, false_alarm, *dependence)
            for shows in self.shows
            for false_alarm in self.false_alarms
            for dependence in dependences
        )


@dataclass(frozen=True)
class Costs:
    """Seconds. Measured on two cores: a small case in a fork, importing torch from bytecode, a cached install."""

    repeat_s: float = 0.02
    process_s: float = 2.0
    environment_s: float = 20.0

    def of(self, processes: int, repeats: int, *, present: bool) -> float:
        """Of so many processes, each with so many repeats, on one build."""
        return (0.0 if present else self.environment_s) + processes * (self.process_s + repeats * self.repeat_s)


@dataclass(frozen=True)
class Trial:
    """What one worker process gave.

    Args:
        place: Number of the build.
        repeats: Runs of the case in it.
        shown: How many of them showed the bug.
    """

    place: int
    repeats: int
    shown: int


@dataclass(frozen=True)
class Next:
    """Start one worker process on build ``place`` and run the case ``repeats`` times in it.

    Args:
        processes: How many like it the plan has that this is the first of: so many may run at the same time.
        information: Expected information about the boundary, in nats, of that plan.
        seconds: What it costs.
    """

    place: int
    repeats: int
    processes: int
    information: float
    seconds: float


@dataclass(frozen=True)
class Named:
    """A boundary with its posterior probability. -1 and the number of builds stand for outside of the range."""

    last_without: int
    first_with: int
    probability: float


def likelihood(repeats: int, shown: int, probability: float, hypothesis: Hypothesis) -> float:
    """Probability that ``shown`` given repeats of one process show the bug, and the others do not.

    That is without the binomial coefficient, which is the same for every hypothesis.

    Args:
        probability: That a repeat shows it.
        hypothesis: Of which only ``copies`` and ``spread`` count.
    """
    silent = repeats - shown
    if hypothesis.spread:
        concentration = (1.0 - hypothesis.spread) / hypothesis.spread
        alpha, beta = probability * concentration, (1.0 - probability) * concentration
        above = math.prod(alpha + n for n in range(shown)) * math.prod(beta + n for n in range(silent))
        return above / math.prod(concentration + n for n in range(repeats))
    anew = (1.0 - hypothesis.copies) * probability
    drawn_shown = (hypothesis.copies + anew) ** shown * (1.0 - hypothesis.copies - anew) ** silent
    drawn_silent = anew**shown * (1.0 - anew) ** silent
    return probability * drawn_shown + (1.0 - probability) * drawn_silent


@lru_cache(maxsize=1024)
def _likelihoods(prior: Prior, repeats: int, shown: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """For each point of the grid, on a build without and with the bug."""
    good = tuple(likelihood(repeats, shown, each.false_alarm, each) for each in prior.grid)
    bad = tuple(
        likelihood(repeats, shown, each.shows + (1.0 - each.shows) * each.false_alarm, each) for each in prior.grid
    )
    return good, bad


@dataclass(frozen=True)
class Belief:
    """How likely every boundary is, with every hypothesis about the bug.

    Args:
        weights: For each ``k`` (the first build with the bug; the number of builds means none) the joint probability
            with each point of the prior's grid, whose ``shows`` is that of builds in general. They add up to 1.
        seen: For each build, for each point of the grid, whose ``shows`` is now that of this build, the likelihood of
            all of its trials if it has the bug. None before the first.
    """

    prior: Prior
    weights: tuple[tuple[float, ...], ...]
    seen: tuple[tuple[float, ...] | None, ...]

    @classmethod
    def start(cls, builds: int, prior: Prior | None = None, shares: Sequence[float] | None = None) -> Belief:
        """Before any run.

        Args:
            builds: At least 2.
            shares: How likely each boundary in the range is against the others; alike when None.
        """
        prior = prior or Prior()
        shares = [1.0] * (builds - 1) if shares is None else shares
        inside = (1.0 - prior.everywhere - prior.nowhere) / sum(shares)
        size = len(prior.grid)
        sums = [prior.everywhere, *(inside * share for share in shares), prior.nowhere]
        return cls(prior, tuple((each / size,) * size for each in sums), (None,) * builds)

    @property
    def builds(self) -> int:
        """How many builds it is about."""
        return len(self.weights) - 1

    @cached_property
    def positions(self) -> tuple[float, ...]:
        """Posterior probability that build ``k`` is the first with the bug, for ``k`` from 0 to their number."""
        return tuple(sum(row) for row in self.weights)

    def after(self, trial: Trial) -> Belief:
        """With one more process taken into account."""
        good, bad = _likelihoods(self.prior, trial.repeats, trial.shown)
        before = self.seen[trial.place]
        now = bad if before is None else tuple(map(mul, before, bad))
        told_now = _in_general(self.prior, now)
        if before is not None:
            told_now = list(map(_ratio, told_now, _in_general(self.prior, before)))
        rows = [list(map(mul, row, told_now if k <= trial.place else good)) for k, row in enumerate(self.weights)]
        total = sum(map(sum, rows))
        if total <= 0.0:  # no hypothesis of the grid allows it: keep what was believed
            return self
        scale = max(now) or 1.0  # only ratios count: many trials must not run out of small numbers
        seen = (*self.seen[: trial.place], tuple(each / scale for each in now), *self.seen[trial.place + 1 :])
        return Belief(self.prior, tuple(tuple(each / total for each in row) for row in rows), seen)

    def boundaries(self, closed: Container[int] = ()) -> list[Named]:
        """Every boundary, the likeliest first.

        Args:
            closed: Builds that cannot be judged: boundaries that differ only by them are one.
        """
        sums: dict[tuple[int, int], float] = {}
        for k, probability in enumerate(self.positions):
            last = next((place for place in range(k - 1, -1, -1) if place not in closed), -1)
            first = next((place for place in range(k, self.builds) if place not in closed), self.builds)
            sums[last, first] = sums.get((last, first), 0.0) + probability
        named = [Named(last, first, probability) for (last, first), probability in sums.items()]
        return sorted(named, key=lambda each: -each.probability)

    def shows(self) -> float:
        """Expected probability that a run on a build with the bug shows it."""
        sums = [math.fsum(column) for column in zip(*self.weights, strict=True)]
        return math.fsum(each * hypothesis.shows for each, hypothesis in zip(sums, self.prior.grid, strict=True))


def next_trial(
    belief: Belief,
    *,
    present: Container[int],
    costs: Costs | None = None,
    closed: Container[int] = (),
    most_repeats: int = REPEATS_PLANNED[-1],
) -> Next | None:
    """What to run next; None when nothing is expected to tell anything about the boundary.

    For every build, every number of processes and of repeats in each: how much is learnt about the boundary from
    whether the bug shows at all (the mutual information of the two), divided by what it costs.

    Args:
        present: Builds whose environment is there.
        closed: Builds that cannot be judged.
        most_repeats: In one process; 1 where a process cannot run the case twice, as with scripts.
    """
    costs = costs or Costs()
    outlook = _Outlook(belief)
    best: tuple[float, Next] | None = None
    for processes, repeats in _plans(most_repeats):
        for place, information in enumerate(outlook.information(processes, repeats)):
            if place in closed or information < 1e-12:
                continue
            seconds = costs.of(processes, repeats, present=place in present)
            rate = information / seconds
            if best is None or rate > best[0]:
                best = rate, Next(place, repeats, processes, information, seconds)
    return None if best is None else best[1]


def _plans(most_repeats: int) -> Iterator[tuple[int, int]]:
    for processes in PROCESSES_PLANNED:
        yield processes, 1
        yield from ((processes, repeats) for repeats in REPEATS_PLANNED[1:] if repeats <= most_repeats)


@lru_cache(maxsize=256)
def _silent(prior: Prior, processes: int, repeats: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """For each point of the grid: probability that no run of the plan shows the bug, without and with the bug."""
    good, bad = _likelihoods(prior, repeats, 0)
    return tuple(each**processes for each in good), tuple(each**processes for each in bad)


def _in_general(prior: Prior, on_build: Sequence[float]) -> list[float]:
    """From likelihoods by what one build shows to likelihoods by what builds show in general."""
    rest = len(on_build) // len(prior.shows)
    parts = [on_build[start : start + rest] for start in range(0, len(on_build), rest)]
    return [sum(map(mul, row, column)) for row in prior.kernel for column in zip(*parts, strict=True)]


def _on_build(prior: Prior, general: Sequence[float], seen: Sequence[float] | None) -> list[float]:
    """From probabilities by what builds show in general to those by what one build shows, given its trials."""
    if seen is not None:
        general = list(map(_ratio, general, _in_general(prior, seen)))
    rest = len(general) // len(prior.shows)
    parts = [general[start : start + rest] for start in range(0, len(general), rest)]
    spread = [
        sum(map(mul, row, column)) for row in zip(*prior.kernel, strict=True) for column in zip(*parts, strict=True)
    ]
    return spread if seen is None else list(map(mul, spread, seen))


class _Outlook:
    """What a belief expects of each build, made once for all plans."""

    def __init__(self, belief: Belief) -> None:
        self.builds = belief.builds
        self.prior = belief.prior
        # What is next to impossible is left out: after a few processes that is most.
        self.weights = {k: row for k, row in enumerate(belief.weights) if belief.positions[k] > _NEGLIGIBLE}
        self.positions = {k: belief.positions[k] for k in self.weights}
        fresh = {k: _on_build(belief.prior, row, None) for k, row in self.weights.items()}
        self.on_bad = [
            fresh
            if seen is None
            else {k: _on_build(belief.prior, row, seen) for k, row in self.weights.items() if k <= place}
            for place, seen in enumerate(belief.seen)
        ]
        self.fresh = fresh

    def information(self, processes: int, repeats: int) -> list[float]:
        """Mutual information, in nats, of the boundary and of whether the bug shows at all, for each build."""
        good, bad = _silent(self.prior, processes, repeats)
        if_good = {k: sum(map(mul, row, good)) for k, row in self.weights.items()}
        if_fresh = {k: sum(map(mul, row, bad)) for k, row in self.fresh.items()}
        found = []
        for place, rows in enumerate(self.on_bad):
            silent = dict(if_good)
            for k in self.weights:
                if k <= place:  # the build has the bug
                    silent[k] = if_fresh[k] if rows is self.fresh else sum(map(mul, rows[k], bad))
            known = sum(_noise(silent[k], self.positions[k]) for k in self.weights)
            found.append(max(0.0, _entropy(sum(silent.values())) - known))
        return found


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0.0 else 0.0


def _noise(silent: float, position: float) -> float:
    """The entropy that is left when the boundary is known, times the probability of that boundary."""
    return position * _entropy(silent / position) if position > _NEGLIGIBLE else 0.0


def _entropy(probability: float) -> float:
    if not 0.0 < probability < 1.0:
        return 0.0
    return -probability * math.log(probability) - (1.0 - probability) * math.log1p(-probability)

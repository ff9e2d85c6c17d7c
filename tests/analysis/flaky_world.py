"""Simulated flaky bugs, and the loop that people write for them: so many repeats at each step of a binary search."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bisect_torch.analysis.noisy import Belief, Costs, Prior, Trial, next_trial

BUILDS = 15
COSTS = Costs()


@dataclass(frozen=True)
class History:
    """A bug with its probabilities, as the search does not know them.

    Args:
        first_bad: 0: every build has it; the number of builds: none has it.
        dependence: Of repeats in one process, from 0 (none) to 1 (full).
        drifting: Each process has a probability of its own (beta-binomial); else repeats copy what the process drew.
        factors: For each build, by how much more often it shows the bug than ``shows`` says; empty for all alike.
    """

    first_bad: int
    shows: float
    false_alarm: float
    dependence: float
    drifting: bool
    factors: tuple[float, ...] = ()

    def probability(self, place: int) -> float:
        if place < self.first_bad:
            return self.false_alarm
        shows = min(1.0, self.shows * self.factors[place]) if self.factors else self.shows
        return shows + (1 - shows) * self.false_alarm

    def run(self, place: int, repeats: int, rng: random.Random) -> int:
        """How many repeats of one process show the bug."""
        chance, full = self.probability(place), self.dependence >= 1
        drawn = rng.random() < chance
        if not self.drifting or full or chance in (0, 1) or not self.dependence:
            return sum(drawn if rng.random() < self.dependence else rng.random() < chance for _ in range(repeats))
        concentration = (1 - self.dependence) / self.dependence
        own = rng.betavariate(chance * concentration, (1 - chance) * concentration)
        return sum(rng.random() < own for _ in range(repeats))

    def silent(self, place: int, repeats: int) -> float:
        """Probability that no repeat of one process shows the bug."""
        chance = self.probability(place)
        if not self.drifting or self.dependence in (0, 1):
            anew = (1 - self.dependence) * chance
            return chance * (1 - self.dependence - anew) ** repeats + (1 - chance) * (1 - anew) ** repeats
        concentration = (1 - self.dependence) / self.dependence
        return math.prod(((1 - chance) * concentration + n) / (concentration + n) for n in range(repeats))


def histories(number: int, rng: random.Random, *, everywhere: float = 0.0, uneven: bool = False) -> list[History]:
    """Drawn from all that the promise covers: 0.1 to 1, false alarms up to 1 %, dependence from none to full.

    Args:
        everywhere: Share of histories in which every build has the bug.
        uneven: Builds with the bug show it with probabilities of their own, between half and twice as much.
    """
    found = []
    for _ in range(number):
        inside = rng.random() >= everywhere
        found.append(
            History(
                first_bad=rng.randrange(1, BUILDS) if inside else 0,
                shows=rng.choice([tenth / 10 for tenth in range(1, 11)]),
                false_alarm=rng.uniform(0, 0.01),
                dependence=rng.choice((0.0, 0.25, 0.5, 0.75, 1.0)),
                drifting=rng.random() < 0.5,
                factors=tuple(2 ** rng.uniform(-1, 1) for _ in range(BUILDS)) if uneven else (),
            )
        )
    return found


@dataclass(frozen=True)
class Outcome:
    right: bool
    seconds: float
    processes: int
    environments: int
    claimed: float


def searched(
    history: History, rng: random.Random, *, most_repeats: int, confidence: float, prior: Prior | None = None
) -> Outcome:
    """The search in the simulated world."""
    belief, present, seconds, processes = Belief.start(BUILDS, prior), set[int](), 0.0, 0
    while (top := belief.boundaries()[0]).probability < confidence:
        chosen = next_trial(belief, present=present, costs=COSTS, most_repeats=most_repeats)
        if chosen is None or processes >= 500:
            break
        seconds += COSTS.of(1, chosen.repeats, present=chosen.place in present)
        present.add(chosen.place)
        processes += 1
        shown = history.run(chosen.place, chosen.repeats, rng)
        belief = belief.after(Trial(chosen.place, chosen.repeats, shown))
    right = (top.last_without, top.first_with) == (history.first_bad - 1, history.first_bad)
    return Outcome(right, seconds, processes, len(present), top.probability)


# --- the loop that it is compared with


def _steps(first_bad: int) -> Iterator[int]:
    low, high = 0, BUILDS - 1
    while high - low > 1:
        middle = (low + high) // 2
        yield middle
        low, high = (low, middle) if middle >= first_bad else (middle, high)


def _at_least(number: int, processes: int, chance: float) -> float:
    return 1 - sum(math.comb(processes, few) * chance**few * (1 - chance) ** (processes - few) for few in range(number))


def loop(some: Sequence[History], processes: int, repeats: int, threshold: int) -> tuple[float, float]:
    """Share of right boundaries and mean seconds of a binary search with the same repeats at every step. Exact.

    Args:
        threshold: A build counts as bad when the bug shows in at least so many of its processes.
    """
    right = seconds = 0.0
    for history in some:
        share = 1.0
        for place in _steps(history.first_bad):
            bad = _at_least(threshold, processes, 1 - history.silent(place, repeats))
            share *= bad if place >= history.first_bad else 1 - bad
            seconds += COSTS.of(processes, repeats, present=False)
        right += share
    return right / len(some), seconds / len(some)


def cheapest_loop(some: Sequence[History], accuracy: float, *, most_repeats: int) -> tuple[float, str] | None:
    """Seconds and description of the cheapest such loop that is right often enough; None when none is."""
    best: tuple[float, str] | None = None
    for repeats in (each for each in (1, 4, 16, 64) if each <= most_repeats):
        for threshold in (1, 2, 3, 4):
            for processes in [*range(threshold, 31), *range(32, 128, 4)]:
                share, seconds = loop(some, processes, repeats, threshold)
                if best is not None and seconds >= best[0]:
                    break
                if share >= accuracy:
                    words = f"{processes} processes of {repeats} repeats, bad from {threshold} on, right {share:.3f}"
                    best = seconds, words
    return best

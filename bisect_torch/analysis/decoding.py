"""Greedy decoding under many configurations and releases: where outputs change, and by how much. Pure.

The question and the four measures of :func:`measures` are those of arXiv 2506.09501, which varied the batch size and
the number and type of GPUs. What it did not vary is the release of torch: see :func:`release_changes`.

Nothing that was not seen is taken for equal. Comparisons that lack a cell are counted as open, unless the cells that
are there differ already.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from bisect_torch.analysis.decoding_sweep import Configuration, Decoded, Sweep, common_prefix, divergences


class Difference(NamedTuple):
    """A comparison in which some output differs.

    Args:
        tokens: Of each question that differs, the first token that does, 0-based, sorted.
        build: On which; between releases, the newer one.
        configurations: That were compared.
    """

    tokens: tuple[int, ...]
    build: str
    configurations: tuple[Configuration, ...]


@dataclass(frozen=True)
class Change:
    """What comes of it when one thing varies and everything else is fixed.

    Args:
        compared: Comparisons that could be decided.
        open: Comparisons that lack a cell and do not differ in the others.
        differences: Those of the decided ones in which some output differs.
    """

    compared: int = 0
    open: int = 0
    differences: tuple[Difference, ...] = ()

    @property
    def changed(self) -> int:
        """How many outputs differ."""
        return len(self.differences)

    @property
    def first(self) -> Difference | None:
        """The one that differs at the earliest token."""
        return min(self.differences, default=None)

    @property
    def token(self) -> int | None:
        """The first token that differs in any comparison, 0-based."""
        return None if self.first is None else self.first.tokens[0]

    @property
    def median(self) -> float | None:
        """Of the first tokens that differ, over all comparisons and their questions."""
        tokens = [token for each in self.differences for token in each.tokens]
        return statistics.median(tokens) if tokens else None


def axis_change(of: Sweep, dtype: str, axis: str) -> Change:
    """Whether one of :data:`AXES` changes the output: one comparison for each release and choice of the other axes.

    All values that the axis takes there are compared at once.
    """
    groups: dict[tuple[object, ...], list[Configuration]] = defaultdict(list)
    for each in of.of(dtype):
        groups[each.without(axis)].append(each)
    found: list[Difference] = []
    equal = open_ones = 0
    for group in (group for group in groups.values() if len(group) > 1):
        for build in of.builds:
            known = [of.cells[each, build] for each in group if (each, build) in of.cells]
            tokens = divergences([each.outputs for each in known])
            if tokens:
                found.append(Difference(tokens, build, tuple(each.configuration for each in known)))
            elif len(known) == len(group):
                equal += 1
            else:
                open_ones += 1
    return Change(len(found) + equal, open_ones, tuple(found))


def precision_change(of: Sweep, dtype: str, other: str) -> Change:
    """Whether two precisions give other outputs: one comparison for each build and configuration that both have."""
    found: list[Difference] = []
    equal = open_ones = 0
    for each in of.of(dtype):
        pair = (each, each._replace(dtype=other))
        for build in of.builds if pair[1] in of.configurations else ():
            known = [of.cells[one, build] for one in pair if (one, build) in of.cells]
            tokens = divergences([one.outputs for one in known])
            if len(known) < len(pair):
                open_ones += 1
            elif tokens:
                found.append(Difference(tokens, build, pair))
            else:
                equal += 1
    return Change(len(found) + equal, open_ones, tuple(found))


def repeat_change(of: Sweep, dtype: str) -> Change:
    """Whether the same cell gives other outputs in another process; only cells that ran in several are compared."""
    places = [place for place in of.repeated if place[0].dtype == dtype]
    found = [Difference(of.unstable[place], place[1], (place[0],)) for place in sorted(places) if place in of.unstable]
    return Change(len(places), 0, tuple(found))


@dataclass(frozen=True)
class Upgrade:
    """A release in which some outputs changed.

    Args:
        build: The first release that has the new outputs.
        after: The last one that has the old ones.
        differences: One for each configuration in which.
    """

    build: str
    after: str
    differences: tuple[Difference, ...]

    @property
    def token(self) -> int:
        """The first token that differs, 0-based."""
        return min(self.differences).tokens[0]


@dataclass(frozen=True)
class ReleaseChange:
    """What comes of it when only torch is upgraded.

    Args:
        change: Comparisons are steps from one release to the next, one for each configuration.
        upgrades: The releases that changed something, in order; one that followed on builds without an output has the
            last build before these as its ``after``.
    """

    change: Change
    upgrades: tuple[Upgrade, ...]


def release_changes(of: Sweep, dtype: str, releases: Sequence[str]) -> ReleaseChange:
    """Whether upgrading torch changes the output while the configuration stays.

    Args:
        releases: Builds that follow on each other, in order.
    """
    steps: dict[tuple[int, int], list[Difference]] = defaultdict(list)
    compared = open_ones = 0
    for each in of.of(dtype):
        known = [place for place, build in enumerate(releases) if (each, build) in of.cells]
        decided = 0
        for old, new in pairwise(known):
            tokens = divergences([of.cells[each, releases[place]].outputs for place in (old, new)])
            decided += bool(tokens) or new == old + 1
            if tokens:
                steps[new, old].append(Difference(tokens, releases[new], (each,)))
        compared += decided
        open_ones += max(0, len(releases) - 1) - decided
    upgrades = tuple(Upgrade(releases[new], releases[old], tuple(found)) for (new, old), found in sorted(steps.items()))
    differences = tuple(difference for each in upgrades for difference in each.differences)
    return ReleaseChange(Change(compared, open_ones, differences), upgrades)


@dataclass(frozen=True)
class Measures:
    """The four measures of arXiv 2506.09501 over a set of cells that answer the same questions.

    Standard deviations are those of a sample (divisor n - 1); None where fewer than two cells, or nothing to measure.

    Args:
        cells: How many there are.
        missing: How many more the set has, which gave no output.
        std_accuracy: Std@Acc: of the share of answerable questions that were answered exactly.
        avg_std_output_length: Avg_Std@Output_Length: of an output's tokens, mean over the questions.
        div_index: Div_Index, per question: the first position, from 0, at which outputs of the same question differ.
            Later is better; None where all are the same.
        avg_std_top1_probability: Avg_Std@top1_prob: of the chosen token's probability at a position that lies before
            the question's Div_Index, mean over these positions, then over the questions. Only the positions that the
            cells recorded count (every eighth).
    """

    cells: int
    missing: int
    std_accuracy: float | None
    avg_std_output_length: float | None
    div_index: tuple[int | None, ...]
    avg_std_top1_probability: float | None

    @property
    def earliest(self) -> int | None:
        """The first place at which an output differs; None where none does."""
        return min((place for place in self.div_index if place is not None), default=None)

    @property
    def diverging(self) -> int:
        """Questions whose outputs are not all the same."""
        return sum(place is not None for place in self.div_index)


def measures(cells: Sequence[Decoded], missing: int = 0) -> Measures:
    """How reproducible a set of cells is.

    Args:
        cells: Of one precision: the configurations of one release, or the releases of one configuration.
        missing: How many cells of the set gave no output.
    """
    if len(cells) < 2:
        return Measures(len(cells), missing, None, None, (), None)
    by_question = list(zip(*(each.outputs for each in cells), strict=True))
    places = tuple(common_prefix(outputs) for outputs in by_question)
    accuracies = [each.correct / each.answerable for each in cells if each.answerable]
    lengths = [statistics.stdev(len(output) for output in outputs) for outputs in by_question]
    return Measures(
        cells=len(cells),
        missing=missing,
        std_accuracy=statistics.stdev(accuracies) if len(accuracies) == len(cells) else None,
        avg_std_output_length=statistics.fmean(lengths) if lengths else None,
        div_index=places,
        avg_std_top1_probability=_probability_spread(cells, places),
    )


def _probability_spread(cells: Sequence[Decoded], places: Sequence[int | None]) -> float | None:
    if len({each.every for each in cells}) > 1:
        return None  # recorded at other positions
    found = []
    for question, place in enumerate(places):
        columns = list(zip(*(each.paths[question] for each in cells), strict=False))
        before = columns if place is None else columns[: -(-place // cells[0].every)]
        if before:
            found.append(statistics.fmean(statistics.stdev(column) for column in before))
    return statistics.fmean(found) if found else None


def over_configurations(of: Sweep, dtype: str) -> dict[str, Measures]:
    """By build, the measures over all configurations of a precision: what the paper measures."""
    return {build: _over([(each, build) for each in of.of(dtype)], of) for build in of.builds}


def over_releases(of: Sweep, dtype: str, releases: Sequence[str]) -> dict[Configuration, Measures]:
    """By configuration, the measures over the releases."""
    return {each: _over([(each, build) for build in releases], of) for each in of.of(dtype)}


def _over(places: Sequence[tuple[Configuration, str]], of: Sweep) -> Measures:
    known = [of.cells[place] for place in places if place in of.cells]
    return measures(known, missing=len(places) - len(known))

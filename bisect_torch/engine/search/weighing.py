"""The flaky part of a search: observations become evidence, the posterior says which build to run next."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bisect_torch.analysis.judge import judge
from bisect_torch.analysis.noisy import REPEATS_PLANNED, Belief, Costs, Named, Prior, Trial, next_trial
from bisect_torch.analysis.question import Question
from bisect_torch.analysis.transitions import CONFIRMING_PROCESSES
from bisect_torch.engine.search.probing import Memory
from bisect_torch.engine.search.request import SHOWN_FROM, BisectRequest, RowKey, Weighed
from bisect_torch.model import Boundary, Isolation, Observation, Point

EVERYWHERE, NOWHERE = 0.4, 0.02
"""Prior probabilities that a flaky case has no boundary in the range. Most cases that turn out to be flaky are so in
every release: the end named good has only been lucky."""

PROCESS_S = 2.85
"""Of a worker process besides the case: importing torch (2 s) and leaving (0.85 s), measured."""


@dataclass(frozen=True)
class Wish:
    """What to run: so many processes on a build, ``each`` repeats in each; ``repeats`` makes a run do just that."""

    build: str
    processes: int
    each: int
    repeats: int


class Weighing:
    """Weighs one row; :meth:`step` is asked again after each run.

    Args:
        install_s: What making an environment takes.
        spent_s: What the runs of other flaky rows have taken of the budget.
    """

    def __init__(
        self, key: RowKey, question: Question, request: BisectRequest, install_s: float, *, spent_s: float = 0.0
    ) -> None:
        self._key = key
        self._question = question
        self._request = request
        self._install_s = install_s
        self._left_s = max(0.0, request.flaky_budget_s - spent_s)
        self._before: set[tuple[str, int, str]] | None = None
        self._asked: tuple[str, int] | None = None
        self._silent: dict[str, str] = {}

    def step(
        self,
        memory: Memory,
        unjudged: Mapping[tuple[RowKey, str], Point],
        failed: Mapping[str, str],
        present: Container[str],
    ) -> tuple[Weighed, Wish | None]:
        """What is believed now, and what to run next; None at the end."""
        cells = self._cells(memory)
        closed = self._closed(cells, unjudged, {**self._absent(memory), **failed})
        spent = self._spent(memory)
        order = self._order(cells)
        belief = self._belief(cells, order)
        weighed = self._weighed(belief, cells, closed, spent, order)
        costs = self._costs(cells)
        left = self._left_s - spent
        used_up = f"the runs of flaky cases have used {self._request.flaky_budget_s:g} s"
        for end in self._ends():
            if end not in closed and len(_workers(cells.get(end, []))) < CONFIRMING_PROCESSES:
                if left <= 0:
                    return _stopped(weighed, used_up), None
                return weighed, self._wish(end, CONFIRMING_PROCESSES - len(_workers(cells.get(end, []))), cells)
        closed_places = {order.index(name) for name in closed}
        top = belief.boundaries(closed_places)[0]
        if top.probability >= self._request.confidence:
            return weighed, None
        if left <= 0:
            return _stopped(weighed, used_up), None
        chosen = next_trial(
            belief,
            present={place for place, name in enumerate(order) if name in present},
            costs=costs,
            closed=closed_places,
            most_repeats=_most_repeats(left / self._request.run.jobs, cells) if _forked(cells) else 1,
        )
        if chosen is None:
            return _stopped(weighed, "no further run would tell more"), None
        processes = min(chosen.processes, self._request.run.jobs)
        return weighed, self._wish(order[chosen.place], processes, cells, chosen.repeats)

    # --- evidence ---------------------------------------------------------------------------------------------

    def _cells(self, memory: Memory) -> dict[str, list[Observation]]:
        """Build to its judged observations. Where the API is absent, the bug can neither show nor not show."""
        cells: dict[str, list[Observation]] = defaultdict(list)
        for each in memory.observations:
            if (each.case_file, each.instance, each.device) == self._key:
                judgement = judge(each)
                if judgement.verdict.judged and not judgement.api_absent:
                    cells[each.build_name].append(each)
        return cells

    def _absent(self, memory: Memory) -> dict[str, str]:
        """Builds on which the API is absent."""
        return {
            each.build_name: f"absent: {each.absent_name}"
            for each in memory.observations
            if (each.case_file, each.instance, each.device) == self._key and judge(each).api_absent
        }

    def _closed(
        self,
        cells: Mapping[str, list[Observation]],
        unjudged: Mapping[tuple[RowKey, str], Point],
        failed: Mapping[str, str],
    ) -> dict[str, str]:
        """Builds that cannot be judged, with the reason."""
        if self._asked is not None:
            build, before = self._asked
            self._asked = None
            if len(cells.get(build, [])) <= before:
                self._silent[build] = "what ran there could not be judged"
        found = dict(failed)
        for (key, name), point in unjudged.items():
            if key == self._key:
                found[name] = point.judgement.reason or point.judgement.verdict.value
        kept = {**found, **self._silent}
        return {name: kept[name] for name in self._range() if name in kept and not cells.get(name)}

    def _spent(self, memory: Memory) -> float:
        """Seconds of the runs that this search added."""
        rows = {
            (each.build_name, each.repeat, each.run_id): each
            for each in memory.observations
            if (each.case_file, each.instance, each.device) == self._key
        }
        if self._before is None:
            self._before = set(rows)
        return sum(PROCESS_S + (each.elapsed_s or 0.0) for name, each in rows.items() if name not in self._before)

    def _belief(self, cells: Mapping[str, list[Observation]], order: tuple[str, ...]) -> Belief:
        prior = Prior(everywhere=EVERYWHERE, nowhere=NOWHERE)
        belief = Belief.start(len(order), prior, _shares(order, self._question.fine))
        for place, name in enumerate(order):
            for runs in _workers(cells.get(name, [])).values():
                belief = belief.after(Trial(place, len(runs), sum(map(_shows, runs))))
        return belief

    def _costs(self, cells: Mapping[str, list[Observation]]) -> Costs:
        elapsed = [each.elapsed_s for runs in cells.values() for each in runs if each.elapsed_s is not None]
        once = statistics.fmean(elapsed) if elapsed else 0.0  # not the median: hangs are few, and take most of the time
        return Costs(repeat_s=once, process_s=PROCESS_S, environment_s=self._install_s)

    # --- order ------------------------------------------------------------------------------------------------

    def _range(self) -> tuple[str, ...]:
        builds = self._question.builds
        places = [builds.index(end) for end in (self._question.good, self._question.bad) if end is not None]
        if len(places) == 2:
            return builds[min(places) : max(places) + 1]
        return builds[places[0] :] if self._question.direction > 0 else builds[: places[0] + 1]

    def _ends(self) -> tuple[str, str]:
        return self._range()[0], self._range()[-1]

    def _order(self, cells: Mapping[str, list[Observation]]) -> tuple[str, ...]:
        """The range from the end where the bug shows less; what the user said decides where that is not known."""
        names = self._range()
        shares = [_share(cells.get(name, [])) for name in self._ends()]
        if shares[0] is not None and shares[1] is not None and shares[0] != shares[1]:
            forward = shares[0] < shares[1]
        elif self._question.good is not None:
            forward = self._question.good == names[0]
        else:
            forward = self._question.bad == names[-1]
        return names if forward else names[::-1]

    # --- results ----------------------------------------------------------------------------------------------

    def _weighed(
        self,
        belief: Belief,
        cells: Mapping[str, list[Observation]],
        closed: Mapping[str, str],
        spent: float,
        order: tuple[str, ...],
    ) -> Weighed:
        named = belief.boundaries({order.index(name) for name in closed})
        outside = {each.first_with: each.probability for each in named if _is_outside(each, len(order))}
        first = next((each.first_with for each in named if each.last_without < 0), 0)
        return Weighed(
            boundaries=tuple(
                self._boundary(each, order, closed)
                for each in named
                if not _is_outside(each, len(order)) and each.probability >= SHOWN_FROM
            ),
            fixed=order != self._range(),
            everywhere=outside.get(first, 0.0),
            nowhere=outside.get(len(order), 0.0),
            shows=belief.shows(),
            confidence=self._request.confidence,
            counts={
                name: (sum(map(_shows, cells[name])), len(cells[name])) for name in self._range() if cells.get(name)
            },
            processes=sum(len(_workers(runs)) for runs in cells.values()),
            seconds=spent,
        )

    def _boundary(self, named: Named, order: tuple[str, ...], closed: Mapping[str, str]) -> Boundary:
        between = [order[place] for place in range(named.last_without + 1, named.first_with)]
        ends = [order[named.last_without], order[named.first_with]]
        if order != self._range():
            ends.reverse()
            between.reverse()
        return Boundary(ends[0], ends[1], tuple((name, closed[name]) for name in between), named.probability)

    def _wish(self, build: str, processes: int, cells: Mapping[str, list[Observation]], in_each: int = 1) -> Wish:
        """So many repeats that are not known yet."""
        taken = {each.repeat for each in cells.get(build, [])}
        repeats, left = 0, processes * in_each
        while left:
            left -= repeats not in taken
            repeats += 1
        self._asked = build, len(cells.get(build, []))
        return Wish(build, processes, in_each, repeats)


def _stopped(weighed: Weighed, why: str) -> Weighed:
    return Weighed(**{**vars(weighed), "stopped": why})


def _is_outside(named: Named, builds: int) -> bool:
    return named.last_without < 0 or named.first_with >= builds


def _workers(runs: list[Observation]) -> dict[str | None, list[Observation]]:
    """Worker process to its runs: only across these are repeats independent."""
    found: dict[str | None, list[Observation]] = defaultdict(list)
    for each in runs:
        found[each.worker].append(each)
    return found


def _forked(cells: Mapping[str, list[Observation]]) -> bool:
    """Whether a worker process can run the case again and again."""
    return any(each.isolation == Isolation.FORK.value for runs in cells.values() for each in runs)


def _most_repeats(left_s: float, cells: Mapping[str, list[Observation]]) -> int:
    """Repeats of one process that ``left_s`` is enough for should all take as long as the longest so far: a hang."""
    longest = max((each.elapsed_s or 0.0 for runs in cells.values() for each in runs), default=0.0)
    return max(1, min(REPEATS_PLANNED[-1], int((left_s - PROCESS_S) / longest) if longest > 0 else REPEATS_PLANNED[-1]))


def _shares(order: Sequence[str], fine: Container[str]) -> list[float]:
    """Each boundary between two releases is as likely as the others; the nightly builds inside it share that."""
    coarse = [place for place, name in enumerate(order) if name not in fine or place in (0, len(order) - 1)]
    return [1.0 / (after - before) for before, after in pairwise(coarse) for _ in range(after - before)]


def _shows(observation: Observation) -> bool:
    return judge(observation).verdict.bad


def _share(runs: list[Observation]) -> float | None:
    return sum(map(_shows, runs)) / len(runs) if runs else None

"""Observations become points, points become series. Pure."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bisect_torch.analysis.judge import Tolerances, judge
from bisect_torch.model import Isolation, Judgement, Observation, Point, Series, Verdict

Row = tuple[str, str, str]
"""Case file, instance, device: what names a series."""

_WORST_FIRST = (
    Verdict.CRASH, Verdict.TIMEOUT, Verdict.OOM, Verdict.ERROR, Verdict.WRONG, Verdict.OK,
    Verdict.BROKEN, Verdict.UNINSTALLABLE, Verdict.SKIP, Verdict.INFRA, Verdict.UNDECIDABLE,
)  # fmt: skip
OWN_TO_TELL = 3
"""Interpreters of their own that must agree before their answer counts against that of all forks: as many as any end of
a transition needs. A case that gives one answer with probability p and another with q = 1 - p then passes for one that
does not depend on chance with a probability of at most pq(p**2 + q**2) <= 1/8; three processes that agree by chance,
which any end may be, have p**3 + q**3 >= 1/4."""


@dataclass(frozen=True)
class Cell:
    """All repeats of one cell with what each of them means, in the order in which they were observed."""

    repeats: tuple[tuple[Observation, Judgement], ...]

    @property
    def judged(self) -> tuple[tuple[Observation, Judgement], ...]:
        return tuple(pair for pair in self.repeats if pair[1].verdict.judged)

    @property
    def forked(self) -> bool:
        """Whether it is a cell that runs in forks of a worker."""
        return any(o.isolation == Isolation.FORK.value for o, _ in self.repeats)

    @property
    def in_session(self) -> bool:
        """Whether it is a test that runs in one interpreter with the others of its suite."""
        return any(o.isolation == Isolation.SESSION.value for o, _ in self.repeats)

    @property
    def own_to_confirm(self) -> int:
        """How many more interpreters of their own are wanted, where so far they all differ from all forks alike."""
        differs = _own_answer(self.judged) is not None
        return max(0, OWN_TO_TELL - len(_own(self.judged))) if differs else 0

    def point(self, build: str) -> Point:
        judged = self.judged
        counts = Counter(judgement.signature for _, judgement in judged)
        undecided = [judgement for _, judgement in self.repeats if judgement.verdict is Verdict.UNDECIDABLE]
        own_answer = _own_answer(judged)
        flaky = len(counts) > 1
        in_forks = None
        if own_answer is not None and not self.own_to_confirm:
            judgement, flaky = own_answer, False
            in_forks = next(j.signature for o, j in judged if o.isolation != Isolation.PROCESS.value)
        elif undecided and not flaky:
            judgement = undecided[0]
        else:
            candidates = [judgement for _, judgement in judged or self.repeats]
            judgement = min(candidates, key=lambda each: (_WORST_FIRST.index(each.verdict), each.signature))
        elapsed = [o.elapsed_s for o, _ in judged if o.elapsed_s is not None]
        errors = [o.rel_error for o, _ in judged if o.rel_error is not None]
        return Point(
            build=build,
            judgement=judgement,
            flaky=flaky,
            counts=dict(sorted(counts.items())),
            processes=len({o.worker for o, _ in judged}),
            own_process=bool(_own(judged)),
            in_forks=in_forks,
            elapsed_s=statistics.median(elapsed) if elapsed else None,
            rel_error=max(errors) if errors else None,
            digests=tuple(sorted({o.digest for o, _ in judged if o.digest is not None})),
        )


def _own(judged: Sequence[tuple[Observation, Judgement]]) -> list[Judgement]:
    return [judgement for o, judgement in judged if o.isolation == Isolation.PROCESS.value]


def _own_answer(judged: Sequence[tuple[Observation, Judgement]]) -> Judgement | None:
    """What every interpreter of its own answered, where every fork gave one other answer.

    That is no chance but the isolation: a fork that leaves at once hides a crash at exit, and a worker that has loaded
    the compiler has names in torch that a plain ``import torch`` lacks. An interpreter of its own is what
    ``python file.py`` is, so its answer is the one that counts.
    """
    own = _own(judged)
    forked = {j.signature for o, j in judged if o.isolation != Isolation.PROCESS.value}
    if not own or len(forked) != 1 or len({j.signature for j in own}) != 1 or own[0].signature in forked:
        return None
    return own[0]


def build_series(
    observations: Iterable[Observation],
    builds: Sequence[str],
    tolerances: Tolerances | None = None,
    *,
    rows: Sequence[Row] | None = None,
    keys: Container[str] | None = None,
) -> list[Series]:
    """One series per instance and device.

    Args:
        observations: Of any number of runs, in the order in which they were recorded.
        builds: Names of the builds (``Build.name``), in the order of the columns.
        rows: Which series, in which order; without it every one that was observed, in the order of its first
            observation. A row with no observation has only cells that were not run.
        keys: Keys of the cells that count. Without it, see :func:`collect`.
    """
    cells = collect(observations, tolerances, keys=keys)
    return [series_of(row, cells.get(row, {}), builds) for row in (cells if rows is None else rows)]


def series_of(row: Row, cells: Mapping[str, Cell], builds: Sequence[str]) -> Series:
    """The series of one row from its cells by build name."""
    return Series(
        case_file=row[0],
        instance=row[1],
        device=row[2],
        builds=tuple(builds),
        points=tuple(cells[build].point(build) if build in cells else None for build in builds),
    )


def collect(
    observations: Iterable[Observation],
    tolerances: Tolerances | None = None,
    *,
    keys: Container[str] | None = None,
) -> Mapping[Row, Mapping[str, Cell]]:
    """Row to build name to cell.

    Results may hold several generations of a row: the case file was edited, an environment was locked anew, another
    machine had a turn. Only one generation may stand in a series, or that would read as a change of torch. So of a row
    only observations with the case file, machine class and device of the newest one count, and of a cell only those
    with its newest key. Of several runs of the same repeat of a cell, the newest counts.
    """
    by_row: dict[Row, list[Observation]] = defaultdict(list)
    for observation in observations:
        if keys is None or observation.key in keys:
            by_row[(observation.case_file, observation.instance, observation.device)].append(observation)
    return {row: _cells(each, tolerances) for row, each in by_row.items()}


def counted(observations: Iterable[Observation], *, keys: Container[str] | None = None) -> list[Observation]:
    """The observations that stand in a series, without those of older generations (see :func:`collect`)."""
    rows = collect(observations, keys=keys).values()
    return [observation for cells in rows for cell in cells.values() for observation, _ in cell.repeats]


def _cells(observations: list[Observation], tolerances: Tolerances | None) -> dict[str, Cell]:
    ordered = sorted(observations, key=lambda o: o.started_at or "")  # stable: the order of recording decides ties
    generation = _generation(ordered[-1])
    current = [o for o in ordered if _generation(o) == generation]
    newest_key = {o.build_name: o.key for o in current}
    repeats: dict[str, dict[int, Observation]] = defaultdict(dict)
    for o in current:
        if o.key == newest_key[o.build_name]:
            repeats[o.build_name].pop(o.repeat, None)
            repeats[o.build_name][o.repeat] = o
    return {
        build: Cell(tuple((o, judge(o, tolerances)) for o in by_repeat.values()))
        for build, by_repeat in repeats.items()
    }


def _generation(observation: Observation) -> tuple[str | None, ...]:
    return observation.case_file_hash, observation.machine, observation.device_name, observation.driver

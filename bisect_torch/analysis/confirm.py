"""Which repeats must still run before transitions are printed. Pure; the engine asks until nothing is wanted."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bisect_torch.analysis.cells import Cell
from bisect_torch.analysis.column_cells import ColumnRows
from bisect_torch.analysis.judge import Tolerances
from bisect_torch.analysis.series import Row, alike, collect, series_of
from bisect_torch.analysis.transitions import CONFIRMING_PROCESSES, FALSE_TRANSITION, changes, repeats_beside_flaky
from bisect_torch.model import Isolation, Observation, Point, Verdict


@dataclass(frozen=True)
class Confirmation:
    """How far confirming goes.

    Args:
        false_transition: Accepted probability that a series of a case that is flaky shows a false transition.
        base_repeats: Repeats of every cell in the first pass (``--repeat``).
        lost_repeats: Repeats of one cell that may come to nothing (worker lost, environment broken) before it is left
            unconfirmed.
        budget_s: Seconds that all further repeats may take one after another, with those that have run; None for no
            bound. What does not fit is left unconfirmed, flaky cases first.
        own_process_s: Seconds that a repeat in an interpreter of its own takes besides the case: importing torch from
            bytecode was measured at 2 s, full teardown at 0.85 s.
        every_cell: Every judged cell counts as the end of a transition, also with a single build.
        edges: Whether the first and the last of the builds are those of the whole matrix, and not of a part of
            it, or of those that have run so far.
    """

    false_transition: float = FALSE_TRANSITION
    base_repeats: int = 1
    lost_repeats: int = 3
    budget_s: float | None = None
    own_process_s: float = 2.85
    every_cell: bool = False
    edges: tuple[bool, bool] = (True, True)


@dataclass(frozen=True)
class Wanted:
    """One repeat that must still run. Repeat *i* of a cell runs in worker process *i*.

    Args:
        build: The build's name.
        isolation: An interpreter of its own with full teardown, or what the cell had before.
        reason: For the user, in words.
    """

    case_file: str
    instance: str
    device: str
    build: str
    repeat: int
    isolation: Isolation
    reason: str


@dataclass(frozen=True)
class _Need:
    row: Row
    build: str
    cell: Cell
    forks: int
    own: int
    reason: str
    priority: int

    def seconds(self, settings: Confirmation) -> float:
        """How long its repeats will take, one after another."""
        once = max((o.elapsed_s or o.timeout_s or 0.0 for o, _ in self.cell.judged), default=0.0)
        processes = self.own if self.cell.forked else self.own + self.forks
        return once * (self.forks + self.own) + settings.own_process_s * processes


def wanted_repeats(
    observations: Iterable[Observation],
    builds: Sequence[str],
    *,
    confirmation: Confirmation | None = None,
    tolerances: Tolerances | None = None,
    keys: Container[str] | None = None,
    beside: Sequence[Sequence[str]] = (),
) -> list[Wanted]:
    """What must still run, given everything that has been observed; nothing once that is enough.

    - Both ends of every transition: three worker processes, the last of them an interpreter of its own with full
      teardown.
    - The first and the last judged build of every series: once in an interpreter of its own; where they are bad, in
      three processes as well, since it is said that they are. Not tests of a suite: they ran in an interpreter with
      full teardown, and one for each of them would take hours.
    - A cell that gave one answer in forks and another in an interpreter of its own: more of those, until one differs
      or enough agree.
    - Once a cell of a series is flaky, every judged cell of it up to :func:`repeats_beside_flaky` processes, twice as
      many where most are flaky; a cell that turns out flaky has enough. A case that is flaky everywhere else gives a
      convincing false series: each build shows one of its answers by chance. Where most are flaky and all others give
      one answer, there is no transition to be told, and more repeats can make none: those of the others that have a
      flaky build on either side then run in three processes at most, and the sentence says that these are few.

    A cell that times out is run in three processes at most. With a single build it is what is bad there, since nothing
    else is told.

    Args:
        beside: Further lines of builds along which neighbours are compared. Their ends are confirmed only where they
            are the ends of a transition.

    Asked again after each round with the new observations it comes to an end: every repeat that it asks for adds an
    observation, and a cell has at most a fixed number of them.
    """
    settings = confirmation or Confirmation()
    lines = [line for line in (builds, *beside) if line]
    if not lines:
        return []
    cells = collect(observations, tolerances, keys=keys)
    found: dict[tuple[Row, str], _Need] = {}
    for line in lines:
        edges = settings.edges if line is builds else (False, False)
        for row, answers in _unsettled(cells, line, settings, edges):
            by_build = cells.lean(row, _LOOKED_AT) if isinstance(cells, ColumnRows) else cells[row]
            for need in _needs(row, by_build, answers, line, settings, edges=edges):
                before = found.get((need.row, need.build))
                found[need.row, need.build] = need if before is None else _both(before, need)
    needs = list(found.values())
    needs.sort(key=lambda need: need.priority)  # stable
    return [wanted for need in _within_budget(needs, cells, settings) for wanted in _repeats(need)]


_LOOKED_AT = ("isolation", "repeat", "elapsed_s", "timeout_s")
"""Of the repeats of a cell of which more are wanted."""


def _both(one: _Need, other: _Need) -> _Need:
    """What satisfies both."""
    first = one if one.priority <= other.priority else other
    return replace(first, forks=max(one.forks, other.forks), own=max(one.own, other.own))


def _unsettled(
    cells: Mapping[Row, Mapping[str, Cell]], builds: Sequence[str], settings: Confirmation, edges: tuple[bool, bool]
) -> Iterable[tuple[Row, Sequence[Point | None]]]:
    """Rows in which something may be wanted, with their answers. Where rows share those, they are looked at once."""
    if not isinstance(cells, ColumnRows):
        return [(row, series_of(row, by_build, builds).answers) for row, by_build in cells.items()]
    series = cells.series(builds)
    settled = {id(each.answers): _settled(each.answers, builds, settings, edges) for each, _ in alike(series)}
    return [
        ((each.case_file, each.instance, each.device), each.answers) for each in series if not settled[id(each.answers)]
    ]


def _settled(
    answers: Sequence[Point | None], builds: Sequence[str], settings: Confirmation, edges: tuple[bool, bool]
) -> bool:
    """Whether nothing is wanted, whatever the repeats are that gave these answers."""
    points = _judged(answers)
    ends, outermost = _ends(builds, answers), _outermost(points, edges)
    return not any(
        point.flaky
        or ((build in ends or settings.every_cell) and _missing_at_end(point) != (0, 0))
        or (build in outermost and _missing_outermost(point, builds) != (0, 0))
        for build, point in points.items()
    )


def _judged(answers: Sequence[Point | None]) -> dict[str, Point]:
    return {point.build: point for point in answers if point is not None and point.judgement.verdict.judged}


def _ends(builds: Sequence[str], answers: Sequence[Point | None]) -> set[str]:
    return {builds[end] for one, other, _ in changes(builds, answers) for end in (one, other)}


def _outermost(points: Mapping[str, Point], edges: tuple[bool, bool]) -> set[str]:
    names = list(points)
    return {build for build, edge in zip((*names[:1], *names[-1:]), edges, strict=False) if edge}


def _needs(
    row: Row,
    cells: Mapping[str, Cell],
    answers: Sequence[Point | None],
    builds: Sequence[str],
    settings: Confirmation,
    *,
    edges: tuple[bool, bool],
) -> Iterator[_Need]:
    points = _judged(answers)
    ends, outermost = _ends(builds, answers), _outermost(points, edges)
    # Where an interpreter of its own is still wanted, answers differ: only then must the repeats be looked at.
    to_confirm = {build: cells[build].own_to_confirm for build, point in points.items() if point.flaky}
    most = repeats_beside_flaky(len(builds), len(points), len(to_confirm), settings.false_transition)
    # What is asked for and can no longer come leaves a build flaky.
    flaky = [each for each, wanted in to_confirm.items() if not wanted or _exhausted(cells[each], settings, most)]
    enclosed = _between(list(points), flaky) if 2 * len(flaky) > len(points) and not ends else []
    for build, point in points.items():
        forks, own, reason, priority = 0, 0, "", 0
        if to_confirm.get(build):
            own, reason, priority = to_confirm[build], "an interpreter of its own gave another answer", 1
        elif point.flaky:
            continue
        elif (build in ends or settings.every_cell) and (missing := _missing_at_end(point)) != (0, 0):
            (forks, own), reason = missing, "the end of a transition"
        elif (
            build in outermost
            and (missing := _missing_outermost(point, builds)) != (0, 0)
            and not cells[build].in_session
        ):
            (forks, own), reason, priority = missing, "the first or last build", 1
        elif flaky and (more := _more_for_flaky(point, CONFIRMING_PROCESSES if build in enclosed else most)):
            forks, reason, priority = more, "the case is flaky on another build", 2
        if reason and not _exhausted(cell := cells[build], settings, most):
            yield _Need(row, build, cell, forks, own, reason, priority)


def _between(names: Sequence[str], some: Sequence[str]) -> Sequence[str]:
    """The names from the first to the last of some of them."""
    return names[names.index(some[0]) : names.index(some[-1]) + 1]


def _missing_at_end(point: Point) -> tuple[int, int]:
    """Repeats as before, and in an interpreter of its own."""
    own = 0 if point.own_process else 1
    return max(0, CONFIRMING_PROCESSES - point.processes - own), own


def _missing_outermost(point: Point, builds: Sequence[str]) -> tuple[int, int]:
    """The same for the first and the last build: what is bad there is told, be it the same everywhere.

    A hang is not waited for again. What is ok on the only build ends no series.
    """
    if point.judgement.verdict.bad and point.judgement.verdict is not Verdict.TIMEOUT:
        return _missing_at_end(point)
    if point.judgement.verdict is Verdict.OK and len(builds) == 1:
        return 0, 0
    return 0, 0 if point.own_process else 1


def _more_for_flaky(point: Point, most: int) -> int:
    """As many again as there are, so that a cell that turns out flaky early costs little."""
    limit = CONFIRMING_PROCESSES if point.judgement.verdict is Verdict.TIMEOUT else most
    return max(0, min(limit - point.processes, max(2, point.processes)))


def _exhausted(cell: Cell, settings: Confirmation, most: int) -> bool:
    unjudged = len(cell.repeats) - len(cell.judged)
    return (
        unjudged > settings.lost_repeats
        or len(cell.repeats) >= settings.base_repeats + most + CONFIRMING_PROCESSES + settings.lost_repeats
    )


def _within_budget(
    needs: Iterable[_Need], cells: Mapping[Row, Mapping[str, Cell]], settings: Confirmation
) -> Iterator[_Need]:
    if settings.budget_s is None:
        yield from needs
        return
    spent = sum(
        (o.elapsed_s or 0.0) + (settings.own_process_s if o.isolation == Isolation.PROCESS.value else 0.0)
        for by_build in cells.values()
        for cell in by_build.values()
        for o, _ in cell.repeats
        if o.repeat >= settings.base_repeats
    )
    for need in needs:
        seconds = need.seconds(settings)
        if spent + seconds <= settings.budget_s:
            spent += seconds
            yield need


def _repeats(need: _Need) -> Iterator[Wanted]:
    taken = {o.repeat for o, _ in need.cell.repeats}
    usual = Isolation.FORK if need.cell.forked else Isolation.PROCESS
    repeat = 0
    for isolation in [usual] * need.forks + [Isolation.PROCESS] * need.own:
        while repeat in taken:
            repeat += 1
        taken.add(repeat)
        yield Wanted(*need.row, need.build, repeat, isolation, need.reason)

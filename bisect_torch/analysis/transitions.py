"""Where a series changes, and which rows change alike. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from bisect_torch.model import Point, Series, Transition, TransitionKind, Verdict

CONFIRMING_PROCESSES = 3
"""An end of a transition has run in this many different worker processes before the transition is confirmed."""

FALSE_TRANSITION = 1e-4
"""Accepted probability that a row of a case that is flaky shows a false transition."""

NOT_RUN = "not run"
"""Why nothing is known of a build on which a cell has never run."""

API_ABSENT = "API absent"
"""What is said of a build whose torch does not have the name."""

_LOUD = frozenset({Verdict.ERROR, Verdict.CRASH, Verdict.TIMEOUT, Verdict.OOM})


def transitions(series: Series, *, over_absent: bool = False) -> list[Transition]:
    """Every two neighbouring solid points whose signature differs, oldest first.

    What lies between them and cannot be judged, is flaky or was not run, is listed with its reason.

    Args:
        over_absent: Builds whose torch lacks the name are no ends either: a change from before to after them is one.
    """
    found = changes(series.builds, series.answers, over_absent=over_absent)
    enough = enough_processes(series.answers) if found else CONFIRMING_PROCESSES
    return [
        Transition(
            kind=transition_kind(before, after),
            series=series,
            before=before,
            after=after,
            between=between,
            confirmed=confirmed(before, enough) and confirmed(after, enough),
        )
        for one, other, between in found
        if (before := series.points[one]) is not None and (after := series.points[other]) is not None
    ]


def changes(
    builds: Sequence[str], answers: Sequence[Point | None], *, over_absent: bool = False
) -> list[tuple[int, int, tuple[tuple[str, str], ...]]]:
    """Where :func:`transitions` are: the places of both ends, and what lies between them."""
    if len({id(point.judgement) for point in answers if point is not None}) < 2:
        return []  # one and the same judgement throughout: the common case, of which there may be very many
    found = []
    before: int | None = None
    between: list[tuple[str, str]] = []
    for place, (build, point) in enumerate(zip(builds, answers, strict=True)):
        if point is None or not point.solid or (over_absent and point.judgement.api_absent):
            between.append((build, why_not_solid(point)))
            continue
        if before is not None and _answer(answers[before]) != _answer(point):
            found.append((before, place, tuple(between)))
        before = place
        between = []
    return found


def _answer(point: Point | None) -> tuple[str, bool] | None:
    return None if point is None else (point.judgement.signature, point.judgement.api_absent)


def transition_kind(before: Point, after: Point) -> TransitionKind:
    """What to call the change between two solid points with different signatures."""
    old, new = before.judgement, after.judgement
    if old.api_absent != new.api_absent:
        return TransitionKind.APPEARED if old.api_absent else TransitionKind.DISAPPEARED
    if old.verdict is Verdict.OK:
        return TransitionKind.BROKE
    if new.verdict is Verdict.OK:
        return TransitionKind.FIXED
    if old.verdict in _LOUD and new.verdict is Verdict.WRONG:
        return TransitionKind.BECAME_SILENT
    return TransitionKind.CHANGED


def confirmed(point: Point, enough: int = CONFIRMING_PROCESSES) -> bool:
    """Whether a point has run often enough, and independently enough, to be the end of a printed transition.

    Args:
        enough: See :func:`enough_processes`.
    """
    return ran_enough(point, enough) and point.own_process


def ran_enough(point: Point, enough: int) -> bool:
    """Whether a point has run in so many processes; what times out is not waited for more often than elsewhere."""
    timed_out = point.judgement.verdict is Verdict.TIMEOUT
    return point.processes >= (CONFIRMING_PROCESSES if timed_out else enough)


def enough_processes(answers: Sequence[Point | None]) -> int:
    """In how many processes the end of a transition must have given one answer, in a row with these answers.

    Where a build is flaky, that others give one answer a few times may be chance: see :func:`flaky_repeats`; twice as
    many where most are flaky.
    """
    judged = [point for point in answers if point is not None and point.judgement.verdict.judged]
    flaky = sum(point.flaky for point in judged)
    return repeats_beside_flaky(len(answers), len(judged), flaky) if flaky else CONFIRMING_PROCESSES


def repeats_beside_flaky(builds: int, judged: int, flaky: int, false_transition: float = FALSE_TRANSITION) -> int:
    """Repeats of the cells of a row of which so many of the judged ones are flaky: both what is run and what is asked
    for, see :func:`enough_processes`."""
    return flaky_repeats(builds, false_transition) * (2 if 2 * flaky > judged else 1)


def flaky_repeats(builds: int, false_transition: float = FALSE_TRANSITION) -> int:
    """Repeats of every cell of a case that is known to be flaky.

    A cell that gives one answer with probability p and another with 1 - p shows n times the first with p**n. Two
    neighbours show a false transition when one is all the first and the other all the second: 2 * (p * (1 - p))**n, at
    most 2 * 4**-n, at p = 1/2. A series has ``builds - 1`` neighbours, so n is the least with
    ``2 * (builds - 1) * 4**-n <= false_transition``; it is 10 for 15 builds and 1e-4.
    """
    neighbours = max(1, builds - 1)
    return max(CONFIRMING_PROCESSES, math.ceil(math.log(2 * neighbours / false_transition, 4)))


def why_not_solid(point: Point | None) -> str:
    """Why a point cannot be the end of a transition, in words."""
    if point is None:
        return NOT_RUN
    if point.flaky:
        return "flaky: " + ", ".join(f"{signature} {count}" for signature, count in point.counts.items())
    if point.judgement.api_absent:
        return API_ABSENT
    verdict, reason = point.judgement.verdict.value, point.judgement.reason
    return f"{verdict}: {reason}" if reason and reason != verdict else verdict


def fold(series: Iterable[Series]) -> list[tuple[Series, ...]]:
    """Rows that went alike on every build, together, in the order of their first member."""
    groups: dict[tuple[object, ...], list[Series]] = {}
    known: dict[int, list[Series]] = {}  # by the identity of answers that several series share
    for each in series:
        group = known.get(id(each.answers))
        if group is None:
            way = tuple(
                None if point is None else (point.judgement.signature, point.judgement.api_absent, point.flaky)
                for point in each.answers
            )
            group = known[id(each.answers)] = groups.setdefault((each.builds, way), [])
        group.append(each)
    return [tuple(group) for group in groups.values()]

"""Where a series changes, and which rows change alike. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bisect_torch.model import Point, Series, Transition, TransitionKind, Verdict

CONFIRMING_PROCESSES = 3
"""An end of a transition has run in this many different worker processes before the transition is confirmed."""

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
    return [
        Transition(
            kind=transition_kind(before, after),
            series=series,
            before=before,
            after=after,
            between=between,
            confirmed=confirmed(before) and confirmed(after),
        )
        for one, other, between in changes(series.builds, series.answers, over_absent=over_absent)
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


def confirmed(point: Point) -> bool:
    """Whether a point has run often enough, and independently enough, to be the end of a printed transition."""
    return point.processes >= CONFIRMING_PROCESSES and point.own_process


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

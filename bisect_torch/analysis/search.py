"""Find where a verdict changes with few builds: which build to judge next, given all that is known. Pure.

:func:`step` has no memory of its own: it sees the readings so far, wherever they come from, and answers with the next
builds to judge or with the end of the search. So a matrix that was run before makes a search free, and a search that
was cut off goes on where it stopped.

The search is for a change, not for a fault: what changed (broke, fixed, first available, another signature) is named
from the two ends of a boundary afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from itertools import pairwise

from bisect_torch.analysis.question import Finished, Probe, Question, Reading, Readings, Remark, RemarkKind, State
from bisect_torch.model import Boundary


def step(question: Question, readings: Readings, *, present: Container[str] = ()) -> Probe | Finished:
    """What to do next.

    - Both ends are judged first. One that cannot be judged is replaced by the nearest inside the range that can.
    - Then the middle one of the builds between two neighbouring judged builds that differ, of those that may still be
      judged. What cannot be judged never moves a bound: its neighbour is next.
    - A third signature splits the range: both parts are searched.

    A history with one change and nothing that cannot be judged takes at most ``ceil(log2(n)) + 2`` of the ``n`` builds
    from one end to the other, or to the floor of a walk; every build that cannot be judged costs one more, every
    further boundary at most ``ceil(log2(n))``.

    Args:
        readings: Build to what judging it gave, however long ago.
        present: Builds that cost next to nothing to judge, their environments being there. One of them is taken in
            place of the middle one where it is no further from it than a quarter of the range.
    """
    walked = _range(question, readings)
    if isinstance(walked, Probe):
        return walked
    low, high, remarks = walked
    older, newer = _judged_end(question, readings, low, high), _judged_end(question, readings, high, low)
    wanted = sorted({place for place, judged in filter(None, (older, newer)) if not judged})
    if wanted:
        return Probe(tuple(question.builds[place] for place in wanted), at_most=len(wanted) + _probes(high - low - 1))
    if older is None or newer is None or older[0] == newer[0]:
        remark = Remark(RemarkKind.NOTHING_JUDGED, question.builds[low], question.builds[high])
        return Finished((), (*remarks, *_ends(question, readings, low, high, older, newer), remark))
    gaps = _gaps(question, readings, older[0], newer[0])
    probe = _narrow(question, readings, gaps, present)
    if probe is not None:
        return probe
    remarks += _ends(question, readings, low, high, older, newer)
    return Finished(
        boundaries=tuple(_boundary(question, readings, gap) for gap in gaps),
        remarks=remarks,
        searched=(question.builds[older[0]], question.builds[newer[0]]),
        not_run=tuple(name for name in question.builds[older[0] : newer[0]] if name not in readings),
    )


def ahead(
    question: Question, readings: Readings, probe: Probe, number: int, *, present: Container[str] = ()
) -> tuple[str, ...]:
    """Builds that may be asked for after ``probe``, the likeliest first, at most ``number`` of them.

    Those that follow when the builds of the probe turn out like one or the other of the two beside them.
    """
    found: dict[str, None] = {}
    waiting = [(readings, probe)]
    while waiting and len(found) < number:
        known, now = waiting.pop(0)
        for supposed in _suppositions(question, known, now):
            following = step(question, supposed, present=present)
            if isinstance(following, Probe):
                found.update(dict.fromkeys(following.builds))
                waiting.append((supposed, following))
    return tuple(found)[:number]


def _suppositions(question: Question, known: Readings, probe: Probe) -> list[Readings]:
    """What may be known after a probe, where that can be guessed."""
    if probe.older is not None and probe.newer is not None:
        return [{**known, **dict.fromkeys(probe.builds, known[like])} for like in (probe.older, probe.newer)]
    said = {question.good: Reading(State.OK, "ok"), question.bad: Reading(State.BAD, "bad")}
    if all(name in said for name in probe.builds):
        return [{**known, **{name: said[name] for name in probe.builds}}]
    return []


# --- the range


def _range(question: Question, readings: Readings) -> Probe | tuple[int, int, tuple[Remark, ...]]:
    """First and last place to search, or what must be judged before they are known."""
    places = [question.builds.index(end) for end in (question.good, question.bad) if end is not None]
    if len(places) == 2:
        return min(places), max(places), ()
    return _walk(question, readings, places[0])


def _walk(question: Question, readings: Readings, start: int) -> Probe | tuple[int, int, tuple[Remark, ...]]:
    """From one end in growing steps until a build in another state is found."""
    direction = question.direction
    way = range(start, len(question.builds) if direction > 0 else -1, direction)
    first = _judged_end(question, readings, start, way[-1])
    if first is None:
        return start, start, ()
    if not first[1]:
        return Probe((question.builds[first[0]],), at_most=1 + _walk_probes(len(way)))
    state = readings[question.builds[first[0]]].state
    reach, spent = first[0], -1
    for place in way:
        known = readings.get(question.builds[place])
        if known is not None and known.judged:
            reach, spent = place, spent + 1
            if known.state is not state:
                return min(start, place), max(start, place), ()
    beyond = [place for place in way if (place - reach) * direction > 0 and question.builds[place] not in readings]
    if not beyond:
        remark = Remark(RemarkKind.NO_OPPOSITE, question.builds[start], question.builds[reach])
        return min(start, reach), max(start, reach), (remark,)
    left = max(_walk_probes(len(way)) - spent, _probes(len(beyond)))
    step_length = _stride(abs(reach - first[0]) + 1, len(beyond), left)
    return Probe((question.builds[beyond[step_length - 1]],), at_most=min(left, len(beyond)))


def _walk_probes(builds: int) -> int:
    """Builds to judge besides the first one of ``builds`` on the way, in the worst case, for one change."""
    return min(builds - 1, math.ceil(math.log2(builds)) + 1)


def _stride(growing: int, beyond: int, left: int) -> int:
    """How many of the builds ``beyond`` a walk goes on.

    Steps that double would take twice the logarithm: once to pass the change, once to come back to it. So a step is as
    short as ``growing`` only while ``left`` probes are enough for either outcome: a search among the builds passed
    (``2**(left - 1)`` of them), or the rest of the walk (``2**(left - 1) - 1`` builds).
    """
    most = 1 << (left - 1)
    return min(max(growing, beyond - most + 1), most, beyond)


def _judged_end(question: Question, readings: Readings, start: int, stop: int) -> tuple[int, bool] | None:
    """From ``start`` to ``stop``: the first place that is judged (True) or must be (False); None when there is none."""
    direction = 1 if start <= stop else -1
    for place in range(start, stop + direction, direction):
        reading = readings.get(question.builds[place])
        if reading is None:
            return place, False
        if reading.judged:
            return place, True
    return None


# --- between the ends

Gap = tuple[int, int]
"""Places of two neighbouring judged builds whose signatures differ."""


def _gaps(question: Question, readings: Readings, low: int, high: int) -> list[Gap]:
    judged = [
        place
        for place in range(low, high + 1)
        if (reading := readings.get(question.builds[place])) is not None and reading.judged
    ]
    return [
        (older, newer)
        for older, newer in pairwise(judged)
        if readings[question.builds[older]].signature != readings[question.builds[newer]].signature
    ]


def _narrow(question: Question, readings: Readings, gaps: Sequence[Gap], present: Container[str]) -> Probe | None:
    """The next build of the gap that matters most: one between two states, then one between two signatures."""
    unread = {gap: list(_unread(question, readings, gap)) for gap in gaps}
    waiting = [gap for gap in gaps if unread[gap]]
    if not waiting:
        return None
    gap = min(waiting, key=lambda each: (_same_state(question, readings, each), each))
    place = _middle(unread[gap], [each for each in unread[gap] if question.builds[each] in present])
    older, newer = (question.builds[each] for each in gap)
    left = sum(_probes(len(unread[each])) for each in waiting)
    return Probe((question.builds[place],), older, newer, at_most=left)


def _unread(question: Question, readings: Readings, gap: Gap) -> Iterator[int]:
    return (place for place in range(gap[0] + 1, gap[1]) if question.builds[place] not in readings)


def _middle(places: Sequence[int], present: Sequence[int]) -> int:
    middle = len(places) // 2
    near = [place for place in present if abs(places.index(place) - middle) <= len(places) // 4]
    return min(near, key=lambda place: abs(places.index(place) - middle)) if near else places[middle]


def _same_state(question: Question, readings: Readings, gap: Gap) -> bool:
    older, newer = (readings[question.builds[place]] for place in gap)
    return older.state is newer.state


def _probes(unread: int) -> int:
    """Builds to judge until one gap among ``unread + 1`` is left, in the worst case."""
    return math.ceil(math.log2(unread + 1)) if unread > 0 else 0


# --- the end


def _boundary(question: Question, readings: Readings, gap: Gap) -> Boundary:
    older, newer = (question.builds[place] for place in gap)
    between = question.builds[gap[0] + 1 : gap[1]]
    return Boundary(older, newer, tuple((name, readings[name].reason) for name in between))


def _ends(
    question: Question,
    readings: Readings,
    low: int,
    high: int,
    older: tuple[int, bool] | None,
    newer: tuple[int, bool] | None,
) -> tuple[Remark, ...]:
    """Where what was judged differs from what the user said."""
    found = []
    for named, used in ((low, older), (high, newer)):
        if used is None or used[0] != named:
            name = question.builds[named]
            other = None if used is None else question.builds[used[0]]
            found.append(Remark(RemarkKind.END_NOT_JUDGED, name, other, readings[name].reason))
    if older is None or newer is None or older == newer:
        return tuple(found)
    used_at = {low: older[0], high: newer[0]}
    for end, kind, expected in (
        (question.good, RemarkKind.GOOD_IS_NOT, State.OK),
        (question.bad, RemarkKind.BAD_IS_NOT, State.BAD),
    ):
        if end is not None:
            name = question.builds[used_at[question.builds.index(end)]]
            if readings[name].state is not expected:
                found.append(Remark(kind, name))
    names = question.builds[older[0]], question.builds[newer[0]]
    both_named = question.good is not None and question.bad is not None
    if both_named and readings[names[0]].signature == readings[names[1]].signature:
        found.append(Remark(RemarkKind.ALIKE, *names))
    return tuple(found)

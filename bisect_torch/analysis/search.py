"""Find where a verdict changes with few builds: which build to judge next, given all that is known. Pure.

:func:`step` has no memory of its own: it sees the readings so far, wherever they come from, and answers with the next
builds to judge or with the end of the search. So a matrix that was run before makes a search free, and a search that
was cut off goes on where it stopped.

The search is for a change, not for a fault: what changed (broke, fixed, first available, another signature) is named
from the two ends of a boundary afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from itertools import pairwise

from bisect_torch.analysis.question import Finished, Probe, Question, Reading, Readings, Remark, RemarkKind, State
from bisect_torch.model import Boundary


def step(question: Question, readings: Readings, *, present: Container[str] = ()) -> Probe | Finished:
    """What to do next.

    - Both ends are judged first. One that cannot be judged is replaced by the nearest inside the range that can. Where
      the name does not exist at an end, the nearest that has it is found by halving.
    - Then the middle one of the builds between two neighbouring judged builds that differ, of those that may still be
      judged. What cannot be judged never moves a bound: its neighbour is next.
    - A third signature splits the range: both parts are searched.
    - Fine builds come last, and only those between two neighbours of the others that differ.

    Without fine builds, a history with one change and nothing that cannot be judged takes at most ``ceil(log2(n)) + 2``
    of the ``n`` builds from one end to the other, or to the floor of a walk; every build that cannot be judged costs
    one more, every further boundary at most ``ceil(log2(n))``.

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
        left = len(wanted) + _to_go(question, readings, (low, high))
        return Probe(tuple(question.builds[place] for place in wanted), at_most=left)
    if older is None or newer is None or older[0] == newer[0]:
        remark = Remark(RemarkKind.NOTHING_JUDGED, question.builds[low], question.builds[high])
        only = None if older is None else question.builds[older[0]]
        return Finished(
            (),
            (*remarks, *_ends(question, readings, low, high, older, newer), remark),
            searched=None if only is None else (only, only),
        )
    gaps = _gaps(question, readings, older[0], newer[0])
    probe = _narrow(question, readings, gaps, present)
    if probe is not None:
        return probe
    remarks += _ends(question, readings, low, high, older, newer)
    return Finished(
        boundaries=tuple(_boundary(question, readings, gap) for gap in gaps),
        remarks=remarks,
        searched=(question.builds[older[0]], question.builds[newer[0]]),
        not_run=_not_run(question, readings, gaps, range(older[0], newer[0] + 1)),
    )


def most_probes(question: Question) -> int:
    """How many builds a search for one change judges at most, when all can be judged."""
    places = [question.builds.index(end) for end in (question.good, question.bad) if end is not None]
    if len(places) == 2:
        return 2 + _to_go(question, {}, (min(places), max(places)))
    way = _way(question, places[0])
    walk = 1 + _walk_probes(len(_landmarks(question, {}, way)))
    return min(len(way), walk + _finest(question, {}, _ends_of(way)))


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


def _way(question: Question, start: int) -> range:
    """Places from one end as far as the search may walk."""
    return range(start, len(question.builds) if question.direction > 0 else -1, question.direction)


def _walk(question: Question, readings: Readings, start: int) -> Probe | tuple[int, int, tuple[Remark, ...]]:
    """From one end in growing steps until a build in another state is found."""
    way = _way(question, start)
    first = _judged_end(question, readings, start, way[-1])
    if first is None:
        return start, start, ()
    if not first[1]:
        walk = _walk_probes(len(_landmarks(question, readings, way)))
        return Probe((question.builds[first[0]],), at_most=1 + walk + _finest(question, readings, _ends_of(way)))
    state = readings[question.builds[first[0]]].state
    reach, spent = first[0], -1
    for place in way:
        known = readings.get(question.builds[place])
        if known is not None and known.judged:
            reach, spent = place, spent + 1
            if known.state is not state:
                return min(start, place), max(start, place), ()
    landmarks = _landmarks(question, readings, way)
    reached = sum((place - reach) * question.direction <= 0 for place in landmarks) - 1
    beyond = [step for step in range(reached + 1, len(landmarks)) if question.builds[landmarks[step]] not in readings]
    if not beyond:
        remark = Remark(RemarkKind.NO_OPPOSITE, question.builds[start], question.builds[reach])
        return min(start, reach), max(start, reach), (remark,)
    begin = landmarks.index(first[0]) if first[0] in landmarks else -1
    left = max(_walk_probes(len(landmarks)) - spent, _probes(len(beyond)))
    step_length = _stride(reached - begin + 1, len(beyond), left)
    at_most = min(left, len(beyond)) + _finest(question, readings, _ends_of(way))
    return Probe((question.builds[landmarks[beyond[step_length - 1]]],), at_most=at_most)


def _ends_of(way: Sequence[int]) -> Gap:
    return min(way), max(way)


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


def _landmarks(question: Question, readings: Readings, way: Sequence[int]) -> list[int]:
    """Places on which a walk may step: all but the fine builds, and the last of those that lie beyond all others."""
    coarse = [place for place in way if question.builds[place] not in question.fine]
    beyond = way[way.index(coarse[-1]) + 1 :] if coarse else way
    far = [
        place
        for place in beyond
        if (reading := readings.get(question.builds[place])) is None or reading.judged  # else its neighbour will do
    ]
    return [*coarse, *far[-1:]]


def _judged_end(question: Question, readings: Readings, start: int, stop: int) -> tuple[int, bool] | None:
    """From ``start`` to ``stop``: the first place that is judged (True) or must be (False); None when there is none.

    Fine builds stand in for nothing but a fine one. Where the name does not exist, it is taken not to exist on all
    builds from there to the end: where it does is found by halving, so that an end long before it costs few builds.
    """
    direction = 1 if start <= stop else -1
    fine = question.builds[start] in question.fine
    steps = [
        place
        for place in range(start, stop + direction, direction)
        if fine or question.builds[place] not in question.fine
    ]
    known = [readings.get(question.builds[place]) for place in steps]
    target = next((step for step, each in enumerate(known) if each is not None and each.judged), len(steps))
    lacking = [step for step, each in enumerate(known[:target]) if each is not None and each.absent]
    begin = max((step for step in lacking if step < len(steps) - 1), default=-1) + 1
    unread = [step for step in range(begin, target) if known[step] is None]
    if unread:
        return steps[unread[len(unread) // 2] if lacking else unread[0]], False
    return (steps[target], True) if target < len(steps) else None


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
    unread = {gap: _unread(question, readings, gap) for gap in gaps}
    waiting = [gap for gap in gaps if unread[gap]]
    if not waiting:
        return None

    def urgency(gap: Gap) -> tuple[bool, bool, Gap]:
        return question.builds[unread[gap][0]] in question.fine, _same_state(question, readings, gap), gap

    gap = min(waiting, key=urgency)
    place = _middle(unread[gap], [each for each in unread[gap] if question.builds[each] in present])
    older, newer = (question.builds[each] for each in gap)
    left = sum(_to_go(question, readings, each) for each in waiting)
    return Probe((question.builds[place],), older, newer, at_most=left)


def _unread(question: Question, readings: Readings, gap: Gap) -> list[int]:
    """Places in a gap that may still be judged; fine builds only when no other is left."""
    unread = [place for place in range(gap[0] + 1, gap[1]) if question.builds[place] not in readings]
    return [place for place in unread if question.builds[place] not in question.fine] or unread


def _to_go(question: Question, readings: Readings, gap: Gap) -> int:
    """Builds to judge until one gap is left of this one, in the worst case."""
    unread = [place for place in range(gap[0] + 1, gap[1]) if question.builds[place] not in readings]
    coarse = sum(question.builds[place] not in question.fine for place in unread)
    return _probes(coarse) + _finest(question, readings, gap)


def _finest(question: Question, readings: Readings, gap: Gap) -> int:
    """Fine builds to judge between two others, wherever in this gap those turn out to be, in the worst case."""
    fine = [
        place
        for place in range(gap[0] + 1, gap[1])
        if question.builds[place] in question.fine and question.builds[place] not in readings
    ]
    others = [place for place in range(gap[0] + 1, gap[1]) if question.builds[place] not in question.fine]
    edges = [gap[0], *others, gap[1]]
    return _probes(max(sum(older < place < newer for place in fine) for older, newer in pairwise(edges)))


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


def _not_run(question: Question, readings: Readings, gaps: Sequence[Gap], searched: range) -> tuple[str, ...]:
    """What nobody has judged; of the fine builds only those between two others of which one differs."""
    coarse = [
        place
        for place in searched
        if question.builds[place] not in question.fine or place in (searched[0], searched[-1])
    ]
    wanted = set(coarse)
    for older, newer in gaps:
        begin = max(place for place in coarse if place <= older)
        wanted.update(range(begin, min(place for place in coarse if place >= newer)))
    return tuple(
        question.builds[place] for place in searched if place in wanted and question.builds[place] not in readings
    )


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
            absent = kind is RemarkKind.BAD_IS_NOT and readings[name].state is State.ABSENT
            if readings[name].state is not expected and not absent:  # who searches for a name finds its absence bad
                found.append(Remark(kind, name, None if name == end else end))
    names = question.builds[older[0]], question.builds[newer[0]]
    both_named = question.good is not None and question.bad is not None
    if both_named and readings[names[0]].signature == readings[names[1]].signature:
        found.append(Remark(RemarkKind.ALIKE, *names))
    return tuple(found)

"""Slots that had nothing to do, and what they waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bisect_torch.report.profile.spans import (
    AHEAD,
    ENVIRONMENT,
    INSTALLER,
    MAIN,
    Profile,
    Span,
    outermost,
    slot_track,
)

Interval = tuple[int, int]
"""Begin and end in nanoseconds; in a list they are in order and apart."""

NOTHING_LEFT = "nothing left to run"
"""No cell waited for anything: others ran the last ones, or the results were written."""

_AFTER_THE_LAST = "results file"


def idle_time(profile: Profile) -> Counter[str]:
    """Nanoseconds of all slots without work, by what was going on meanwhile.

    While an environment is made its cells wait for that, whatever else happens; else they wait for what the tool itself
    does. Otherwise no cell waited: :data:`NOTHING_LEFT`.
    """
    tracks = profile.tracks
    reasons = _by_kind([span for span in tracks.get(INSTALLER, []) if span.kind != ENVIRONMENT])
    reasons += _by_kind(outermost(tracks.get(INSTALLER, []))) + _by_kind(outermost(tracks.get(AHEAD, [])))
    reasons += _by_kind(outermost([span for span in tracks.get(MAIN, []) if span.kind != _AFTER_THE_LAST]))
    found: Counter[str] = Counter()
    for number in range(profile.slots):
        busy = [(span.begin, span.end) for span in outermost(tracks[slot_track(number)])]
        left = without([(profile.begin, profile.end)], busy)
        for kind, intervals in reasons:
            rest = without(left, intervals)
            found[kind] += total(left) - total(rest)
            left = rest
        found[NOTHING_LEFT] += total(left)
    return +found


def total(intervals: Sequence[Interval]) -> int:
    """Nanoseconds of all of them."""
    return sum(end - begin for begin, end in intervals)


def without(intervals: Sequence[Interval], taken: Sequence[Interval]) -> list[Interval]:
    """What is left of the first where the second are taken out. Linear in the length of both."""
    left: list[Interval] = []
    place = 0
    for begin, end in intervals:
        while place < len(taken) and taken[place][1] <= begin:
            place += 1
        at = place
        while at < len(taken) and taken[at][0] < end:
            if taken[at][0] > begin:
                left.append((begin, taken[at][0]))
            begin = max(begin, taken[at][1])
            at += 1
        place = max(place, at - 1)  # the last one may reach into the next interval
        if begin < end:
            left.append((begin, end))
    return left


def _by_kind(spans: Sequence[Span]) -> list[tuple[str, list[Interval]]]:
    found: dict[str, list[Interval]] = {}
    for span in spans:
        found.setdefault(span.kind, []).append((span.begin, span.end))
    return list(found.items())

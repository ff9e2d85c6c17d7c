"""A profile in a few lines: seconds of each kind of work, and how long slots had nothing to do, and why."""

from __future__ import annotations

from collections import Counter

from bisect_torch.report.profile.idle import NOTHING_LEFT, idle_time
from bisect_torch.report.profile.spans import (
    AHEAD,
    CELL,
    CONFIRMATION,
    INSTALLER,
    MAIN,
    WORK,
    Profile,
    own_lengths,
    slot_track,
)
from bisect_torch.report.text import plural

_NAMES = {
    CELL: "cells",
    CONFIRMATION: "confirmations",
    WORK: "between cells",
    "waiting": "sweeping or waiting for another run",
}
_SMALL_NS = 500_000
"""What would be shown as 0.0 s or 0.1 s is left out where it says nothing."""


def summary_lines(profile: Profile) -> list[str]:
    """What a command spent its time on.

    The first table adds up to slots × wall time; installer and the tool itself work beside them.
    """
    wall, slots = profile.end - profile.begin, profile.slots
    lines = [f"profile: {_s(wall)}, {plural(slots, 'slot')}: {_s(wall * slots)} of slots"]
    rows = _busy(profile)
    idle = idle_time(profile)
    nothing_left = idle.pop(NOTHING_LEFT, 0)
    if waiting := sum(idle.values()):
        share = f"{100 * waiting / (wall * slots):.1f} % of slots × time, for {_listed(idle)}"
        rows.append(("idle, cells waiting", waiting, share))
    if nothing_left:
        rows.append((f"idle, {NOTHING_LEFT}", nothing_left, ""))
    names = max((len(name) for name, _, _ in rows), default=0)
    seconds = max((len(_s(length)) for _, length, _ in rows), default=0)
    lines += [f"  {name:{names}}  {_s(length):>{seconds}}  {more}".rstrip() for name, length, more in rows]
    for track in (INSTALLER, AHEAD, MAIN):
        kinds = _by_kind(profile, track)
        if kinds:
            lines.append(f"  {track} meanwhile: {_listed(kinds)}")
    return lines


def _busy(profile: Profile) -> list[tuple[str, int, str]]:
    """Name, nanoseconds and remark of each kind of work of the slots, the longest first."""
    lengths: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    own_seconds: Counter[str] = Counter()
    tracks = profile.tracks
    for number in range(profile.slots):
        spans = tracks[slot_track(number)]
        for span, own in zip(spans, own_lengths(spans), strict=True):
            lengths[span.kind] += own
            numbers[span.kind] += 1
            own_seconds[span.kind] += float(span.details.get("own seconds", 0.0))  # type: ignore[assignment]
    found = []
    for kind, length in lengths.most_common():
        remark = f"{numbers[kind]:,}" if kind != WORK else ""
        if kind in (CELL, CONFIRMATION):
            remark += f", {own_seconds[kind]:.1f} s of it the cases themselves"
        if length >= _SMALL_NS:
            found.append((_NAMES.get(kind, kind), length, remark))
    return found


def _by_kind(profile: Profile, track: str) -> Counter[str]:
    spans = profile.tracks.get(track, [])
    found: Counter[str] = Counter()
    for span, own in zip(spans, own_lengths(spans), strict=True):
        found[span.kind] += own
    return found


def _listed(kinds: Counter[str]) -> str:
    """``downloading 12.0 s, checking 2.1 s``: the longest first, without what takes no time."""
    shown = [f"{_NAMES.get(kind, kind)} {_s(length)}" for kind, length in kinds.most_common() if length >= 5 * 10**7]
    return ", ".join(shown) or "less than 0.1 s each"


def _s(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.1f} s"

"""What a profile consists of: spans of time, each on the track of who spent it."""

from __future__ import annotations

from dataclasses import dataclass, field

MAIN = "bisect-torch"
INSTALLER = "installer"
AHEAD = "installing ahead"

CELL = "cell"
CONFIRMATION = "confirmation"
WORK = "work"
"""A piece of work of a slot, around all that it does for it."""

ENVIRONMENT = "environment"
"""Making one, around its phases."""


def slot_track(number: int) -> str:
    """The track of one of the places that run cells, counted from 0."""
    return f"slot {number + 1}"


Details = dict[str, str | int | float]
"""Texts and numbers that a viewer shows of a span."""


@dataclass(frozen=True)
class Span:
    """Something that took time. On one track, spans lie beside or inside each other, and never overlap otherwise.

    Args:
        kind: What is summed: ``cell``, ``confirmation``, ``loading torch``, ``downloading``, ``journal``.
        name: What is shown: the instance, the build.
        track: Who did it.
        begin: Nanoseconds of the monotonic clock.
        end: Likewise.
    """

    kind: str
    name: str
    track: str
    begin: int
    end: int
    details: Details = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Nanoseconds."""
        return self.end - self.begin


@dataclass(frozen=True)
class Profile:
    """All spans of a command.

    Args:
        begin: When it began, in nanoseconds of the monotonic clock.
        end: When it ended.
        slots: How many cells could run at once.
        spans: In the order in which they began, outer ones before those inside.
    """

    begin: int
    end: int
    slots: int
    spans: tuple[Span, ...]

    @property
    def tracks(self) -> dict[str, list[Span]]:
        """Spans by track, slots that never worked included; in the order in which a viewer shows them."""
        names = [MAIN, INSTALLER, AHEAD, *(slot_track(number) for number in range(self.slots))]
        found: dict[str, list[Span]] = {name: [] for name in names}
        for span in self.spans:
            found.setdefault(span.track, []).append(span)
        always = {slot_track(number) for number in range(self.slots)}
        return {name: spans for name, spans in found.items() if spans or name in always}


def own_lengths(spans: list[Span]) -> list[int]:
    """Nanoseconds of each span without those directly inside it.

    Args:
        spans: Of one track, in the order of :attr:`Profile.spans`.
    """
    own = [span.length for span in spans]
    around: list[int] = []
    for place, span in enumerate(spans):
        while around and spans[around[-1]].end <= span.begin:
            around.pop()
        if around:
            own[around[-1]] -= span.length
        around.append(place)
    return own


def outermost(spans: list[Span]) -> list[Span]:
    """Those of one track that lie inside no other, in order."""
    found: list[Span] = []
    for span in spans:
        if not found or span.begin >= found[-1].end:
            found.append(span)
    return found

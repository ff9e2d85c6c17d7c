"""What a search is asked, what it knows, and what it answers. Pure; :mod:`bisect_torch.analysis.search` decides."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from bisect_torch.analysis.transitions import API_ABSENT, why_not_solid
from bisect_torch.model import Boundary, Point, Verdict


class State(str, enum.Enum):
    """What a build's reading means for the search."""

    OK = "ok"
    BAD = "bad"
    ABSENT = "absent"  # the name does not exist in that torch, and the search is for where it does
    UNJUDGED = "unjudged"


@dataclass(frozen=True)
class Reading:
    """What judging one build gave.

    Args:
        signature: Two judged readings with different signatures have a boundary between them.
        reason: For what could not be judged: why.
        absent: It could not be judged since the name does not exist in that torch.
    """

    state: State
    signature: str = ""
    reason: str = ""
    absent: bool = False

    @property
    def judged(self) -> bool:
        """Whether it says something about the build."""
        return self.state is not State.UNJUDGED


def reading_of(point: Point | None, *, judge_absent: bool = False) -> Reading:
    """What a point of a series means for a search. One whose repeats differ, or that was not run, is not judged.

    Args:
        judge_absent: Where the name does not exist is a state of its own; else it is neither good nor bad, like a build
            that cannot be installed.
    """
    if point is None or not point.solid:
        return Reading(State.UNJUDGED, reason=why_not_solid(point))
    judgement = point.judgement
    if judgement.api_absent and judge_absent:
        return Reading(State.ABSENT, API_ABSENT)
    if judgement.api_absent:
        return Reading(State.UNJUDGED, reason=API_ABSENT, absent=True)
    return Reading(State.OK if judgement.verdict is Verdict.OK else State.BAD, judgement.signature)


@dataclass(frozen=True)
class Question:
    """What is asked.

    Args:
        builds: Every build that may be judged, in release order. With one end given, the first and the last of them
            are as far as the search walks.
        good: The build that is said to be good, or None. It may be newer than ``bad``.
        bad: The build that is said to be bad, or None.
        find_fix: With one end given: walk to newer builds from ``bad``, to older ones from ``good``, instead of the
            other way.
        fine: Builds that are judged only between two neighbours of the others that differ: the nightly builds between
            two releases. An end may be one of them.

    Raises:
        ValueError: An end is not among the builds, both are the same, or none is given.
    """

    builds: tuple[str, ...]
    good: str | None = None
    bad: str | None = None
    find_fix: bool = False
    fine: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        ends = [end for end in (self.good, self.bad) if end is not None]
        if not ends or any(end not in self.builds for end in ends) or self.good == self.bad:
            raise ValueError(f"ends {self.good!r} and {self.bad!r} of {self.builds}")

    @property
    def direction(self) -> int:
        """With one end given: 1 walks to newer builds, -1 to older ones."""
        return 1 if (self.good is None) == self.find_fix else -1


class RemarkKind(str, enum.Enum):
    """In what the search differs from what was asked."""

    GOOD_IS_NOT = "the end named good is not"
    BAD_IS_NOT = "the end named bad is not"
    ALIKE = "both ends are alike"
    END_NOT_JUDGED = "an end cannot be judged"
    NOTHING_JUDGED = "fewer than two builds can be judged"
    NO_OPPOSITE = "no opposite as far as the search may walk"


@dataclass(frozen=True)
class Remark:
    """Something that the user should know about the ends.

    Args:
        build: The end that it is about.
        other: For ``END_NOT_JUDGED`` the build that stood in for it, for ``ALIKE`` the other end, for ``NO_OPPOSITE``
            the last build that was judged on the way, for ``GOOD_IS_NOT`` and ``BAD_IS_NOT`` the end for which
            ``build`` stands in, where it does.
        reason: For ``END_NOT_JUDGED``: why.
    """

    kind: RemarkKind
    build: str
    other: str | None = None
    reason: str = ""


@dataclass(frozen=True)
class Probe:
    """Judge these next.

    Args:
        builds: Usually one; at the beginning both ends.
        older: The judged build below, when the search is between two.
        newer: The judged build above.
        at_most: How many builds will have to be judged, these included, unless one cannot be judged or a third
            signature shows up. An upper bound.
    """

    builds: tuple[str, ...]
    older: str | None = None
    newer: str | None = None
    at_most: int = 1


@dataclass(frozen=True)
class Finished:
    """Nothing more can be learnt by the rules of the search.

    Args:
        boundaries: Oldest first. Each is a fact by itself: both of its ends were judged, and differ.
        searched: The oldest and the newest build of the range that was searched; None when nothing was judged.
        not_run: Builds of that range that were never judged, since the search takes both sides of them to be alike;
            without the fine ones between neighbours of the others that are alike, which nobody wanted to judge.
    """

    boundaries: tuple[Boundary, ...]
    remarks: tuple[Remark, ...] = ()
    searched: tuple[str, str] | None = None
    not_run: tuple[str, ...] = ()


Readings = Mapping[str, Reading]
"""Build to what judging it gave."""

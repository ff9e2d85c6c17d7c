"""Torch or a dependency: which hybrids decide it, and what their answers mean. Pure.

Two builds between which a case changes differ in more than torch. A *hybrid* is one of the two torches with some of its
other packages taken from the other side. Each hybrid answers as the older build does, as the newer one does, in a third
way, or not at all; the last two decide nothing. The smallest set of packages that matters is found by delta debugging
(Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, IEEE TSE 28(2), 2002).
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bisect_torch.model import Point


class Side(str, enum.Enum):
    """One of the two builds at the boundary."""

    OLD = "old"
    NEW = "new"

    @property
    def other(self) -> Side:
        """The side that is not this one."""
        return Side.NEW if self is Side.OLD else Side.OLD


@dataclass(frozen=True)
class Hybrid:
    """A torch with some packages of the other side.

    Args:
        torch: Whose torch it has, and whose other packages.
        swapped: Names of the packages that it has from the other side, sorted.
    """

    torch: Side
    swapped: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """What a hybrid gave.

    Args:
        like: The build that it behaves like; None when it decides nothing.
        reason: Why it decides nothing, in words.
    """

    like: Side | None
    reason: str = ""


class Cause(str, enum.Enum):
    """What made the difference at a boundary."""

    TORCH = "torch"
    DEPENDENCY = "dependency"
    TOGETHER = "together"  # the new torch and the new dependencies, neither alone
    EITHER = "either"  # the new torch alone is enough, and so are the new dependencies
    INSEPARABLE = "inseparable"  # no hybrid that can be installed decides it


@dataclass(frozen=True)
class Trial:
    """A hybrid that was judged."""

    hybrid: Hybrid
    answer: Answer


@dataclass(frozen=True)
class Attribution:
    """The outcome.

    Args:
        packages: The dependencies that matter; empty when none does or none can be told.
        alone: Whether the old torch with these new ones is as after; None when that could not be judged.
        reverses: Whether the new torch with these old ones is as before; None when that could not be judged.
        bound: Packages that differ and were never taken apart from the new torch: they belong to it in this answer.
        trials: Every hybrid that was asked for, in that order.
        why: For what could not be decided, in words.
    """

    cause: Cause
    packages: tuple[str, ...] = ()
    alone: bool | None = None
    reverses: bool | None = None
    bound: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()
    why: tuple[str, ...] = ()


Judge = Callable[[Sequence[Hybrid]], Sequence[Answer]]
"""Makes and judges hybrids; may be asked for several at once."""


def answer_of(point: Point | None, old: Point, new: Point) -> Answer:
    """What a hybrid's point says, beside those of the two builds, whose signatures differ."""
    if point is None:
        return Answer(None, "not run")
    judgement = point.judgement
    if point.flaky:
        shown = ", ".join(f"{signature} {count}" for signature, count in point.counts.items())
        return Answer(None, f"flaky: {shown}")
    if not judgement.verdict.judged:
        verdict = judgement.verdict.value
        return Answer(None, f"{verdict}: {judgement.reason}" if judgement.reason else verdict)
    for side, end in ((Side.OLD, old), (Side.NEW, new)):
        if (judgement.signature, judgement.api_absent) == (end.judgement.signature, end.judgement.api_absent):
            return Answer(side)
    return Answer(None, f"a third answer: {judgement.signature}")


def ddmin(items: Sequence[str], shows: Callable[[tuple[str, ...]], bool | None]) -> tuple[str, ...]:
    """A smallest part of ``items`` that still shows something: no single item can be left out of it.

    Args:
        items: All together show it.
        shows: Whether a part shows it; None when that cannot be told, which never makes the part smaller.

    Returns:
        A part in the order of ``items``. Of ``n`` items at most ``n**2 + 3n`` parts are asked for, each once.
    """
    known: dict[tuple[str, ...], bool | None] = {tuple(items): True}

    def ask(part: tuple[str, ...]) -> bool:
        if part not in known:
            known[part] = shows(part)
        return known[part] is True

    left, parts = tuple(items), 2
    while len(left) > 1:
        chunks = _split(left, min(parts, len(left)))
        smaller = next((chunk for chunk in chunks if ask(chunk)), None)
        if smaller is not None:
            left, parts = smaller, 2
            continue
        without = next((rest for chunk in chunks if ask(rest := tuple(x for x in left if x not in chunk))), None)
        if without is not None:
            left, parts = without, max(parts - 1, 2)
        elif parts >= len(left):
            break
        else:
            parts = min(2 * parts, len(left))
    return left


def _split(items: tuple[str, ...], parts: int) -> list[tuple[str, ...]]:
    edges = [len(items) * number // parts for number in range(parts + 1)]
    return [items[start:end] for start, end in itertools.pairwise(edges)]


def attribute(differing: Sequence[str], separable: Mapping[Side, Sequence[str]], judge: Judge) -> Attribution:
    """Find out what made the difference between two builds.

    First the new torch with everything of the old side that it runs with, and the reverse. Only where these say that
    dependencies matter are they taken apart.

    Args:
        differing: Packages (and ``python``) besides torch that differ between the two builds.
        separable: Whose torch to the packages that it may have from the other side.
        judge: Answers for hybrids. One with nothing swapped is never asked for.
    """
    return _Attributing(differing, separable, judge).outcome()


class _Attributing:
    def __init__(self, differing: Sequence[str], separable: Mapping[Side, Sequence[str]], judge: Judge) -> None:
        self._differing = tuple(differing)
        self._separable = {side: tuple(sorted(separable[side], key=_suspicion)) for side in Side}
        self._judge = judge
        self._trials: dict[Hybrid, Answer] = {}

    def outcome(self) -> Attribution:
        if not self._differing:
            return Attribution(Cause.TORCH)
        whole = [self._whole(side) for side in (Side.NEW, Side.OLD) if self._separable[side]]
        if not whole:
            return self._made(Cause.INSEPARABLE, why=("nothing that differs can be taken apart from torch",))
        self._ask(whole)
        new, old = (self._like(self._whole(side)) for side in (Side.NEW, Side.OLD))
        if old is Side.NEW:
            return self._enough(new)
        if new is Side.OLD:
            return self._needed()
        if new is Side.NEW:
            return self._made(Cause.TORCH, why=self._undecided(Side.OLD))
        return self._made(Cause.INSEPARABLE, why=self._undecided(Side.NEW) + self._undecided(Side.OLD))

    def _enough(self, new: Side | None) -> Attribution:
        """The old torch with the new dependencies is as after: they are enough. Which of them?"""
        every = self._separable[Side.OLD]
        found = ddmin(every, lambda part: self._shows(Side.OLD, part))
        if new is Side.NEW:
            return self._made(Cause.EITHER, found, alone=True, reverses=False)
        why = self._undecided(Side.NEW)
        return self._made(Cause.DEPENDENCY, found, alone=True, reverses=self._reverses(found), why=why)

    def _reverses(self, found: tuple[str, ...]) -> bool | None:
        """Whether the new torch with these of the old side, and all others of the new one, is as before."""
        like = self._try(Side.NEW, found) if set(found) <= set(self._separable[Side.NEW]) else None
        return None if like is None else like is Side.OLD

    def _needed(self) -> Attribution:
        """The new torch with the old dependencies is as before: the new ones are needed. Which, and are they enough?"""
        every = self._separable[Side.NEW]
        found = ddmin(every, lambda part: self._shows(Side.NEW, tuple(name for name in every if name not in part)))
        able = set(found) <= set(self._separable[Side.OLD])
        like = self._try(Side.OLD, found) if able else None
        if like is Side.NEW:
            return self._made(Cause.DEPENDENCY, found, alone=True, reverses=self._reverses(found))
        if like is Side.OLD:
            return self._made(Cause.TOGETHER, found, alone=False)
        return self._made(Cause.INSEPARABLE, found, why=self._undecided(Side.OLD) or (_NOT_ALONE,))

    # --- asking

    def _whole(self, side: Side) -> Hybrid:
        """The torch of a side with all that it may have from the other."""
        return _hybrid(side, self._separable[side])

    def _shows(self, torch: Side, swapped: tuple[str, ...]) -> bool | None:
        like = self._try(torch, swapped)
        return None if like is None else like is Side.NEW

    def _try(self, torch: Side, swapped: tuple[str, ...]) -> Side | None:
        if not swapped:  # that build itself
            return torch
        hybrid = _hybrid(torch, swapped)
        if hybrid not in self._trials:
            self._ask([hybrid])
        return self._like(hybrid)

    def _ask(self, hybrids: Sequence[Hybrid]) -> None:
        self._trials.update(zip(hybrids, self._judge(hybrids), strict=True))

    def _like(self, hybrid: Hybrid) -> Side | None:
        return self._trials[hybrid].like if hybrid in self._trials else None

    # --- what it means

    def _undecided(self, torch: Side) -> tuple[str, ...]:
        """Why the hybrid of this torch with all that it may have from the other side says nothing."""
        hybrid = self._whole(torch)
        if hybrid not in self._trials:
            return (f"the {torch.value} torch can have nothing from the other side",)
        answer = self._trials[hybrid]
        if answer.like is not None:
            return ()
        return (f"the {torch.value} torch with the {torch.other.value} dependencies: {answer.reason}",)

    def _made(
        self,
        cause: Cause,
        packages: tuple[str, ...] = (),
        *,
        alone: bool | None = None,
        reverses: bool | None = None,
        why: tuple[str, ...] = (),
    ) -> Attribution:
        bound = tuple(name for name in self._differing if name not in self._separable[Side.NEW])
        trials = tuple(Trial(hybrid, answer) for hybrid, answer in self._trials.items())
        return Attribution(cause, tuple(sorted(packages)), alone, reverses, bound, trials, why)


def _hybrid(torch: Side, swapped: Sequence[str]) -> Hybrid:
    return Hybrid(torch, tuple(sorted(swapped)))


def _suspicion(name: str) -> tuple[int, str]:
    return _SUSPECTS.index(name) if name in _SUSPECTS else len(_SUSPECTS), name


_SUSPECTS = ("numpy", "sympy", "setuptools", "triton", "python")
"""What torch and its users call most. They stand together, so that most causes are found in fewer steps."""

_NOT_ALONE = "whether they change it without the new torch cannot be judged"

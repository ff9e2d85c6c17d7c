"""One letter per verdict, so that a matrix reads without colour; colour only repeats what the letter says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bisect_torch.model import Judgement, Series

LETTERS: dict[str, tuple[str, str, str]] = {
    "ok": ("·", "ok", "green"),
    "wrong": ("W", "wrong (silent)", "bold red"),
    "error": ("E", "error", "yellow"),
    "crash": ("C", "crash", "bold magenta"),
    "timeout": ("T", "timeout", "blue"),
    "oom": ("O", "out of memory", "blue"),
    "undecidable": ("D", "undecidable at these tolerances", "cyan"),
    "skip": ("-", "skipped", "dim"),
    "uninstallable": ("U", "uninstallable", "dim"),
    "broken": ("B", "broken (environment or case)", "cyan"),
    "infra": ("I", "infrastructure failed", "cyan"),
}
"""Verdict to letter, words, style."""

ABSENT = ("A", "API absent", "dim yellow")
NOT_RUN = ("?", "not run", "dim")
RUNNING = ("…", "running", "cyan")
PENDING = (" ", "", "")
FLAKY = ("~", "flaky")
OTHER_KIND = ("*", "another error or signal than before")
DETAIL = ("'", "another message than before")


class Mark(NamedTuple):
    """What stands in one place of the matrix.

    Args:
        letter: One character.
        small: ``~`` flaky, ``*`` or ``'`` another kind or message than on the build before, or a space.
        style: Name of the colour.
    """

    letter: str
    small: str = " "
    style: str = ""


MARK_NOT_RUN = Mark(NOT_RUN[0], " ", NOT_RUN[2])
MARK_RUNNING = Mark(RUNNING[0], " ", RUNNING[2])
MARK_PENDING = Mark(PENDING[0])
MARK_OK = Mark(LETTERS["ok"][0], " ", LETTERS["ok"][2])


def mark_of(judgement: Judgement, *, flaky: bool = False, small: str = " ") -> Mark:
    """The mark of a judged cell."""
    letter, _, style = _letter(judgement)
    return Mark(letter, FLAKY[0] if flaky else small, style)


def _letter(judgement: Judgement) -> tuple[str, str, str]:
    return ABSENT if judgement.api_absent and judgement.verdict.bad else LETTERS[judgement.verdict.value]


def marks_of(series: Series) -> tuple[Mark, ...]:
    """The marks of a whole row. What the letter hides, the small mark tells: against the last point that was judged, a
    bad one of the same verdict has another signature, or only another message."""
    marks: list[Mark] = []
    last: Judgement | None = None
    again: dict[tuple[int, bool], Mark] = {}  # the marks of what is as it was on the build before
    for point in series.answers:
        if point is None:
            marks.append(MARK_NOT_RUN)
            continue
        judgement = point.judgement
        if judgement is last and (id(judgement), point.flaky) in again:
            marks.append(again[id(judgement), point.flaky])
            continue
        small = " "
        if last is not None and judgement.verdict.bad and _letter(last) == _letter(judgement):
            if last.signature != judgement.signature:
                small = OTHER_KIND[0]
            elif last.detail != judgement.detail:
                small = DETAIL[0]
        marks.append(mark_of(judgement, flaky=point.flaky, small=small))
        if judgement is last:
            again[id(judgement), point.flaky] = marks[-1]
        if judgement.verdict.judged:
            last = judgement
    return tuple(marks)


def legend(marks: Iterable[Mark]) -> list[str]:
    """``W wrong (silent)`` for each letter that occurs, in the order of the verdicts, then the small marks."""
    seen = set(marks)
    letters = {mark.letter for mark in seen}
    small = {mark.small for mark in seen}
    known = [*((letter, words) for letter, words, _ in LETTERS.values())]
    known += [ABSENT[:2], NOT_RUN[:2], RUNNING[:2]]
    return [f"{letter} {words}" for letter, words in known if letter in letters] + [
        f"{sign} {words}" for sign, words in (FLAKY, OTHER_KIND, DETAIL) if sign in small
    ]

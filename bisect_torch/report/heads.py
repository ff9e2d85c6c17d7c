"""Column heads of the matrix: one line where there is room, else major, minor and patch under one another.

A nightly build is headed by its month and day, as ``11-28``; a line below the matrix says which those are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bisect_torch.report.text import clean

NARROW = 3
"""Columns of a stacked head: two digits of the minor version and a space."""

_RELEASE = re.compile(r"(\d)\.(\d{1,2})\.(\d{1,2})")
_NIGHTLY = re.compile(r"(\d+\.\d+\.\d+)\.dev\d{4}(\d\d)(\d\d)")
_SHORT_NIGHTLY = re.compile(r"(\d\d)-(\d\d)")


@dataclass(frozen=True)
class Heads:
    """Heads for a run of builds.

    Args:
        width: Columns of each build's column, with the space that parts it from the next.
        lines: Each line's text, as wide as all columns.
        key: What a tag such as ``#1`` stands for, for names that have no short form.
    """

    width: int
    lines: tuple[str, ...]
    key: tuple[str, ...]


def tags(builds: Sequence[str]) -> dict[str, str]:
    """Name to tag, for builds whose name is not a plain release number: the day of a nightly, else a number."""
    days = {name: f"{found[2]}-{found[3]}" for name in builds if (found := _NIGHTLY.fullmatch(name))}
    if len(set(days.values())) < len(days):  # of two years, or two versions of one day
        days = {}
    others = [name for name in builds if not _RELEASE.fullmatch(name) and name not in days]
    return {**days, **{name: f"#{number}" for number, name in enumerate(others, start=1)}}


def _key(builds: Sequence[str], tag: dict[str, str]) -> tuple[str, ...]:
    """What the tags stand for: one line for all nightlies of a version."""
    lines: dict[str, list[str]] = {}
    for name in builds:
        nightly = _SHORT_NIGHTLY.fullmatch(tag.get(name, "")) and _NIGHTLY.fullmatch(name)
        if name in tag:
            lines.setdefault(f"{nightly[1]}.dev" if nightly else name, []).append(name)
    return tuple(
        f"{tag[group[0]]}{f' … {tag[group[-1]]}' if len(group) > 1 else ''}"
        f" {clean(group[0])}{f' … {clean(group[-1])}' if len(group) > 1 else ''}"
        for group in lines.values()
    )


def heads(builds: Sequence[str], room: int, every: Sequence[str] | None = None) -> Heads:
    """Heads of ``builds`` in at most ``room`` columns; stacked where they do not fit side by side.

    Args:
        every: All builds of the run when ``builds`` is a part of them, so that tags stay the same.
    """
    tag = tags(builds if every is None else every)
    shown = [tag.get(name, name) for name in builds]
    key = _key(builds, tag)
    wide = max((len(name) for name in shown), default=1) + 2
    if wide * len(shown) <= room:
        return Heads(wide, ("".join(name.ljust(wide) for name in shown),), key)
    rows: tuple[list[str], list[str], list[str]] = ([], [], [])
    before = ""
    for name in shown:
        head, middle, last = _stacked(name)
        rows[0].append(head if head != before else "")
        rows[1].append(middle)
        rows[2].append(last)
        before = head
    lines = tuple("".join(word.ljust(NARROW)[:NARROW] for word in row) for row in rows)
    return Heads(NARROW, tuple(line for line in lines if line.strip()), key)


def _stacked(name: str) -> tuple[str, str, str]:
    """The three rows of a narrow head; the first is left out where it is that of the column before."""
    release, nightly = _RELEASE.fullmatch(name), _SHORT_NIGHTLY.fullmatch(name)
    if release:
        return f"{release[1]}.", release[2], f".{release[3]}"
    return (nightly[1], nightly[2], "") if nightly else ("", name, "")

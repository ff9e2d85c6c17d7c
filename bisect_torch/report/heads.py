"""Column heads of the matrix: one line where there is room, else major, minor and patch under one another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bisect_torch.report.text import clean

NARROW = 3
"""Columns of a stacked head: two digits of the minor version and a space."""

_RELEASE = re.compile(r"(\d)\.(\d{1,2})\.(\d{1,2})")


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
    """Name to tag, for builds whose name is not a plain release number."""
    others = [name for name in builds if not _RELEASE.fullmatch(name)]
    return {name: f"#{number}" for number, name in enumerate(others, start=1)}


def heads(builds: Sequence[str], room: int, every: Sequence[str] | None = None) -> Heads:
    """Heads of ``builds`` in at most ``room`` columns; stacked where they do not fit side by side.

    Args:
        every: All builds of the run when ``builds`` is a part of them, so that tags stay the same.
    """
    tag = tags(builds if every is None else every)
    shown = [tag.get(name, name) for name in builds]
    key = tuple(f"{tag[name]} {clean(name)}" for name in builds if name in tag)
    wide = max((len(name) for name in shown), default=1) + 2
    if wide * len(shown) <= room:
        return Heads(wide, ("".join(name.ljust(wide) for name in shown),), key)
    rows: tuple[list[str], list[str], list[str]] = ([], [], [])
    before = ""
    for name in shown:
        found = _RELEASE.fullmatch(name)
        major, minor, patch = found.groups() if found else ("", name, "")
        rows[0].append(f"{major}." if major and major != before else "")
        rows[1].append(minor)
        rows[2].append(f".{patch}" if patch else "")
        before = major
    lines = tuple("".join(word.ljust(NARROW)[:NARROW] for word in row) for row in rows)
    return Heads(NARROW, tuple(line for line in lines if line.strip()), key)

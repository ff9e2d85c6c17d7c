"""The words of a command line before they are parsed."""

from __future__ import annotations

from collections.abc import Sequence


def before_dashes(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The words before the first ``--``, and those after it (None when there is none)."""
    if "--" not in words:
        return list(words), None
    place = list(words).index("--")
    return list(words[:place]), list(words[place + 1 :])

"""The words of a command line before they are parsed."""

from __future__ import annotations

from collections.abc import Sequence


def before_dashes(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The words before the first ``--``, and those after it (None when there is none)."""
    if "--" not in words:
        return list(words), None
    place = list(words).index("--")
    return list(words[:place]), list(words[place + 1 :])


def before_pytest(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The words before ``--pytest``, and those after it, which are pytest's (None when there is none).

    What follows ``--`` is a command's, whatever it is.
    """
    place = list(words).index("--pytest") if "--pytest" in before_dashes(words)[0] else len(words)
    return list(words[:place]), list(words[place + 1 :]) if place < len(words) else None

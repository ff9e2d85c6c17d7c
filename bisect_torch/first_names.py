"""Many names in one sentence."""

from __future__ import annotations

from collections.abc import Sequence


def first_of(names: Sequence[object], most: int = 4, *, between: str = ", ") -> str:
    """``a, b and 1,234 more``: the first of many names, and how many there are besides.

    Args:
        most: How many are named.
        between: What stands between two names.
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{between.join(map(str, names[:most]))}{more}"

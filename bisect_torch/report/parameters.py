"""What instances of one case have in common, read from their names."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence

Pairs = tuple[tuple[str, str], ...]


@functools.lru_cache(maxsize=2**16)
def pairs(instance: str) -> Pairs | None:
    """Names and values of ``bmm[dtype=bfloat16,batch=3]``; None where a value holds a comma and they cannot be told."""
    inside = instance.partition("[")[2].removesuffix("]")
    if not inside:
        return ()
    split = [word.partition("=") for word in inside.split(",")]
    return tuple((name, value) for name, _, value in split) if all(sign for _, sign, _ in split) else None


def in_common(group: Collection[str], every: Sequence[str]) -> Pairs:
    """The parameter values that single out ``group`` among ``every``: all instances that have them are in it.

    Returns:
        Nothing where no choice of values does so.
    """
    known = [pairs(instance) for instance in every]
    mine = [each for instance, each in zip(every, known, strict=True) if instance in group]
    if not mine or any(each is None for each in known):
        return ()
    shared = set(mine[0] or ())
    for each in mine[1:]:
        shared &= set(each or ())
    fitting = sum(shared <= set(each or ()) for each in known)
    return tuple(pair for pair in mine[0] or () if pair in shared) if shared and fitting == len(mine) else ()

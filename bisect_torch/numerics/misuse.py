"""A check that is called as it cannot be meant: that says something about the case, and nothing about torch."""

from __future__ import annotations


class MisusedCheckError(ValueError):
    """``check`` was called without a reference, with an option that it does not have, or with a value that none can
    have. The message names it."""

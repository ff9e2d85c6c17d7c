"""Reading somebody's Python without running it."""

from __future__ import annotations

import ast
import warnings


def tree_of(source: str) -> ast.Module | None:
    """What somebody's text says; None where it is no Python. What Python would warn of is the writer's own business."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None

"""Files that are named as a script and are none: what they are, and what to type in their place."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

from bisect_torch.errors import UsageError

_DATA = frozenset({".csv", ".html", ".json", ".toml", ".tsv", ".xml", ".yaml", ".yml"})
_PROSE = frozenset({".markdown", ".md", ".rst", ".txt"})
_SHELL = frozenset({".bash", ".sh", ".zsh"})


def refuse_other(path: Path) -> None:
    """Python reads ``{"cells": []}`` and ``a,b`` as code that runs to its end.

    Args:
        path: As it was named; it exists.

    Raises:
        UsageError: Its ending says that it is something else.
    """
    word, ending = shlex.quote(str(path)), path.suffix.lower()
    if ending == ".parquet":
        what, hint = "results", f"`bisect-torch judge {word}` shows what is in it"
    elif ending == ".ipynb":
        what, hint = "a notebook", f"`jupyter nbconvert --to script {word}` makes a script of it"
    elif ending in _SHELL:
        what, hint = "a shell script", f"a command stands after --: -- sh {word}"
    elif ending in _DATA:
        what, hint = "data", "name a case file, a script or a folder"
    elif ending in _PROSE and not _is_code(path):
        what, hint = "a text", f"`bisect-torch new {word}` takes the code out of a bug report; a script ends in .py"
    else:
        return
    raise UsageError(f"{path}: that is {what}, not Python", hint=hint)


def _is_code(path: Path) -> bool:
    """Whether it imports something: one word alone is an expression of Python, too."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in nodes)

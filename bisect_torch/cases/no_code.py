"""What is named to be run and cannot be: files that are no Python, commands without their script."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from bisect_torch.errors import UsageError
from bisect_torch.nearest import is_python, which_one

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


_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python's that are followed by a value."""


def refuse_idle_command(words: Sequence[str]) -> None:
    """
    Args:
        words: Of a command.

    Raises:
        UsageError: It starts Python with a script that does not exist, or with nothing to run: an end with 2 on every
            build, or with 0.
    """
    if not _PYTHON.fullmatch(Path(words[0]).name):
        return
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-" or option in ("-V", "--version", "-h", "--help") or re.fullmatch(r"-[a-zA-Z]*[cm].*", option):
            return
        if option in _WITH_VALUE:
            rest = rest[1:]
    if not rest:
        line = f"{shlex.join(words)} FILE"
        raise UsageError(f"{shlex.join(words)}: nothing stands there to run", hint=f"a script stands behind it: {line}")
    if not Path(rest[0]).exists():
        hint = which_one(Path(rest[0]), is_python) or "paths are seen from the working directory"
        raise UsageError(f"{rest[0]}: no such file", hint=hint)


def _is_code(path: Path) -> bool:
    """Whether it imports something: one word alone is an expression of Python, too."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in nodes)

"""Words of an earlier command line, as they can be typed again in the folder where they were typed. Pure.

What is kept of a line names folders by what stands for them (see :mod:`bisect_torch.redaction.private`), and a shell
takes ``<home>/x.py`` for a redirection.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from bisect_torch.redaction.patterns import CWD, HOME, PLACEHOLDERS
from bisect_torch.report.text import clean

_ANYWHERE = ("..", "/", "~")
"""How a path begins that leads out of the working directory."""

_HOME_TYPED = re.compile(r"~/.")


def typed(word: str) -> str:
    """The word with the folders of its line written as a shell knows them; as it is where it holds another placeholder,
    or one in its middle."""
    if word == CWD:
        return "."
    if word.startswith(f"{CWD}/"):
        return not_an_option(word.removeprefix(f"{CWD}/"))
    return f"~/{word.removeprefix(f'{HOME}/')}" if word.startswith(f"{HOME}/") else word


def shell_line(words: Iterable[str]) -> str:
    """The words as a POSIX shell takes them, on one line: quoted, but for the ``~`` that stands for a home."""
    return clean(" ".join(map(_quoted, words)))


def _quoted(word: str) -> str:
    return f"~/{shlex.quote(word[2:])}" if _HOME_TYPED.match(word) else shlex.quote(word)


def not_an_option(path: str) -> str:
    """A relative path that no program takes for an option: ``./-dash.py``."""
    return f"./{path}" if path.startswith("-") else path


def named_file(file: str, own: Sequence[str]) -> str | None:
    """How the words of a line name a case file; None where they do not.

    Results call a file by its path below the working directory, and one that lies elsewhere by its name, with as many
    of its folders as tell it from others (:func:`bisect_torch.engine.ledger.display_names`).

    Args:
        file: As results call it.
        own: The tool's own words, from the command on.
    """
    paths = [typed(word.partition("::")[0]) for word in own[1:] if not word.startswith("-")]
    paths = [path for path in paths if path and not any(each in path for each in PLACEHOLDERS)]
    if any(posixpath.normpath(path) == file for path in paths):
        return not_an_option(file)
    elsewhere = [path for path in paths if path.startswith(_ANYWHERE) and _ends_with(path, file)]
    by_link = [path for path in paths if PurePosixPath(path).name == PurePosixPath(file).name]
    return next(iter([*elsewhere, *by_link]), None)


def named_folder(file: str, own: Sequence[str]) -> str | None:
    """The same for a file of a folder that the words name."""
    name = PurePosixPath(file).name
    # What follows an option is likely its value: -o ../results.parquet.
    words = [word for before, word in pairwise(own) if not before.startswith("-")]
    folders = [path for path in map(typed, words) if not path.startswith("-") and not path.endswith(".py")]
    inside = any(posixpath.normpath(posixpath.join(path, name)) == file for path in folders)
    if inside:
        return not_an_option(file)
    elsewhere = (posixpath.join(path, name) for path in folders if path.startswith(_ANYWHERE))
    return next((path for path in elsewhere if _ends_with(path, file)), None)


def _ends_with(path: str, file: str) -> bool:
    parts = PurePosixPath(file).parts
    return PurePosixPath(posixpath.normpath(path)).parts[-len(parts) :] == parts

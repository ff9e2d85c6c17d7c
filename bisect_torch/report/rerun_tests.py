"""The words that run some tests of a suite again, and no others. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from bisect_torch.cases.pytest_suite import COLLECTION, WHOLE
from bisect_torch.report.retyped import typed

MOST_TESTS = 6
"""Tests that a line names; beyond that it is the whole suite's."""

_FLAG = re.compile(r"-[qvsxlh]+")
"""Options of pytest's that take no value."""


def words_for(tests: Iterable[tuple[str, str]], tail: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of the tool and of pytest that run these tests.

    By their node ids, where pytest's words name files and folders that hold them; else by the tool's own ``-k``, which
    chooses among all that pytest collects. All of the suite where there are more than :data:`MOST_TESTS`.

    Args:
        tests: Case file and instance of each, as results call them.
        tail: ``--pytest`` and its words, as the manifest of the run has them.

    Returns:
        The tool's own words, and ``--pytest`` with its words.
    """
    words = [typed(word) for word in tail[1:]]
    chosen = list(dict.fromkeys(tests))
    if len(chosen) > MOST_TESTS:
        return [], [tail[0], *words]
    paths = list(_paths(words, [file for file, _ in chosen]))
    found = all(any(_holds(words[place], file) for place in paths) or not paths for file, _ in chosen)
    modules = any(word == "--pyargs" or word.startswith("@") for word in words)  # or what a file says
    if found and not modules and (WHOLE, COLLECTION) not in chosen:
        kept = [word for place, word in enumerate(words) if place not in paths]
        return [], [tail[0], *kept, *(_node(*test) for test in chosen)]
    names = [name for _, name in chosen if name != COLLECTION]
    return ["-k", " or ".join(names)] if len(names) == len(chosen) else [], [tail[0], *words]


def _node(file: str, name: str) -> str:
    return file if name == COLLECTION else f"{file}::{name}"


def _paths(words: Sequence[str], files: Sequence[str]) -> Iterator[int]:
    """Places of the words that name files or folders: those that are no options, nor likely an option's value."""
    for place, (before, word) in enumerate(zip(("", *words), words, strict=False)):
        value = before.startswith("-") and "=" not in before and not _FLAG.fullmatch(before)
        if not word.startswith("-") and (not value or any(_holds(word, file) for file in files)):
            yield place


def _holds(word: str, file: str) -> bool:
    """Whether a word of pytest's names a file, or a folder that it lies in."""
    path = posixpath.normpath(word.partition("::")[0])
    return path in (".", file) or file.startswith(f"{path}/")

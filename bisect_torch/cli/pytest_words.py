"""Options of ours that stand behind ``--pytest``, where pytest would take them for its own."""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from bisect_torch.cli.commands import PROGRAM
from bisect_torch.cli.words import before_dashes
from bisect_torch.errors import UsageError

PYTEST_HAS_TOO = frozenset({"-h", "--help", "-k", "-o", "-q", "--quiet", "--debug"})
"""Those of our options that pytest itself has as well. Of ``-o`` pytest takes ``NAME=VALUE`` alone."""


def refuse_ours(parser: argparse.ArgumentParser, own: Sequence[str], words: Sequence[str]) -> None:
    """Refuse a line whose words for pytest hold an option of ours that neither pytest nor the project has: pytest would
    end in every environment, once all of them are made.

    Args:
        parser: The command's.
        own: The words before ``--pytest``, the command's name first.
        words: Those after it.

    Raises:
        UsageError: There is one.
    """
    for_pytest, dashed = before_dashes(words)
    actions = {option: action for action in parser._actions for option in action.option_strings}
    ours, _ = _apart(actions, for_pytest)
    if not ours or _may_bring_plugins(own):
        return
    names = dict.fromkeys(each[0].partition("=")[0] for each in ours)
    alone = {name: actions[name] for name in names if not _declared(name, for_pytest)}
    if not alone:
        return
    ours, theirs = _apart(alone, for_pytest)
    moved = itertools.chain.from_iterable(ours)
    line = [PROGRAM, *own, *moved, "--pytest", *theirs, *([] if dashed is None else ["--", *dashed])]
    raise UsageError(f"options of bisect-torch stand before --pytest: {', '.join(alone)}", hint=shlex.join(line))


def _apart(actions: Mapping[str, argparse.Action], words: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """Options of ours, each with its value, and the other words."""
    ours: list[list[str]] = []
    theirs: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        name, joined, _ = word.partition("=")
        action = actions.get(name)
        if action is None or (name in PYTEST_HAS_TOO and not (name == "-o" and left and "=" not in left[0])):
            theirs.append(word)
            continue
        bare = joined or action.nargs == 0 or not left or left[0].startswith("-")
        bare = bare or (action.nargs == "?" and os.path.exists(left[0]))
        ours.append([word] if bare else [word, left.pop(0)])
    return ours, theirs


def _may_bring_plugins(own: Sequence[str]) -> bool:
    """Whether pytest may have more options than its own: by ``--with pytest-…``, or in a local interpreter."""
    return any(
        "pytest" in word or (os.sep in word and "--versions" in (before, word.partition("=")[0]))
        for before, word in itertools.pairwise(["", *own])
    )


def _declared(name: str, words: Sequence[str]) -> bool:
    """Whether a file of the project gives pytest an option of this name."""
    from bisect_torch.cases.pytest_suite import declares

    return declares(name, words, Path.cwd())

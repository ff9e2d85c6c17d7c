"""A command after ``--``: one case, and the files that decide what it does."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bisect_torch.cases.discovered import Discovered
from bisect_torch.cases.imports import local_modules, read_module, sha256
from bisect_torch.errors import UsageError
from bisect_torch.model import Case, CaseFile, CaseKind, Instance

_HASHED_BYTES = 64 << 20


def read_command(command: Sequence[str]) -> Discovered:
    """The one case of a command.

    The files among its words decide as much as the words, and so do the modules that a script among them imports:
    editing one must run the command again.
    """
    words = [str(word) for word in command]
    named = {word: Path(word) for word in words[1:] if os.path.isfile(word)}  # a program's text may be too long a name
    small = {word: sha256(path) for word, path in named.items() if path.stat().st_size <= _HASHED_BYTES}
    file = CaseFile(
        path=Path.cwd(),
        sha256=hashlib.sha256(json.dumps(words).encode()).hexdigest(),
        kind=CaseKind.COMMAND,
        local_modules={**dict(_code(words)), **small},
    )
    case = Case(file=file, name=_command_name(words), argv=tuple(words))
    return Discovered(file, (case,), (Instance(case),))


def _code(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Path from the working directory and SHA-256 of every module that the command is seen to run."""
    for word in words[1:]:
        if word.endswith(".py") and os.path.isfile(word):
            yield from _imported(_read_or_nothing(Path(word)), Path(word).parent)
    for option, name in itertools.pairwise(words):
        if option == "-m" and all(map(str.isidentifier, name.split("."))):
            # Python looks in the working directory first.
            run = ast.Import(names=[ast.alias(name=name), ast.alias(name=f"{name}.__main__")])
            yield from _imported(ast.Module(body=[run], type_ignores=[]), Path())


def _imported(module: ast.Module, folder: Path) -> Iterator[tuple[str, str]]:
    found = local_modules(folder / "command", module, folder, _read_or_nothing)
    yield from ((path.as_posix(), sha256(path)) for path in found)


def _read_or_nothing(path: Path) -> ast.Module:
    """What Python cannot read imports nothing: the command itself will say so, perhaps with a newer Python."""
    try:
        return read_module(path)
    except UsageError:
        return ast.Module(body=[], type_ignores=[])


def called(command: Discovered, name: str) -> Discovered:
    """A command under the name that earlier results have for it: names were given otherwise once."""
    (case,) = (replace(each, name=name) for each in command.cases)
    return replace(command, cases=(case,), instances=(replace((command.instances or ())[0], case=case),))


def together(commands: Sequence[Discovered]) -> Discovered:
    """Several commands of one working directory as one: each instance has the words of its own."""
    cases = tuple(case for one in commands for case in one.cases)
    return replace(commands[0], cases=cases, instances=tuple(each for one in commands for each in one.instances or ()))


def _command_name(words: Sequence[str]) -> str:
    """The stem of the first script among the words, the module after ``-m``, else the stem of the first word.

    ``python`` is what most commands begin with: it tells none from another.
    """
    for place, word in enumerate(words):
        if Path(word).suffix in (".py", ".sh") and not word.startswith("-"):
            return Path(word).stem
        if word == "-m" and words[place + 1 :]:
            return words[place + 1]
        if word in ("-c", "--"):
            break
    return Path(words[0]).stem or words[0]

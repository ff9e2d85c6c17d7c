"""The case files of earlier results, found again and compared with what they were."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from bisect_torch.cases.imports import sha256
from bisect_torch.errors import UsageError
from bisect_torch.model import FileRead
from bisect_torch.shipped import shipped
from bisect_torch.worker.beside import ABSENT, CHANGED, Contents


@dataclass(frozen=True)
class Remembered:
    """A case file, script or command as results remember it.

    Args:
        name: As the results call it: a path relative to the folder of that run, or just the file's name.
        sha256: Of its bytes; of a command, of its words.
        modules: Relative path to SHA-256 of the neighbours that it imported.
        read: Relative path to what it read beside itself. What changed while it ran may be anything now.
        words: The words of the command lines whose runs used it; what stood after ``--`` is :attr:`commands`.
        commands: The words after ``--`` of those lines.
    """

    name: str
    sha256: str
    modules: Mapping[str, str]
    read: Mapping[str, FileRead] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Located:
    """Where it is now.

    Args:
        path: None where it is gone; for a command the working directory.
        command: Its words; empty for a file.
        problem: Empty where it is as it was; else what is not: ``is gone``, ``has changed``.
    """

    remembered: Remembered
    path: Path | None
    command: tuple[str, ...] = ()
    problem: str = ""


def locate(remembered: Remembered, *, named: Iterable[Path], folders: Sequence[Path]) -> Located:
    """Find it: among the files that the user names, then below ``folders``, where the earlier line named it, among the
    shipped cases. One that is as it was comes first, wherever it lies.

    Args:
        named: Files of the user's choice; one with the same name is taken and nothing else is looked at.
        folders: Where relative paths are tried, in this order.
    """
    for words in remembered.commands:
        if hashlib.sha256(json.dumps(list(words)).encode()).hexdigest() == remembered.sha256:
            return Located(remembered, Path.cwd(), words)
    own = [path for path in named if path.name == PurePath(remembered.name).name]
    found = [path.resolve() for path in own or _places(remembered, folders) if path.is_file()]
    problems = {path: _difference(path, remembered) for path in dict.fromkeys(found)}
    for path, problem in problems.items():
        if not problem:
            return Located(remembered, path)
    if not problems:
        return Located(remembered, None, problem="is gone")
    path, problem = next(iter(problems.items()))
    return Located(remembered, path, problem=problem)


def _places(remembered: Remembered, folders: Sequence[Path]) -> Iterator[Path]:
    name = PurePath(remembered.name).name
    for folder in folders:
        yield folder / remembered.name
    for word in remembered.words:
        for folder in folders:
            path = folder / word
            if path.name == name:
                yield path
            elif path.is_dir():
                yield path / name
    try:
        yield shipped("cases") / name
    except FileNotFoundError:
        return


def _difference(path: Path, remembered: Remembered) -> str:
    try:
        if sha256(path) != remembered.sha256:
            return "has changed"
        for module, digest in remembered.modules.items():
            beside = path.parent / module
            if not beside.is_file():
                return f"has changed: {module}, which it imports, is gone"
            if sha256(beside) != digest:
                return f"has changed: {module}, which it imports, is another"
        contents = Contents()
        for name, read in remembered.read.items():
            now = contents.of(str(path.parent / name))
            if now == ABSENT:
                return f"has changed: {name}, which it reads, is gone"
            if read.what != CHANGED and not read.is_as(now):
                return f"has changed: {name}, which it reads, is another"
    except UsageError as problem:
        return f"cannot be read: {problem.message}"
    return ""

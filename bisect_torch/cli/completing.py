"""What stands behind the TAB key: the words that fit where the cursor is. Loaded only when a shell asks."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import argcomplete
from argcomplete.completers import DirectoriesCompleter, FilesCompleter
from argcomplete.lexers import split_line

from bisect_torch.cli.arguments import DEVICE_KINDS, LOCKS
from bisect_torch.cli.commands import COMMANDS
from bisect_torch.cli.parser import build_parser
from bisect_torch.errors import BisectTorchError

Completer = Callable[..., Iterable[str]]
"""Takes ``prefix`` and ``parsed_args`` by name; words that do not begin with the prefix are left out later."""

BACKENDS = ("pypi", "auto", "cpu", "cu126", "cu128", "cu130", "xpu", "rocm")


def complete() -> None:
    """Answer the shell, and end the process. Returns where no shell has asked."""
    words = _words(os.environ.get("COMP_LINE", ""))
    foreign = any(mark in words for mark in ("--", "--pytest"))
    parser = _any_files() if foreign else _completed_parser(words)
    argcomplete.autocomplete(parser, always_complete_options=False)


def _words(line: str) -> list[str]:
    """The words before the cursor, without the program and without the one that is being typed."""
    point = os.environ.get("COMP_POINT", "")
    _, _, _, before, _ = split_line(line, int(point) if point.isdigit() else None)
    return list(before[1:])


def _any_files() -> argparse.ArgumentParser:
    """For the words of another program, which stand behind ``--`` and ``--pytest``."""
    parser = argparse.ArgumentParser(add_help=False, prefix_chars="\0")
    _set(parser.add_argument("words", nargs="*"), FilesCompleter())
    return parser


def _completed_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The program's parser with the command that is named, and what completes each of its values."""
    named = next((word for word in words if not word.startswith("-")), "")
    chosen = next((command for command in COMMANDS if command[0] == named), None)
    parser = build_parser(chosen)[0]
    for each in _parsers(parser):
        # A line that is not finished is no mistake: argcomplete takes this exit as the end of what can be read.
        each.error = _stop  # type: ignore[method-assign]
        for action in each._actions:
            _set(action, _completer(action, named))
    return parser


def _stop(message: str) -> NoReturn:
    raise SystemExit(2)


def _set(action: argparse.Action, completer: Completer | None) -> None:
    if completer is not None:
        action.completer = completer  # type: ignore[attr-defined]


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for nested in action.choices.values():
                yield from _parsers(nested)


def _completer(action: argparse.Action, command: str) -> Completer | None:
    """By the option, else by the word that stands for its value in ``--help``; None leaves it to argcomplete."""
    if action.choices is not None or action.nargs == 0:
        return None
    if command == "envs" and action.dest in ("version", "versions"):
        return _built
    if action.dest in ("case", "cases") and command != "bisect":
        return _case_names
    for name in (*action.option_strings, str(action.metavar)):
        if name in _BY_NAME:
            return _BY_NAME[name]
    return _nothing


def _nothing(**_: object) -> tuple[str, ...]:
    """For a number, an address, a name: files, which are offered where nothing else is said, would mislead."""
    return ()


def _listed(words: Callable[[], Iterable[str]]) -> Completer:
    """Completes the last of several words between commas."""

    def complete(prefix: str, **_: object) -> list[str]:
        before = prefix.rpartition(",")[0]
        taken = before.split(",")
        return [f"{before},{word}" if before else word for word in words() if word not in taken]

    return complete


def _releases() -> list[str]:
    from bisect_torch.releases import load_catalogue

    return [release.version for release in load_catalogue()]


def _pythons() -> list[str]:
    from bisect_torch.releases.index import known_pythons

    return list(known_pythons())


def _suites() -> list[str]:
    from bisect_torch.cases.suites import SUITES

    return list(SUITES)


def _built(**_: object) -> list[str]:
    """Versions of the environments that are there, by the names of their folders."""
    from bisect_torch.environments.store import Store, default_root

    return sorted({path.name.partition("-py")[0] for path in Store(default_root()).envs.glob("*-py*")})


def _case_names(parsed_args: argparse.Namespace, prefix: str, **_: object) -> list[str]:
    """Cases of the results file that stands before; instances once the name of a case is whole."""
    from bisect_torch.results.names import instance_names

    try:
        names = instance_names(Path(parsed_args.results))
    except (BisectTorchError, AttributeError, TypeError):  # no such file, or none named yet: nothing to complete
        return []
    cases = dict.fromkeys(name.partition("[")[0] for name in names)
    whole = [name for name in names if "[" in prefix or name.partition("[")[0] == prefix]
    return [*cases, *whole]


_RESULTS = FilesCompleter(("parquet",))
_PYTHON_FILES = FilesCompleter(("py",))

_BY_NAME: dict[str, Completer] = {
    "--good": _listed(lambda: [*_releases(), "nightly"]),
    "--bad": _listed(lambda: [*_releases(), "nightly"]),
    "--nightly": _listed(lambda: ("latest", "test")),
    "--versions": _listed(lambda: [*_releases(), "nightly", "test"]),
    "--exclude": _listed(_releases),
    "--suite": _listed(_suites),
    "--device": _listed(lambda: DEVICE_KINDS),
    "--locks": _listed(lambda: LOCKS),
    "--torch-backend": _listed(lambda: BACKENDS),
    "--find-links": DirectoriesCompleter(),
    "VERSION": _listed(_releases),
    "X.Y": _listed(_pythons),
    "RESULTS": _RESULTS,
    "A": _RESULTS,
    "B": _RESULTS,
    "OUT": _RESULTS,
    "CASE": _PYTHON_FILES,
    "FILE": FilesCompleter(),
    "REPORT": FilesCompleter(),
    "FOLDER": DirectoriesCompleter(),
    "CHECKOUT": DirectoriesCompleter(),
}

"""The command that runs one cell again: put together in the page from what its run, its row and its build add. Pure."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from bisect_torch.model import BuildKind, Observation
from bisect_torch.report.text import clean

_SPLIT = re.compile(r"[\s()]+")
_OPERATORS = frozenset({"and", "or", "not"})
_TAILS = ("--pytest", "--")


def command_parts(observation: Observation, run: Mapping[str, Any]) -> str:
    """What the run adds: program, files and conditions, a line feed, and what follows at the end of the line.

    Args:
        run: The manifest of the run that made the observation; empty when it is not known.
    """
    words = [str(word) for word in run.get("arguments") or ()]
    place = next((place for place, word in enumerate(words) if word in _TAILS), len(words))
    tail = words[place:]
    head = ["bisect-torch", "run", *([] if tail else [observation.case_file])]
    asked = _asked(tuple(words[:place]))
    for name in ("extras", "editable"):
        option = "--with" if name == "extras" else "--with-editable"
        head += [f"{option}={value}" for value in getattr(asked, name)]
    head += _conditions(observation, run, asked)
    return f"{_line(head)}\n{_line(tail)}"


def _conditions(observation: Observation, run: Mapping[str, Any], asked: argparse.Namespace) -> Sequence[str]:
    """What the cell ran under, where it is not the default."""
    local = observation.build_kind == BuildKind.LOCAL.value
    python = ".".join((observation.python or "").split(".")[:2])
    options = {
        "--python": None if local else python or None,
        "--torch-backend": None if observation.backend in (None, "pypi", "local") else observation.backend,
        "--locks": asked.locks,
        "--device": None if observation.device == "cpu" else observation.device,
        "--threads": run.get("threads"),
        "--timeout": _plain(run.get("timeout_s", observation.timeout_s)),
        "--isolation": asked.isolation,
        "--seed": run.get("seed") or None,
        "--bad-if-output": asked.bad_if_output,
        "--max-memory": asked.max_memory,
    }
    words = [f"{option}={value}" for option, value in options.items() if value is not None]
    return [*words, *(["--thorough"] if run.get("thorough") else [])]


def _plain(number: object) -> object:
    return f"{number:g}" if isinstance(number, float) else number


@cache
def _asked(words: tuple[str, ...]) -> argparse.Namespace:
    """Those options of a run's command line that stand nowhere else in its results."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--with", dest="extras", action="append", default=[])
    parser.add_argument("--with-editable", dest="editable", action="append", default=[])
    for option in ("--isolation", "--locks", "--bad-if-output", "--max-memory"):
        parser.add_argument(option)
    try:
        return parser.parse_known_args(list(words))[0]
    except argparse.ArgumentError:  # a manifest that no run wrote
        return parser.parse_args([])


def build_part(name: str, kind: BuildKind) -> str:
    """The words that choose a build."""
    option = "--nightly" if kind is BuildKind.NIGHTLY else "--versions"
    nightly = re.search(r"\.dev(\d{4})(\d\d)(\d\d)", name) if kind is BuildKind.NIGHTLY else None
    return _line([f"{option}={'-'.join(nightly.groups()) if nightly else name}"])


def instance_part(instance: str, *, command: bool = False) -> str:
    """The words that choose an instance; ``-k`` knows neither spaces nor parentheses, so what stands between must fit.

    Args:
        command: A command or pytest's own choice: nothing is chosen.
    """
    words = [word for word in _SPLIT.split(instance) if word and word not in _OPERATORS]
    return "" if command or not words else _line(["-k", " and ".join(words)])


def _line(words: Sequence[str]) -> str:
    return clean(shlex.join(words))

"""The command that runs cells again, from the line of the run that made them. Pure.

A page puts it together from what the run, the build and the row of a cell add.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import PurePath
from typing import Any

from bisect_torch.cases.suites import SUITES
from bisect_torch.model import DEFAULT_TIMEOUT_S, BuildKind, Observation
from bisect_torch.report.rerun_tests import words_for
from bisect_torch.report.retyped import named_file, named_folder, not_an_option, shell_line, typed

_CARRIED = ("--with", "--with-editable", "--locks", "--isolation", "--bad-if-output", "--seed", "--max-memory")
"""Options of the earlier line that decide what runs; each takes a value."""

_DEFAULT_RESULTS = "results.parquet"

_CHOSEN_HERE = (f"--timeout={DEFAULT_TIMEOUT_S:g}", f"--python={sys.version_info[0]}.{sys.version_info[1]}")
"""What a run takes where nothing is said: of Pythons the one that runs the tool, where the whole range has it."""

_SPLIT = re.compile(r"[\s()]+")
_ONE_WORD = re.compile(r"[^\s()\[\]]+(?:\[[^\[\]]*\])?")
_OPERATORS = frozenset({"and", "or", "not"})
_NIGHTLY = re.compile(r"\.dev(\d{4})(\d\d)(\d\d)")


def words_of(run: Mapping[str, object]) -> list[str]:
    """The words of a run's command line, as its manifest has them."""
    words = run.get("arguments")
    return [str(word) for word in words] if isinstance(words, list) else []


def split_words(words: list[str]) -> tuple[list[str], list[str]]:
    """The tool's own words, and those of a command or of pytest with the sign before them."""
    places = [words.index(sign) for sign in ("--", "--pytest") if sign in words]
    place = min(places, default=len(words))
    return words[:place], words[place:]


def carried(words: Sequence[str]) -> list[str]:
    """Those of the tool's own words that decide what runs, beside files and builds."""
    kept: list[str] = []
    for place, word in enumerate(words):
        option, _, value = word.partition("=")
        if word in _CARRIED and place + 1 < len(words):
            kept += [word, typed(words[place + 1])]
        elif option in _CARRIED and typed(value) != value:  # a shell knows ~ at the beginning of a word only
            kept += [option, typed(value)]
        elif (word != option and option in _CARRIED) or word == "--thorough":
            kept.append(word)
    return kept


def run_part(observation: Observation, run: Mapping[str, Any], *, implied: Container[str] = ()) -> str:
    """What the run adds: program, files and conditions, a line feed, and what follows at the end of the line.

    Args:
        run: The manifest of the run that made the observation; empty when it is not known.
        implied: Options with their values that go without saying.
    """
    own, tail = split_words(words_of(run))
    chosen: list[str] = []
    if tail[:1] == ["--pytest"]:
        chosen, tail = words_for([(observation.case_file, observation.instance)], tail)
    conditions = [each for each in _conditions(observation, run) if each not in implied]
    head = ["bisect-torch", "run", *([] if tail else [what_ran(observation, own)]), *conditions]
    return f"{shell_line([*head, *carried(own), *chosen])}\n{shell_line(map(typed, tail))}"


def range_line(
    observation: Observation, run: Mapping[str, Any], first: str, last: str, results: PurePath | None = None
) -> str:
    """The line that runs what a run ran on all releases from ``first`` to ``last``. What a run here takes where nothing
    is said is not named.

    Args:
        results: The file that has the ends already.
    """
    head, _, tail = run_part(observation, run, implied=_CHOSEN_HERE).partition("\n")
    where = [] if results is None or (path := typed(str(results))) == _DEFAULT_RESULTS else ["-o", path]
    return " ".join(filter(None, [head, shell_line(["--from", first, "--to", last, *where]), tail]))


def what_ran(observation: Observation, own: Sequence[str]) -> str:
    """The word that names the case file where the run was started: its path, or the option for the suite of shipped
    cases by which it was chosen.

    Args:
        own: The tool's own words of that run; empty where they are not known.
    """
    file = observation.case_file
    suites = [name for name, patterns in SUITES.items() if any(fnmatch(PurePath(file).name, each) for each in patterns)]
    asked = {name for word in own for name in word.removeprefix("--suite=").split(",")}
    chosen = [name for name in suites if name in asked]
    named = named_file(file, own) or (None if chosen else named_folder(file, own))
    if named is not None:
        return named
    if suites and own:
        return f"--suite={[*chosen, *suites][0]}"
    return PurePath(file).name if PurePath(file).is_absolute() else not_an_option(file)


def _conditions(observation: Observation, run: Mapping[str, Any]) -> list[str]:
    """What the cell ran under, where it is not the default."""
    local = observation.build_kind == BuildKind.LOCAL.value
    timeout = run.get("timeout_s", observation.timeout_s)
    options = {
        "--python": None if local or not observation.python else ".".join(observation.python.split(".")[:2]),
        "--torch-backend": None if observation.backend in (None, "pypi", "local") else observation.backend,
        "--device": None if observation.device == "cpu" else observation.device,
        "--threads": run.get("threads"),
        "--timeout": f"{timeout:g}" if isinstance(timeout, (int, float)) else None,
    }
    return [f"{option}={value}" for option, value in options.items() if value is not None]


def rows_again(observations: Sequence[Observation], run: Mapping[str, Any], builds: Sequence[str]) -> str:
    """The line that runs the rows of case files again on these builds, without where results go.

    Args:
        observations: One of each row, the first made by ``run``, under whose conditions all run again.
    """
    own, _ = split_words(words_of(run))
    files = dict.fromkeys(what_ran(each, own) for each in observations)
    cases = dict.fromkeys(each.case for each in observations)
    line = ["bisect-torch", "run", *files, "-k", " or ".join(cases), "--versions", ",".join(builds)]
    return shell_line([*line, *_conditions(observations[0], run), *carried(own)])


def build_part(name: str, kind: BuildKind) -> str:
    """The words that choose a build."""
    nightly = _NIGHTLY.search(name) if kind is BuildKind.NIGHTLY else None
    return shell_line([f"--nightly={'-'.join(nightly.groups())}" if nightly else f"--versions={name}"])


def instance_part(instance: str) -> str:
    """The words that choose an instance.

    ``-k`` takes a name with its parameters as it is. Where lists stand among these, or blanks and parentheses
    elsewhere, what stands between must fit.
    """
    if _ONE_WORD.fullmatch(instance):
        return shell_line(["-k", instance])
    words = [word for word in _SPLIT.split(instance) if word and word not in _OPERATORS]
    return shell_line(["-k", " and ".join(words)]) if words else ""

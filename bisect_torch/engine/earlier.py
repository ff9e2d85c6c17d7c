"""What an earlier results file says of every row at its newest build, and how its cells ran, to run them again."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bisect_torch import analysis, cases
from bisect_torch.analysis.rechecking import is_bad, newest_judged
from bisect_torch.cases.locating import Located, Remembered, locate
from bisect_torch.errors import UsageError
from bisect_torch.model import DEFAULT_TIMEOUT_S, Build, Environment, FileRead, Observation, Point, beside
from bisect_torch.redaction import Private
from bisect_torch.results import ResultsFile, how_to_make
from bisect_torch.results.recalled import recalled_builds, recalled_environments

Row = analysis.Row


@dataclass(frozen=True)
class Conditions:
    """How the cells ran then.

    Args:
        backend: None where all ran in local interpreters.
        python: Minor version.
        pass_env: Secrets that the cells saw, by name. They are not taken over: a file never decides what a case sees.
    """

    devices: tuple[str, ...] = ("cpu",)
    timeout_s: float = DEFAULT_TIMEOUT_S
    threads: int | None = None
    seed: int = 0
    thorough: bool = False
    extras: tuple[str, ...] = ()
    editable: tuple[Path, ...] = ()
    locks: str = "release"
    isolation: str | None = None
    bad_if_output: str | None = None
    backend: str | None = None
    python: str | None = None
    pass_env: tuple[str, ...] = ()


@dataclass(frozen=True)
class Earlier:
    """The newest judged verdict of every row.

    Args:
        points: Row to its newest judged point, rows in the order of the results.
        files: Row to where its case file is now.
        never_judged: Rows without any.
        notes: What the user should know.
        sources: SHA-256 to the text that ran.
    """

    builds: tuple[Build, ...]
    environments: Mapping[str, Environment]
    points: Mapping[Row, Point]
    observations: Mapping[Row, tuple[Observation, ...]]
    files: Mapping[Row, Located]
    conditions: Conditions
    never_judged: tuple[Row, ...] = ()
    notes: tuple[str, ...] = field(default=())
    sources: Mapping[str, str] = field(default_factory=dict)

    def bad(self) -> tuple[Row, ...]:
        """Rows that were bad or flaky."""
        return tuple(row for row, point in self.points.items() if is_bad(point))


def read_earlier(results: ResultsFile, named: Iterable[Path], select: str | None = None) -> Earlier:
    """Read it; nothing is run.

    Args:
        named: Case files that the user names, for those that lie elsewhere now.
        select: The expression of ``-k``; rows that do not fit it take no part.

    Raises:
        UsageError: There are no results in it, or the expression fits no row.
    """
    observations = results.observations()
    if not observations:
        raise UsageError(f"{results.path} holds no results yet", hint=how_to_make(results.path))
    environments = recalled_environments(results.runs)
    builds = recalled_builds(observations, environments, results.runs)
    names = [build.name for build in builds]
    points: dict[Row, Point] = {}
    never = []
    every = analysis.PlannedOrder(results.runs).sorted(analysis.build_series(observations, names))
    for series in every if select is None else cases.fitting(every, select):
        row = (series.case_file, series.instance, series.device)
        point = newest_judged(series)
        if point is None:
            never.append(row)
        else:
            points[row] = point
    seen = _at(points, analysis.counted(observations))
    own = [each for group in seen.values() for each in group]
    conditions, notes = _conditions(results.runs, own, results.private)
    folders = tuple(dict.fromkeys([Path.cwd(), results.path.absolute().parent]))
    remembered = _remembered(seen, results.runs, results.private)
    located = {each: locate(one, named=named, folders=folders) for each, one in remembered.items()}
    files = {row: located[_source(row, group)] for row, group in seen.items()}
    notes = (*results.problems, *notes)
    return Earlier(builds, environments, points, seen, files, conditions, tuple(never), notes, results.sources)


def _at(points: Mapping[Row, Point], observations: Iterable[Observation]) -> dict[Row, tuple[Observation, ...]]:
    found: dict[Row, list[Observation]] = {row: [] for row in points}
    for each in observations:
        row = (each.case_file, each.instance, each.device)
        if row in points and each.build_name == points[row].build:
            found[row].append(each)
    return {row: tuple(group) for row, group in found.items()}


_Source = tuple[str, str]


def _source(row: Row, group: Sequence[Observation]) -> _Source:
    """The same for all rows of a case file; commands of one folder have its name, and a hash each."""
    return row[0], group[-1].case_file_hash if row[0] == "." else ""


def _remembered(
    seen: Mapping[Row, Sequence[Observation]], runs: Iterable[Mapping[str, object]], private: Private
) -> dict[_Source, Remembered]:
    lines = {str(run["run_id"]): _words(run, private) for run in runs}
    by_source: dict[_Source, list[Observation]] = {}
    for row, group in seen.items():
        by_source.setdefault(_source(row, group), []).extend(group)
    found = {}
    for source, group in by_source.items():
        used = [lines[run] for run in dict.fromkeys(each.run_id for each in group) if run in lines]
        words = [private.expand(source[0]), *(word for line, _ in used for word in line)]
        modules: dict[str, str] = {}
        read: dict[str, FileRead] = {}
        for each in group:
            found_there = beside(each.local_modules)
            modules.update(found_there.modules)
            read.update((private.expand(name), file) for name, file in found_there.read.items() if file.is_input)
        found[source] = Remembered(
            name=source[0],
            sha256=group[-1].case_file_hash,
            modules=modules,
            read=read,
            words=tuple(dict.fromkeys(word for word in words if not word.startswith("-"))),
            commands=tuple(dict.fromkeys(command for _, command in used if command)),
        )
    return found


def command_lines(runs: Iterable[Mapping[str, Any]], private: Private) -> tuple[tuple[str, ...], ...]:
    """The words after ``--`` of these runs."""
    return tuple(dict.fromkeys(words for run in runs if (words := _words(run, private)[1])))


def _words(run: Mapping[str, Any], private: Private) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of a command line before and after ``--``, with this machine's folders where theirs were."""
    words = [private.expand(str(word)) for word in run.get("arguments") or ()]
    place = words.index("--") if "--" in words else len(words)
    return tuple(words[:place]), tuple(words[place + 1 :])


def _conditions(
    runs: Iterable[Mapping[str, Any]], observations: Sequence[Observation], private: Private
) -> tuple[Conditions, tuple[str, ...]]:
    """Those of the newest run that saw one of these cells; a note where others ran otherwise."""
    used = {each.run_id for each in observations}
    taking_part = [run for run in runs if run.get("run_id") in used]
    devices = tuple(dict.fromkeys(each.device for each in observations)) or ("cpu",)
    backends = [each.backend for each in observations if each.backend not in (None, "local")]
    pythons = [each.python for each in observations if each.python]
    python = ".".join(pythons[-1].split(".")[:2]) if pythons else None
    found = [conditions_of(run, private) for run in taking_part] or [Conditions()]
    newest = found[-1]
    notes: tuple[str, ...] = ()
    if any(each != newest for each in found):
        notes = ("the earlier results were made under several conditions; those of the newest run are taken",)
    conditions = Conditions(
        **{**vars(newest), "devices": devices, "backend": backends[-1] if backends else None, "python": python}
    )
    return conditions, notes


def conditions_of(run: Mapping[str, Any], private: Private) -> Conditions:
    """How a run ran its cells, as its manifest tells."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--with", dest="extras", action="append", default=[])
    parser.add_argument("--with-editable", dest="editable", action="append", default=[], type=Path)
    parser.add_argument("--locks", default="release")
    parser.add_argument("--isolation")
    parser.add_argument("--bad-if-output")
    line, _ = parser.parse_known_args(list(_words(run, private)[0]))
    return Conditions(
        timeout_s=float(run.get("timeout_s") or Conditions.timeout_s),
        threads=run.get("threads"),
        seed=int(run.get("seed") or 0),
        thorough=bool(run.get("thorough")),
        extras=tuple(line.extras),
        editable=tuple(line.editable),
        locks=line.locks,
        isolation=line.isolation,
        bad_if_output=line.bad_if_output,
        pass_env=tuple(str(name) for name in run.get("pass_env") or ()),
    )

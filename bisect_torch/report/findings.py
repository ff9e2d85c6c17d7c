"""What a report is made from. Every format is a pure function of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from bisect_torch.analysis.columns import ROW, Columns, telling
from bisect_torch.analysis.series import alike
from bisect_torch.model import Build, Environment, Observation, Series, Transition, Verdict
from bisect_torch.releases.commits import Origin, origin_of
from bisect_torch.report.files import short_names

if TYPE_CHECKING:
    from bisect_torch.analysis import Tolerances
    from bisect_torch.analysis.causes import Cause
    from bisect_torch.report.beside import Unlike
    from bisect_torch.report.earlier_texts import EarlierText


@dataclass(frozen=True)
class Findings:
    """The judged results of a run, or of a results file judged again.

    Args:
        builds: In column order.
        environments: Build name to environment, for those that have one.
        series: One for each instance and device.
        transitions: As found by the analysis.
        observations: For digests and for what was seen at the ends of transitions; without them neither is told.
        results: Where the results are.
        continue_with: The command line that goes on where this run stopped.
        interrupted: The user stopped it.
        twins: Of each build that also ran with today's dependencies, the series over it and that variant.
        known_releases: Releases that exist, in order, to tell which of them did not take part.
        seconds: How long it took; None for results that are only judged again.
        ran: Cells of these series that ran in that time, once or more; None where it is not known.
        origins: Build name to what its commit is, where more is known than the kind of the build tells.
        runs: Manifest of every run that the results file holds, oldest first.
        unread: A sentence for each file of a folder that could not be read, and so took no part.
        unknown: Names of builds that were asked for and could not be known, to the reason.
        tolerances: What the numbers were judged under, where that is not the criterion of then.
        sources: SHA-256 (``case_file_hash``, values of ``local_modules``) to the text that ran.
        earlier: What else the results file has of these rows, with a text or a command that is not the newest.
    """

    builds: tuple[Build, ...]
    environments: Mapping[str, Environment]
    series: tuple[Series, ...]
    transitions: tuple[Transition, ...]
    observations: Sequence[Observation] = ()
    results: Path | None = None
    continue_with: str | None = None
    interrupted: bool = False
    seconds: float | None = None
    notes: tuple[str, ...] = field(default=())
    known_releases: tuple[str, ...] = ()
    twins: tuple[Series, ...] = ()
    origins: Mapping[str, Origin] = field(default_factory=dict)
    runs: tuple[Mapping[str, object], ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    earlier: tuple[EarlierText, ...] = ()
    unread: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    tolerances: Tolerances | None = None
    ran: int | None = None

    @property
    def build_names(self) -> tuple[str, ...]:
        """In column order."""
        return tuple(build.name for build in self.builds)

    def commit(self, build: str) -> str | None:
        """Full hash of the commit that a build was made from, where known."""
        environment = self.environments.get(build)
        if environment is not None and environment.git_commit:
            return environment.git_commit
        return next((each.git_commit for each in self.builds if each.name == build), None)

    def build(self, name: str) -> Build | None:
        """The build of a column."""
        return next((each for each in self.builds if each.name == name), None)

    def origin(self, name: str) -> Origin | None:
        """What the commit of a build is; None where no commit is known."""
        build = self.build(name)
        if name in self.origins or build is None:
            return self.origins.get(name)
        return origin_of(build, self.commit(name))

    @cached_property
    def by_cell(self) -> Mapping[tuple[str, str, str, str], Sequence[Observation]]:
        """Case file, instance, device and build name to the observations of that cell."""
        cells: dict[tuple[str, str, str, str], list[Observation]] = {}
        for each in self.observations:
            cells.setdefault((each.case_file, each.instance, each.device, each.build_name), []).append(each)
        return cells

    def observed(self, series: Series, build: str) -> Sequence[Observation]:
        """The observations of one cell, in the order in which they were made."""
        if isinstance(self.observations, Columns):
            return self.observations.take(self.observations.cells_of(_row(series)).get(build, ()))
        return self.by_cell.get((series.case_file, series.instance, series.device, build), ())

    def all_observed(self) -> list[Observation]:
        """The observations of all cells: series after series, in each build after build."""
        columns = self.observations
        if not isinstance(columns, Columns):
            return [each for series in self.series for name in series.builds for each in self.observed(series, name)]
        cells = ((columns.cells_of(_row(series)), series.builds) for series in self.series)
        return list(columns.take([at for places, builds in cells for name in builds for at in places.get(name, ())]))

    def combinations(self, series: Series, names: Sequence[str]) -> Mapping[str, frozenset[int]]:
        """Build to numbers of the combinations of these fields that its observations have: cells with the same
        numbers have the same. Empty where it takes a look at the observations to know."""
        columns = self.observations
        if not isinstance(columns, Columns):
            return {}
        codes = columns.codes(names).of
        cells = columns.cells_of(_row(series))
        return {build: frozenset([codes[place] for place in places]) for build, places in cells.items()}

    def varying(self, names: Sequence[str]) -> Collection[tuple[str, str, str]] | None:
        """Case file, instance and device of the rows whose observations do not all agree in these fields; None where it
        takes a look at the observations to know."""
        columns = self.observations
        if not isinstance(columns, Columns):
            return None
        together = columns.first((*ROW, *names))
        numbers = columns.codes(ROW).of
        rows = list(columns.by_row.number)
        return {rows[number] for number, times in Counter(numbers[place] for place in together).items() if times > 1}

    def unlike(self, series: Series, before: str, after: str, names: Sequence[str]) -> Sequence[str]:
        """Those of these fields in which the observations of two cells may differ."""
        columns = self.observations
        if not isinstance(columns, Columns):
            return names
        cells = columns.cells_of(_row(series))
        places = [*cells.get(before, ()), *cells.get(after, ())]
        return [name for name in names if len({columns.codes((name,)).of[place] for place in places}) > 1]

    def facts(self, series: Series, build: str, names: Sequence[str]) -> list[tuple[object, ...]]:
        """These fields of the observations of one cell."""
        columns = self.observations
        if not isinstance(columns, Columns):
            return [tuple(getattr(each, name) for name in names) for each in self.observed(series, build)]
        values = [columns.values(name) for name in names]
        places = columns.cells_of(_row(series)).get(build, ())
        return [tuple(each[place] for each in values) for place in places]

    def distinct(self, name: str) -> list[object]:
        """The different values of a field of the observations, in the order in which they first occur."""
        return list(dict.fromkeys(getattr(each, name) for each in telling(self.observations, (name,))))

    def recorded(self, name: str) -> bool:
        """Whether some case may have recorded a fact of this name: whether it stands in what one recorded."""
        return any(f'"{name}"' in str(text) for text in self.distinct("measurements"))

    def holding(self, name: str, pattern: re.Pattern[str]) -> Sequence[Observation]:
        """The observations in which something in a text matches."""
        columns = self.observations
        if not isinstance(columns, Columns):
            texts = {getattr(each, name) or "" for each in columns}
            found = {text for text in texts if pattern.search(text)}
            return [each for each in columns if (getattr(each, name) or "") in found]
        matching = {value for value in columns.distinct(name) if value and pattern.search(str(value))}
        values = columns.values(name) if matching else ()
        return columns.take([place for place, value in enumerate(values) if value in matching])

    @cached_property
    def several_devices(self) -> bool:
        """Whether a row is told by its device too."""
        return len({each.device for each in self.series}) > 1

    @cached_property
    def instances_of(self) -> Mapping[tuple[str, str, str], Sequence[str]]:
        """Case file, case and device to the names of all its instances."""
        found: dict[tuple[str, str, str], list[str]] = {}
        for each in self.series:
            found.setdefault((each.case_file, each.instance.partition("[")[0], each.device), []).append(each.instance)
        return found

    @cached_property
    def file_names(self) -> Mapping[str, str]:
        """Case file to as little of its path as tells it from the others."""
        return short_names(each.case_file for each in self.series)

    @cached_property
    def _in_several_files(self) -> frozenset[str]:
        """Names of cases that stand in more than one file."""
        cases = {(each.case_file, each.instance.partition("[")[0]) for each in self.series}
        return frozenset(name for name, number in Counter(name for _, name in cases).items() if number > 1)

    def case_of(self, series: Series) -> str:
        """The case's name, after that of its file where another file has a case of that name: ``a/cases.py::bmm``."""
        return self._told_apart(series.case_file, series.instance, series.instance.partition("[")[0])

    def name_of(self, series: Series) -> str:
        """The instance's name, after that of its file where another file has a case of that name."""
        return self.name_of_row(_row(series))

    def name_of_row(self, row: tuple[str, str, str]) -> str:
        """The same, of a row by its case file, instance and device."""
        return self._told_apart(row[0], row[1], row[1])

    def _told_apart(self, case_file: str, instance: str, name: str) -> str:
        if instance.partition("[")[0] not in self._in_several_files:
            return name
        return f"{self.file_names.get(case_file, case_file)}::{name}"

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """What there is to tell, grouped by likely cause, the most severe first."""
        from bisect_torch.analysis.causes import causes

        seen = self.observations
        explained = seen.with_value("explained_by") if isinstance(seen, Columns) else seen
        models = {(*_row(each), each.build_name): each.explained_by for each in explained if each.explained_by}
        return tuple(causes(self.series, models))

    @cached_property
    def unlike_files(self) -> Sequence[Unlike]:
        """Files beside a case file that may not have been the same for all cells of a row."""
        from bisect_torch.report.beside import unlike_files

        return unlike_files(self)

    def only(self, rows: Collection[Series]) -> Findings:
        """The same findings about these series alone."""
        chosen = {_row(each) for each in rows}
        cases = {(file, instance.partition("[")[0]) for file, instance, _ in chosen} if self.earlier else ()
        seen = self.observations
        return replace(
            self,
            series=tuple(each for each in self.series if _row(each) in chosen),
            transitions=tuple(each for each in self.transitions if _row(each.series) in chosen),
            observations=seen.of_rows(chosen)
            if isinstance(seen, Columns)
            else tuple(each for each in seen if _row(each) in chosen),
            twins=tuple(each for each in self.twins if _row(each) in chosen),
            earlier=tuple(each for each in self.earlier if (each.case_file, each.case) in cases),
        )

    @property
    def exit_code(self) -> int:
        """0: all is good at the newest build; 1: something is bad or flaky there; 3: something could not be judged
        there, a file could not be read, or a build that was asked for is not known; 130: interrupted. What skips says
        that it does not apply, and counts as neither."""
        if self.interrupted:
            return 130
        if self.unknown:
            return 3
        newest = [each.answers[-1] for each, _ in alike(self.series) if each.builds]
        newest += [each.answers[-1] for each in self.twins if each.builds[0] in self.build_names[-1:]]
        if any(point is not None and (point.flaky or point.judgement.verdict.bad) for point in newest):
            return 1
        applies = [point for point in newest if point is None or point.judgement.verdict is not Verdict.SKIP]
        judged = all(point is not None and point.judgement.verdict.judged for point in applies)
        return 0 if newest and judged and not self.unread else 3

    def left_out(self, before: str, after: str) -> tuple[str, ...]:
        """Known releases that lie between two releases, known or not, and did not take part."""
        first, last = _release(before), _release(after)
        if first is None or last is None:
            return ()
        versions = {name: _release(name) for name in self.known_releases if name not in self.build_names}
        return tuple(name for name, version in versions.items() if version is not None and first < version < last)

    def counts(self) -> Counter[Verdict]:
        """Cells of each verdict."""
        counts: Counter[Verdict] = Counter()
        for each, number in alike(self.series):
            for point in each.answers:
                if point is not None:
                    counts[point.judgement.verdict] += number
        return counts

    def not_run(self) -> int:
        """Cells without any observation."""
        return sum(number * sum(point is None for point in each.answers) for each, number in alike(self.series))

    def flaky(self) -> int:
        """Cells whose repeats differ."""
        return sum(
            number * sum(point is not None and point.flaky for point in each.answers)
            for each, number in alike(self.series)
        )


@lru_cache(maxsize=256)
def _release(name: str) -> Version | None:
    """The version of a release; None of a nightly, a candidate and an interpreter."""
    try:
        version = Version(name)
    except InvalidVersion:
        return None
    return None if version.is_prerelease or version.local else version


def _row(of: Series | Observation) -> tuple[str, str, str]:
    return of.case_file, of.instance, of.device

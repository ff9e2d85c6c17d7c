"""What is known about every cell of a run: earlier results that still hold, and what this run adds."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bisect_torch import analysis, cases, results
from bisect_torch.engine import host
from bisect_torch.engine.plan import CellRun, missing, natural_isolation, why_not
from bisect_torch.engine.request import RunRequest
from bisect_torch.model import (
    Build,
    BuildKind,
    CaseKind,
    Environment,
    Instance,
    Isolation,
    Judgement,
    Observation,
    Outcome,
    Series,
)

_COUNTS_FOR_NOTHING = frozenset(
    {Outcome.LOST.value, Outcome.ENVIRONMENT_BROKEN.value, Outcome.NOT_INSTALLED.value},
)
"""Outcomes that say nothing about the build: a later run tries such a cell again."""


class Ledger:
    """Identifies cells, recalls what earlier runs saw, records what this one sees.

    Args:
        request: The run.
        run_id: Marks this run's rows.
        can_fork: Whether workers may fork here.
    """

    def __init__(self, request: RunRequest, run_id: str, *, can_fork: bool) -> None:
        self._request = request
        self._run_id = run_id
        self._can_fork = can_fork
        self._file = results.ResultsFile.open(request.results)
        self._observations: dict[str, dict[int, Observation]] = defaultdict(dict)
        self._runs: dict[str, CellRun] = {}
        self._file_names = _display_names([item.file.path for item in request.discovered], request.working_directory)

    # --- which cells ------------------------------------------------------------------------------------------

    def cell_run(
        self, build: Build, instance: Instance, device: str, repeat: int, isolation: Isolation | None = None
    ) -> CellRun:
        """One repeat of a cell, with the key under which its results are kept."""
        case = instance.case
        natural = natural_isolation(case, self._request.isolation, self._can_fork)
        planned = self._request.plan[build.name]
        name, driver = host.device_identity(device)
        key = results.cell_key(
            build=build.name if build.kind is BuildKind.LOCAL else build.version,
            lock_hash=planned.lock_hash,
            python=planned.python_version,
            case_file_hash=case.file.sha256,
            local_modules=dict(case.file.local_modules),
            instance=instance.name,
            argv=case.argv,
            bad_if_output=case.bad_if_output,
            device=device,
            device_name=name,
            driver=driver,
            threads=self._request.threads,
            isolation=natural.value,
            timeout_s=case.timeout_s or self._request.timeout_s,
            machine=host.machine_class(),
        )
        run = CellRun(instance, build, device, repeat, isolation or natural, key)
        self._runs.setdefault(key, run)
        return run

    def cells(self, builds: Iterable[Build], instances: Sequence[Instance]) -> list[CellRun]:
        """Repeat 0 of every cell, rows within columns."""
        return [
            self.cell_run(build, instance, device, 0)
            for build in builds
            for instance in instances
            for device in self._request.devices
        ]

    def recall(self, cells: Iterable[CellRun]) -> list[Observation]:
        """Take over what earlier runs saw of these cells; nothing with ``fresh``."""
        kept = []
        for cell in cells:
            for observation in [] if self._request.fresh else self._file.lookup(cell.key):
                if observation.outcome not in _COUNTS_FOR_NOTHING:
                    self._observations[cell.key][observation.repeat] = observation
                    kept.append(observation)
        return kept

    def first_pass(self, cells: Iterable[CellRun]) -> tuple[CellRun, ...]:
        """The repeats of these cells that every run begins with and that are not known yet."""
        repeats = [
            dataclasses.replace(cell, repeat=repeat) for cell in cells for repeat in range(self._request.repeats)
        ]
        return missing(repeats, {key: frozenset(seen) for key, seen in self._observations.items()})

    def inapplicable(self, run: CellRun) -> str | None:
        """Why a case does not apply to this build, device or machine."""
        unmet = cases.unmet(run.instance.case, run.build.version)
        return why_not(run.instance.case, run.device, self._request.memory_bytes, unmet)

    # --- what happened ----------------------------------------------------------------------------------------

    def record(
        self, run: CellRun, environment: Environment | None, facts: Mapping[str, object]
    ) -> tuple[Observation, Judgement]:
        """Add the identity to a worker's facts, append the observation to the journal, and judge it."""
        observation = Observation(**{**facts, **self._identity(run, environment)})  # type: ignore[arg-type]
        self._file.append(observation)
        self._observations[run.key][run.repeat] = observation
        return observation, analysis.judge(observation)

    def _identity(self, run: CellRun, environment: Environment | None) -> dict[str, object]:
        case = run.instance.case
        planned = self._request.plan[run.build.name]
        name, driver = host.device_identity(run.device)
        return {
            "key": run.key,
            "run_id": self._run_id,
            "build": environment.torch_version.partition("+")[0] if environment else run.build.version,
            "build_name": run.build.name,
            "build_kind": run.build.kind.value,
            "local_version": environment.local_version if environment else None,
            "git_commit": environment.git_commit if environment else run.build.git_commit,
            "lock_hash": environment.lock_hash if environment else planned.lock_hash,
            "python": environment.python_version if environment else planned.python_version,
            "backend": environment.backend if environment else None,
            "cuda": environment.cuda if environment else None,
            "case_file": self._file_names[case.file.path],
            "case_file_hash": case.file.sha256,
            "case": case.name,
            "instance": run.instance.name,
            "parameters": json.dumps(dict(run.instance.parameters)),
            "issue": case.issue,
            "device": run.device,
            "device_name": name or None,
            "driver": driver or None,
            "repeat": run.repeat,
            "timeout_s": case.timeout_s or self._request.timeout_s,
            "machine": host.machine_class(),
            "started_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        }

    # --- what it means ----------------------------------------------------------------------------------------

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Of this run's cells: kept ones and new ones."""
        return tuple(observation for repeats in self._observations.values() for observation in repeats.values())

    def series(self) -> tuple[Series, ...]:
        """One for each instance and device, over the builds in column order."""
        return tuple(analysis.build_series(self.observations, [build.name for build in self._request.builds]))

    def confirmations(self) -> tuple[CellRun, ...]:
        """Further repeats that are wanted before any transition may be printed."""
        by_place = {
            (self._file_names[run.instance.case.file.path], run.instance.name, run.device, run.build.name): run
            for run in self._runs.values()
        }
        wanted = []
        for want in analysis.wanted_repeats(self.series(), self.observations):
            series = want.series
            run = by_place[(series.case_file, series.instance, series.device, want.build)]
            wanted.append(dataclasses.replace(run, repeat=want.repeat, isolation=self._isolation(run, want.isolation)))
        return tuple(wanted)

    def _isolation(self, run: CellRun, wanted: Isolation) -> Isolation:
        natural = natural_isolation(run.instance.case, self._request.isolation, self._can_fork)
        return Isolation.PROCESS if Isolation.PROCESS in (natural, wanted) else wanted

    def finish(self, manifest: Mapping[str, object]) -> None:
        """Write the Parquet file whole."""
        self._file.finish(manifest)


def is_case(run: CellRun) -> bool:
    """Whether the cell is a function in a case file, and not a script or command."""
    return run.instance.case.file.kind is CaseKind.CASE


def _display_names(paths: Sequence[Path], start: Path) -> dict[Path, str]:
    """How each file is called in results: relative to the working directory where it lies below it, else its name."""
    names = {}
    for path in paths:
        relative = os.path.relpath(path, start)
        names[path] = path.name if relative.startswith("..") else relative
    return names

"""What is known about every cell of a run: earlier results that still hold, and what this run adds."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bisect_torch import analysis, cases, environments, results
from bisect_torch.engine import host
from bisect_torch.engine.known import Known
from bisect_torch.engine.noted import noted
from bisect_torch.engine.plan import CellRun, Place, natural_isolation, time_limit_s, why_not
from bisect_torch.engine.request import RunRequest
from bisect_torch.engine.variables import Variables
from bisect_torch.model import (
    Build,
    CaseKind,
    Environment,
    Instance,
    Isolation,
    Judgement,
    Observation,
    Outcome,
    Series,
)


class Ledger:
    """Identifies cells, recalls what earlier runs saw of them, records what this one sees.

    A cell can be identified once its environment is known: from the environment itself, or from what an earlier run
    wrote about one with the same lock, so that nothing is built only to find that everything is known.

    Args:
        request: The run.
        run_id: Marks this run's rows.
        can_fork: Whether workers may fork where cells run.
        devices: What the devices of the run are there.
    """

    def __init__(self, request: RunRequest, run_id: str, *, can_fork: bool, devices: Mapping[str, host.Device]) -> None:
        self.file = request.file
        self._request = request
        self._run_id = run_id
        self._can_fork = can_fork
        self._devices = devices
        self._environments = {
            planned.build.name: environment
            for planned in request.plan.environments
            if (environment := planned.present or self._described(planned.build, planned.lock_hash, planned.python))
        }
        self._observations: dict[Place, dict[int, Observation]] = {}
        self._series: dict[tuple[object, ...], tuple[Series, ...]] = {}
        self._runs: dict[tuple[str, str, str, str], CellRun] = {}
        self._keys: dict[Place, str] = {}
        self._known = Known(request)
        self._numerics = environments.numerics_digest()
        self._variables = Variables(os.environ)
        self._file_names = display_names([item.file.path for item in request.discovered], request.working_directory)

    def _described(self, build: Build, lock_hash: str | None, python: str | None) -> Environment | None:
        """An environment that an earlier run described and that would come out the same."""
        name = self.file.private.redact(build.name)
        for run in reversed(self.file.runs):
            described = run.get("environments")
            for each in described if isinstance(described, list) else ():
                if each["build"] == name and lock_hash is not None and each["lock_hash"] == lock_hash:
                    environment = Environment.from_description(each, build)
                    if python is not None and environment.python_version.startswith(f"{python}."):
                        return environment
        return None

    def knows(self, build: Build) -> bool:
        """Whether the cells of a build can be identified."""
        return build.name in self._environments

    def know(self, environment: Environment) -> bool:
        """Identify the cells of a build by its environment. Gives whether that changes what was thought before."""
        name = environment.build.name
        before = self._environments.get(name)
        self._environments[name] = environment
        return before is None or before.identity != environment.identity

    @property
    def environments(self) -> Mapping[str, Environment]:
        """Build name to environment, present or described by an earlier run."""
        return self._environments

    @property
    def variables(self) -> Mapping[str, Mapping[str, str]]:
        """Which variables count for which case file: see :meth:`Variables.describe`."""
        return self._variables.describe()

    # --- which cells ------------------------------------------------------------------------------------------

    def cells(self, builds: Iterable[Build], instances: Sequence[Instance]) -> list[CellRun]:
        """Repeat 0 of every cell, rows within columns."""
        found = []
        for build in builds:
            for instance in instances:
                isolation = natural_isolation(instance.case, self._request.isolation, self._can_fork)
                for device in self._request.devices:
                    run = CellRun(instance, build, device, 0, isolation)
                    file, name, _ = self._row(run)
                    self._runs[file, name, device, build.name] = run
                    found.append(run)
        return found

    def _row(self, run: CellRun) -> tuple[str, str, str]:
        return (*self.row_of(run.instance), run.device)

    def row_of(self, instance: Instance) -> tuple[str, str]:
        """Case file and instance as results call them."""
        path = instance.case.file.path
        if path not in self._file_names:  # a file of tests, known only since pytest was asked
            self._file_names[path] = display_names([path], self._request.working_directory)[path]
        return self._file_names[path], instance.name

    def key(self, run: CellRun) -> str:
        """Under which the results of a cell are kept in this run, whatever becomes of the files that it reads."""
        return self._keys.get(run.place) or self._first_key(run)

    def _first_key(self, run: CellRun) -> str:
        """Of everything that is known of a cell before it was ever run."""
        device = self._devices[run.device]
        return results.cell_key(
            build=run.build,
            environment=self._environments.get(run.build.name),
            instance=run.instance,
            device=run.device,
            timeout_s=self._timeout_s(run),
            machine=device.machine,
            device_name=device.name,
            driver=device.driver,
            threads=self._request.threads,
            thorough=self._request.thorough,
            guard=self._request.guard,
            numerics=self._numerics,
            projects=[project.state for project in self._request.projects],
            pass_env=self._request.environment_options.pass_env,
            variables=self._variables.of(run.instance.case),
        )

    def _timeout_s(self, run: CellRun) -> float:
        return time_limit_s(run.instance, run.device, self._request.timeout_s)

    def recall(self, cells: Iterable[CellRun]) -> list[tuple[CellRun, Observation]]:
        """Take over what earlier runs saw of these cells. Nothing when the user wants them run again."""
        kept = []
        for cell in cells:
            self._keys.pop(cell.place, None)
            if self.knows(cell.build):
                first = self._first_key(cell)
                key, known = self._known.of(cell, first)
                if key != first:
                    self._keys[cell.place] = key
                kept += [(cell, self._remember(cell, each)) for each in ([] if self._request.fresh else known)]
        return kept

    @property
    def outlived(self) -> int:
        """How many cells run again because the file has newer results of them, of something else than this run's."""
        return len(self._known.outlived)

    @property
    def edited(self) -> tuple[str, ...]:
        """Files that are not what cells that could else be taken over have read beside their case files."""
        return self._known.edited

    def _remember(self, run: CellRun, kept: Observation) -> Observation:
        """Take over an observation as it is kept, under the names of this run: there, they may be redacted."""
        file, instance, _ = self._row(run)
        if (kept.case_file, kept.instance, kept.build_name) != (file, instance, run.build.name):
            kept = dataclasses.replace(kept, case_file=file, instance=instance, build_name=run.build.name)
        self._observations.setdefault(run.place, {})[kept.repeat] = kept
        self._series.clear()
        return kept

    def first_pass(self, cells: Iterable[CellRun]) -> list[CellRun]:
        """The repeats of these cells that every run begins with and that are not known yet."""
        return [
            dataclasses.replace(cell, repeat=repeat)
            for cell in cells
            for repeat in range(self._request.repeats)
            if repeat not in self._observations.get(cell.place, {})
        ]

    def inapplicable(self, run: CellRun) -> str | None:
        """Why a case does not apply to this build, device or machine."""
        unmet = cases.unmet(run.instance.case, run.build.version, self._environments[run.build.name].packages)
        device_bytes = self._devices[run.device].memory_bytes
        return why_not(run.instance, run.device, self._request.memory_bytes, device_bytes, unmet)

    # --- what happened ----------------------------------------------------------------------------------------

    def record(
        self, cells: Sequence[tuple[CellRun, Environment | None, Mapping[str, object]]]
    ) -> list[tuple[Observation, Judgement]]:
        """Add the identity to a worker's facts, append the observations to the journal, and judge them.

        Args:
            cells: What ran, where, and what was seen; several that are there at the same time are written together.
        """
        seen = [
            Observation(**{"started_at": _now(), **facts, **self._identify(run, environment)})  # type: ignore[arg-type]
            for run, environment, facts in cells
        ]
        kept = self.file.extend(
            noted(run.instance.case.file, each) for (run, _, _), each in zip(cells, seen, strict=True)
        )
        named = [self._remember(run, each) for (run, _, _), each in zip(cells, kept, strict=True)]
        return [(each, analysis.judge(each)) for each in named]

    def is_bad(self, run: CellRun) -> bool:
        """Whether what was seen of a cell in this repeat says that the build is bad."""
        seen = self._observations.get(run.place, {}).get(run.repeat)
        return seen is not None and analysis.judge(seen).verdict.bad

    def distrust(self, runs: Sequence[CellRun], reason: str) -> None:
        """Take back what cells said: their environment was broken. What was seen is kept, and no longer judged."""
        broken = Outcome.ENVIRONMENT_BROKEN.value
        seen = [self._observations[run.place][run.repeat] for run in runs]
        kept = self.file.extend(dataclasses.replace(each, outcome=broken, reason=reason) for each in seen)
        for run, observation in zip(runs, kept, strict=True):
            self._remember(run, observation)

    def _identify(self, run: CellRun, environment: Environment | None) -> dict[str, object]:
        case = run.instance.case
        device = self._devices[run.device]
        return {
            "key": self.key(run),
            "run_id": self._run_id,
            "build": environment.torch_version.partition("+")[0] if environment else run.build.version,
            "build_name": run.build.name,
            "build_kind": run.build.kind.value,
            "local_version": environment.local_version if environment else None,
            "git_commit": environment.git_commit if environment else run.build.git_commit,
            "lock_hash": environment.lock_hash if environment else None,
            "python": environment.python_version if environment else None,
            "backend": environment.backend if environment else None,
            "cuda": environment.cuda if environment else None,
            "case_file": self._row(run)[0],
            "case_file_hash": case.file.sha256,
            "case": case.name,
            "instance": run.instance.name,
            "parameters": json.dumps(dict(run.instance.parameters)),
            "issue": case.issue,
            "device": run.device,
            "device_name": device.name or None,
            "driver": device.driver or None,
            "repeat": run.repeat,
            "timeout_s": self._timeout_s(run),
            "machine": device.machine,
            **(
                {"local_modules": json.dumps(dict(case.file.local_modules))}
                if case.file.kind is CaseKind.COMMAND
                else {}
            ),
        }

    def ran(self, series: Iterable[Series]) -> int:
        """How many cells of these series were seen in this run, once or more."""
        rows, builds = {(each.case_file, each.instance) for each in series}, set(self._request.matrix)
        seen_now = (
            next((each for each in repeats.values() if each.run_id == self._run_id), None)
            for repeats in self._observations.values()
        )
        return sum(
            one is not None and one.build_name in builds and (one.case_file, one.instance) in rows for one in seen_now
        )

    # --- what it means ----------------------------------------------------------------------------------------

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Of this run's cells: kept ones and new ones."""
        return tuple(observation for repeats in self._observations.values() for observation in repeats.values())

    def series(self, instances: Sequence[Instance]) -> tuple[Series, ...]:
        """One for each instance and device, over the matrix in column order; cells without observation included."""
        return self._along(self._request.matrix, instances)

    def beside(self, instances: Sequence[Instance]) -> tuple[Series, ...]:
        """The series along the lines beside the matrix."""
        return tuple(each for line in self._request.lines[1:] for each in self._along(line, instances))

    def _along(self, line: Sequence[str], instances: Sequence[Instance]) -> tuple[Series, ...]:
        rows = tuple(dict.fromkeys(self._row(run) for run in self.cells(self._request.builds[:1], instances)))
        key = (tuple(line), rows)
        if rows and key not in self._series:
            self._series[key] = tuple(analysis.build_series(self.observations, line, rows=rows))
        return self._series.get(key, ())

    def confirmations(self, budget_s: float | None, *, more_builds: bool = False) -> list[CellRun]:
        """Further repeats that are wanted before any transition may be printed.

        Args:
            budget_s: Cell seconds that they may take together, with those that have run; None for no bound.
            more_builds: Others will still run.
        """
        first, last = self._request.edges
        settings = analysis.Confirmation(
            base_repeats=self._request.repeats,
            budget_s=budget_s,
            every_cell=self._request.confirm_every_cell,
            edges=(first, last and not more_builds),
        )
        runs = []
        for wanted in analysis.wanted_repeats(
            self.observations, self._request.matrix, confirmation=settings, beside=self._request.lines[1:]
        ):
            run = self._runs[(wanted.case_file, wanted.instance, wanted.device, wanted.build)]
            own = Isolation.PROCESS in (run.isolation, wanted.isolation)
            isolation = Isolation.PROCESS if own else Isolation.FORK
            runs.append(dataclasses.replace(run, repeat=wanted.repeat, isolation=isolation))
        return runs

    def effort(self, runs: Sequence[CellRun]) -> tuple[int, float]:
        """How often torch is loaded for these runs, and the seconds that their cases take by what they have taken.

        A run in an interpreter of its own loads it for itself; those of one repeat on one build share a worker.
        """
        own = sum(run.isolation is Isolation.PROCESS for run in runs)
        shared = {(run.build.name, run.repeat) for run in runs if run.isolation is not Isolation.PROCESS}
        seconds = 0.0
        for run in runs:
            seen = self._observations.get(run.place, {}).values()
            seconds += max((each.elapsed_s or 0.0 for each in seen), default=0.0)
        return own + len(shared), seconds


def display_names(paths: Sequence[Path], start: Path) -> dict[Path, str]:
    """How each file is called in results: relative to the working directory where it lies below it, else its name.

    Two files outside with the same name are told apart by as much of their folders as that takes.
    """
    names = {}
    for path in paths:
        relative = os.path.relpath(path, start)
        names[path] = path.name if relative.startswith("..") else relative
    depth = 2
    while len(set(names.values())) < len(names) and depth < 64:
        taken = list(names.values())
        names = {path: "/".join(path.parts[-depth:]) if taken.count(name) > 1 else name for path, name in names.items()}
        depth += 1
    return names


def _now() -> str:
    """Of what does not tell itself when it began: a test of a suite, a build that could not be installed."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")

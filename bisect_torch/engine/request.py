"""What a run is asked for and what it gives back."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_torch import cases, environments, own_files
from bisect_torch.engine.shard import Shard, starts
from bisect_torch.model import (
    DEFAULT_TIMEOUT_S,
    Build,
    BuildKind,
    Environment,
    Instance,
    Isolation,
    Observation,
    Series,
    Transition,
)
from bisect_torch.own_files import OwnFiles
from bisect_torch.results import ResultsFile

if TYPE_CHECKING:
    from bisect_torch.engine.conditions import Conditions
    from bisect_torch.environments import Project


@dataclass(frozen=True)
class RunRequest:
    """What is to be run.

    Args:
        builds: In release order, local interpreters where the user put them.
        discovered: Case files, scripts and commands as read.
        plan: Python, lock and presence of each build's environment.
        results: Path of the Parquet file, as named.
        file: That file, read.
        working_directory: Of scripts and commands.
        lines: Names of builds in an order in which neighbours are compared: the first is the matrix, the others (a
            build and its variant) stand beside it. Empty: one line of all builds.
        devices: Device names.
        select: An expression that instances must match (``-k``).
        jobs: Cells that run at once.
        timeout_s: Seconds for a cell whose case names none.
        repeats: Repeats of every cell before any confirmation.
        isolation: None chooses the fastest safe one.
        threads: torch's number of threads; None leaves it to torch.
        seed: Of repeat 0; repeat i is seeded with ``seed + i``. Scripts and commands are never seeded.
        memory_bytes: What all cells together may use.
        fresh: Run again what is known.
        only: Case file and name of the instances that run; all when None.
        confirm_every_cell: Repeat every cell until it could be the end of a transition, also where there is no other
            build: what it is compared with was seen earlier.
        confirm: Cells on which conclusions rest run again in other processes; else they are told as not confirmed.
        thorough: Cases compare everything that they otherwise sample.
        guard: The guard that the workers' environment asks for, as ``mps:4294967296``; None for none.
        projects: What is installed as editable, with the state of its files.
        own: Files that are the tool's own, and no part of these or of a suite.
        command_line: As typed, for the manifest.
        source: A git checkout of PyTorch, for the report.
        shard: The part of the matrix that is run; ``builds`` are its builds. None for all of it.
        edges: Whether the first and the last of the builds are those of the whole matrix.
        standing: On a short disk: names of the folders of environments that a search keeps; None for a run, which
            removes all that it has made.
        unread: A sentence for each file of a folder that could not be read, and so takes no part.
        unknown: Names of builds that were asked for and cannot be known, to the reason: an index cannot be asked.
    """

    builds: tuple[Build, ...]
    discovered: tuple[cases.Discovered, ...]
    environment_options: environments.EnvironmentOptions
    plan: environments.EnvironmentPlan
    results: Path
    file: ResultsFile
    working_directory: Path
    lines: tuple[tuple[str, ...], ...] = ()
    devices: tuple[str, ...] = ("cpu",)
    select: str | None = None
    jobs: int = 2
    timeout_s: float = DEFAULT_TIMEOUT_S
    repeats: int = 1
    isolation: Isolation | None = None
    threads: int | None = None
    seed: int = 0
    memory_bytes: int = 0
    fresh: bool = False
    only: frozenset[tuple[Path, str]] | None = None
    confirm_every_cell: bool = False
    confirm: bool = True
    thorough: bool = False
    guard: str | None = None
    projects: tuple[Project, ...] = ()
    own: OwnFiles = own_files.NONE
    command_line: tuple[str, ...] = ()
    source: Path | None = None
    shard: Shard | None = None
    edges: tuple[bool, bool] = (True, True)
    standing: frozenset[str] | None = None
    unread: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def matrix(self) -> tuple[str, ...]:
        """Names of the builds of the matrix, in column order."""
        return self.lines[0] if self.lines else tuple(build.name for build in self.builds)

    def known_instances(self) -> tuple[Instance, ...]:
        """Those that can be told before anything runs, of this part of the matrix."""
        begin = starts(self.discovered, self.select)
        return tuple(
            instance
            for item in self.discovered
            for instance in self.chosen(self.named(item.instances or ()), begin[item.file.path])
        )

    def named(self, instances: tuple[Instance, ...]) -> tuple[Instance, ...]:
        """Those of :attr:`only`, as they are called or as a results file calls them."""
        only = self.only
        if only is None:
            return instances
        return tuple(
            each
            for each in instances
            if only & {(each.case.file.path, name) for name in (each.name, self.file.private.instance(each.name))}
        )

    def chosen(self, instances: tuple[Instance, ...], start: int) -> tuple[Instance, ...]:
        """Those of a file's instances that fit ``-k`` and are in the shard, see :meth:`Shard.instances`."""
        fitting = self.fitting(instances)
        return fitting if self.shard is None else self.shard.instances(fitting, start)

    def fitting(self, instances: tuple[Instance, ...]) -> tuple[Instance, ...]:
        """Those that fit ``-k``."""
        return cases.matching(instances, self.select) if self.select else instances

    def conditions(self, staged: Path) -> Conditions:
        """What is the same for every cell.

        Args:
            staged: The staged ``bisect_torch`` package.
        """
        from bisect_torch.engine.conditions import Conditions

        return Conditions(
            staged=staged,
            environment_variables=self._variables,
            capability=environments.capability,
            timeout_s=self.timeout_s,
            threads=self.threads,
            memory_bytes=self.memory_bytes,
            seed=self.seed,
            working_directory=self.working_directory,
            thorough=self.thorough,
            since_ns=_first_began_ns(self.file.runs),
        )

    def _variables(self, environment: Environment) -> Mapping[str, str]:
        return environments.clean_environment_variables(
            environment.python,
            user_site=environment.build.kind is BuildKind.LOCAL,
            passed=self.environment_options.pass_env,
        )


def _first_began_ns(runs: Sequence[Mapping[str, object]]) -> int:
    """When the first of these runs began, or this one where there are none: nanoseconds since the epoch.

    Files are dated by a clock that lags behind by some milliseconds.
    """
    began = [
        datetime.datetime.fromisoformat(str(run["started_at"]).replace("Z", "+00:00")).timestamp()
        for run in runs
        if run.get("started_at")
    ]
    return int((min(began, default=datetime.datetime.now(datetime.timezone.utc).timestamp()) - 1) * 1e9)


@dataclass(frozen=True)
class RunResult:
    """What a run found. Everything in it can be derived again from the results file.

    Args:
        builds: Of the matrix.
        series: Of the matrix.
        ran: How many cells of these series ran in this run, once or more; the others are known from earlier ones.
        beside: Series of the further lines.
    """

    builds: tuple[Build, ...]
    environments: Mapping[str, Environment]
    series: tuple[Series, ...]
    transitions: tuple[Transition, ...]
    observations: tuple[Observation, ...]
    interrupted: bool
    seconds: float
    ran: int
    beside: tuple[Series, ...] = ()

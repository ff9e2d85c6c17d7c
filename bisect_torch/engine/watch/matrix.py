"""The matrix of one save: which cells it has, and what has been observed in them. Kept in memory alone."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path

from bisect_torch import analysis, cases
from bisect_torch.engine import host, plan
from bisect_torch.engine.plan import CellRun
from bisect_torch.engine.request import RunRequest
from bisect_torch.engine.watch.installer import Ready
from bisect_torch.model import Environment, Instance, Isolation, Observation, Outcome, Series

_CONFIRMING_S = 300.0
"""Cell seconds that confirming may take."""


class Matrix:
    """What is known of a file as it was saved.

    Args:
        request: Builds, devices, conditions.
        number: Of the save.
        instances: The rows; at least one.
    """

    def __init__(self, request: RunRequest, number: int, instances: tuple[Instance, ...]) -> None:
        self._request = request
        self._number = number
        self._instances = instances
        self._observations: dict[tuple[str, str, str, int], Observation] = {}
        self.fresh = False
        """Whether something has been recorded since this was last set to False."""

    @property
    def observations(self) -> tuple[Observation, ...]:
        """As far as it has run."""
        return tuple(self._observations.values())

    def series(self) -> tuple[Series, ...]:
        """The rows, judged as far as they have run."""
        file = self._instances[0].case.file.path.name
        rows = [(file, instance.name, device) for instance in self._instances for device in self._request.devices]
        return tuple(analysis.build_series(self._observations.values(), self._names(), rows=rows))

    def _names(self) -> list[str]:
        return [build.name for build in self._request.builds]

    def runs(self, environment: Environment) -> tuple[CellRun, ...]:
        """The first run of every cell of a build. That a cell does not apply there is recorded instead."""
        wanted = []
        for instance in self._instances:
            isolation = plan.natural_isolation(instance.case, self._request.isolation, sys.platform.startswith("linux"))
            for device in self._request.devices:
                run = CellRun(instance, environment.build, device, 0, isolation)
                reason = self._inapplicable(run, environment)
                if reason is None:
                    wanted.append(run)
                else:
                    self.record(run, environment, {"outcome": Outcome.SKIPPED.value, "reason": reason})
        return tuple(wanted)

    def _inapplicable(self, run: CellRun, environment: Environment) -> str | None:
        unmet = cases.unmet(run.instance.case, run.build.version, environment.packages)
        memory = host.device_memory(run.device)
        return plan.why_not(run.instance, run.device, self._request.memory_bytes, memory, unmet)

    def confirming(self) -> list[CellRun]:
        """Repeats of the ends of transitions and of rows that are still wanted, in interpreters of their own."""
        settings = analysis.Confirmation(budget_s=_CONFIRMING_S)
        wanted = analysis.wanted_repeats(self._observations.values(), self._names(), confirmation=settings)
        instances = {instance.name: instance for instance in self._instances}
        builds = {build.name: build for build in self._request.builds}
        return [
            CellRun(instances[each.instance], builds[each.build], each.device, each.repeat, Isolation.PROCESS)
            for each in wanted
        ]

    def record(self, run: CellRun, environment: Environment, facts: Mapping[str, object]) -> None:
        """Take in what was observed, without what is private.

        Args:
            facts: As a worker tells them.
        """
        file = run.instance.case.file
        observation = Observation(
            **{  # type: ignore[arg-type]
                **facts,
                "key": f"{self._number} {run.instance.name} {run.device} {run.build.name}",
                "run_id": str(self._number),
                "build": run.build.version,
                "build_name": run.build.name,
                "build_kind": run.build.kind.value,
                "case_file": file.path.name,
                "case_file_hash": file.sha256,
                "case": run.instance.case.name,
                "instance": run.instance.name,
                "device": run.device,
                "repeat": run.repeat,
                "git_commit": environment.git_commit,
                "timeout_s": plan.time_limit_s(run.instance, run.device, self._request.timeout_s),
            }
        )
        kept = self._request.file.private.observation(observation)
        kept = dataclasses.replace(kept, build_name=run.build.name, instance=run.instance.name)
        self._observations[run.instance.name, run.device, run.build.name, run.repeat] = kept
        self.fresh = True

    def record_failure(self, failed: Ready) -> None:
        """Record for every cell of a build that it has no environment."""
        nowhere = Environment(failed.build, Path(), Path(), "", "", {}, failed.build.version, None, None, "")
        for instance in self._instances:
            for device in self._request.devices:
                run = CellRun(instance, failed.build, device, 0, Isolation.PROCESS)
                self.record(run, nowhere, {"outcome": failed.outcome.value, "reason": failed.reason})

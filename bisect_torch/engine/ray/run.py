"""A run whose environments are made, and whose cells run, on the nodes of a Ray cluster."""

from __future__ import annotations

import time
from pathlib import Path

from bisect_torch import environments
from bisect_torch.engine.executor import Executor
from bisect_torch.engine.plan import CellRun
from bisect_torch.engine.ray.executor import RayExecutor
from bisect_torch.engine.ray.node import NodeOptions, own_variables
from bisect_torch.engine.run import Failed, Ready, Run
from bisect_torch.errors import BisectTorchError
from bisect_torch.model import Build, Environment


class ClusterRun(Run):
    """Differs from a run of this machine only in where things are done. The nodes sweep environments themselves."""

    def _store_of_nodes(self) -> Path | None:
        """Where their stores lie; None for each node's own ``BISECT_TORCH_STORE``, or the default."""
        return None

    def _open_executor(self) -> Executor:
        request = self._request
        options = NodeOptions(
            environments=request.environment_options,
            store=self._store_of_nodes(),
            variables=own_variables(),
            jobs=request.jobs,
            devices=request.devices,
            timeout_s=request.timeout_s,
            threads=request.threads,
            memory_bytes=request.memory_bytes,
            seed=request.seed,
            working_directory=request.working_directory,
            thorough=request.thorough,
        )
        pythons = {name: planned.request for name, planned in self._planned.items()}
        self._nodes = RayExecutor(options, pythons, self._inbox.put)
        return self._nodes

    def _makers(self) -> int:
        return self._nodes.nodes

    def _make_environment(self, build: Build) -> Ready | Failed:
        begin = time.monotonic()
        if self._planned[build.name].reason:
            return self._not_planned(build)
        try:
            environment, reused = self._nodes.make(build, self._cancel)
        except BisectTorchError as error:
            return Failed(build, environments.outcome_of(error), error.message)
        return Ready(build, environment, time.monotonic() - begin, reused)

    def _watch(self, environment: Environment) -> None:
        return

    def _ran(self, run: CellRun) -> None:
        return


class LocalClusterRun(ClusterRun):
    """On a cluster that is this machine alone: its nodes use the run's own store."""

    def _store_of_nodes(self) -> Path:
        return self._request.environment_options.store.root

"""Environments that come and go in groups, where the disk cannot hold all of them at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import replace

from bisect_torch import environments
from bisect_torch.environments import EnvironmentOptions, EnvironmentPlan
from bisect_torch.model import Build, Environment


class Rotation:
    """The order in which environments are made.

    Without a budget all of them are one group, and they stay. Under a budget each group has a cache of its own, and is
    removed whole, with that cache, before the next one is made. An environment that is there and that no such run has
    made is used and stays.

    Args:
        plan: Its budget is None where all fit.
        standing: Names of the folders of environments that a search keeps, for which the budget has made room; the last
            group of this run then stays too, without its cache. None: nothing stays.
    """

    def __init__(
        self, plan: EnvironmentPlan, options: EnvironmentOptions, standing: Collection[str] | None = None
    ) -> None:
        budget = plan.budget
        self._budget = budget
        self._standing = standing
        self._present = {one.build.name: one.present for one in plan.environments if one.present is not None}
        self._options = options
        self._group_options = options
        self._waiting: deque[tuple[Build, ...]] = deque()
        self._passing: list[Environment] = []
        passing = budget is not None or options.max_disk_bytes is not None
        self.uses = environments.Uses(options.store, passing=passing)

    @property
    def options(self) -> EnvironmentOptions:
        """With which the current group is made."""
        return self._group_options

    @property
    def waiting(self) -> bool:
        """Whether a group is left to be made."""
        return bool(self._waiting)

    def add(self, builds: Sequence[Build]) -> None:
        """Environments of these builds are wanted; in release order under a budget, in the order given without."""
        if self._budget is None:
            self._waiting.extend([tuple(builds)] if builds else [])
            return
        by_name = {build.name: build for build in builds}
        names = [name for name in self._budget.parts if name in by_name]
        self._waiting.extend(tuple(by_name[name] for name in group) for group in self._budget.groups(names))

    def next(self) -> tuple[Build, ...]:
        """The builds of the next group. Nothing of the one before it is left: see :meth:`clear`."""
        if self._budget is not None:
            needed = {self._present[build.name].root.name for build in self._waiting[0] if build.name in self._present}
            environments.remove_passing(self._options.store, needed | set(self._standing or ()))
            if not environments.is_offline(self._options):  # then all is linked from the store's cache
                self._group_options = replace(self._options, store=self._options.store.with_own_cache())
        return self._waiting.popleft()

    def refusal(self, build: Build) -> str | None:
        """Why no environment of a build can be made within the budget."""
        return None if self._budget is None else self._budget.refusal(build.name)

    def made(self, environment: Environment) -> None:
        """An environment of the current group is ready."""
        if self._budget is not None and environments.is_passing(self._options.store, environment.root.name):
            self._passing.append(environment)

    def clear(self) -> tuple[str, ...]:
        """Remove the environments of the current group, and its cache.

        Returns:
            Names of the builds that have no environment any more.
        """
        cleared: list[str] = []
        if self._standing is not None and not self._waiting:
            self._passing.clear()
        while self._passing:
            environment = self._passing.pop()
            self.uses.release(environment.root.name)
            try:
                environments.remove(environment, self._options.store)
            except environments.InUse:
                continue  # another run goes on with it; its mark tells that run's successors
            cleared.append(environment.build.name)
        if self._group_options is not self._options:
            self._group_options.store.remove_own_cache()
            self._group_options = self._options
        return tuple(cleared)

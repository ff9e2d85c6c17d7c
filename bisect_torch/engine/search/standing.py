"""The environments of a search on a short disk: each stays until the next one needs its room."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from bisect_torch import environments
from bisect_torch.engine.request import RunRequest
from bisect_torch.model import Environment


class Standing:
    """What a search has made and what of it stands. A run of a whole matrix removes its groups whole; a search comes
    back to the ends of what it has found, so that those go last.

    Args:
        options: Whose store it is.
        ready: Build name to the environment that was made ready last; those that go are taken out.
    """

    def __init__(self, options: environments.EnvironmentOptions, ready: dict[str, Environment]) -> None:
        self._options = options
        self._ready = ready

    def here(self) -> dict[str, Environment]:
        """Those that stand and may go, in the order in which they were made ready."""
        store = self._options.store
        return {
            name: each
            for name, each in self._ready.items()
            if each.root.exists() and environments.is_passing(store, each.root.name)
        }

    def forget_gone(self) -> tuple[str, ...]:
        """Take out those that stand no more. Gives their builds."""
        gone = tuple(name for name, each in self._ready.items() if not each.root.exists())
        for name in gone:
            del self._ready[name]
        return gone

    def make_room(self, budget: environments.DiskBudget, wanted: Collection[str], keep: Collection[str]) -> None:
        """Remove environments until the largest of those that are wanted and do not stand fits.

        Several that do not fit together are made in turns by their run.

        Args:
            budget: What each would take.
            wanted: Builds that run next.
            keep: Builds that the search will come back to: they go last.
        """
        here = self.here()
        missing = [name for name in wanted if name not in here and name in budget.parts]
        needed = max((budget.bytes_of([name]) for name in missing), default=0)
        order = sorted(here, key=lambda name: (name in wanted, name in keep))
        while order and room_beside(budget, order) < needed:
            name = order.pop(0)
            try:
                environments.remove(here[name], self._options.store)
            except environments.InUse:
                continue  # another run goes on with it
        self.forget_gone()


def room_beside(budget: environments.DiskBudget, standing: Sequence[str]) -> int:
    """Bytes that are left beside environments that stand: they share no files with each other."""
    return budget.room_bytes - sum(budget.bytes_of([name]) for name in standing)


def within(request: RunRequest, budget: environments.DiskBudget, standing: Mapping[str, Environment]) -> RunRequest:
    """The request of a part of the search, for which what stands is there and takes its room."""
    parts = {name: {} if name in standing else part for name, part in budget.parts.items()}
    left = dataclasses.replace(budget, room_bytes=room_beside(budget, list(standing)), parts=parts)
    folders = frozenset(each.root.name for each in standing.values())
    return dataclasses.replace(request, plan=dataclasses.replace(request.plan, budget=left), standing=folders)

"""Runs of a few builds for a search, and what the results file already tells about all of them."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass

from bisect_torch import environments
from bisect_torch.engine import events
from bisect_torch.engine.request import RunRequest
from bisect_torch.engine.run import Run
from bisect_torch.engine.under_way import UnderWay
from bisect_torch.interruption import Interruption
from bisect_torch.model import Environment, Instance, Observation, Series
from bisect_torch.releases.nightly_ledger import NightlyLedger
from bisect_torch.releases.unreleased import with_facts

Wanted = Callable[[Instance], bool]


@dataclass(frozen=True)
class Memory:
    """What is known of every row on every build, without running anything."""

    series: tuple[Series, ...]
    environments: Mapping[str, Environment]
    observations: tuple[Observation, ...]


class Probing(Run):
    """A run of the wanted rows, with or without the confirmations that a run ends with.

    Args:
        wanted: Whether an instance is one of the rows; all of the request's when None.
        confirm: Run the ends of transitions, and the first and last build, in further processes.
        each: Repeats of a cell that one worker process runs, of cells that are forked. A run gives each repeat a
            process of its own; a search for a flaky bug reckons with repeats that depend on each other.
    """

    def __init__(
        self,
        request: RunRequest,
        observer: events.Observer,
        interruption: Interruption,
        *,
        wanted: Wanted | None = None,
        confirm: bool = False,
        each: int = 1,
    ) -> None:
        super().__init__(request, observer, interruption, wanted=wanted)
        self._under_way = UnderWay(self._site, self._making.ready, self._tell, each=each)
        self._confirm = confirm

    def _settled(self) -> bool:
        if self._confirm:
            return super()._settled()
        if self._busy():
            return False
        if self._making.waiting:
            self._install()
            return False
        self._second_look.at_environments()
        if self._making.in_turns:
            self._second_look.at_all_environments()  # they may be gone when the search comes back to them
        return self._inbox.empty()

    def remember(self) -> Memory:
        """What earlier runs saw, as far as the rows are known. Instead of :meth:`execute`."""
        self._rows.read_known(self._ledger.environments.values())
        rows = self._rows.all()
        self._ledger.recall(self._ledger.cells(self._request.builds, rows))
        return Memory(self._ledger.series(rows), dict(self._ledger.environments), self._ledger.observations)

    def begin_afresh(self) -> None:
        """Record a search that runs everything again: until it ends, results of before it do not count."""
        self._ledger.file.begin(self._manifest(ended=False))

    def end_afresh(self) -> None:
        """Record that it came to its end. Where it did not, what goes on from there leaves out the old results too."""
        self._ledger.file.finish(self._manifest(ended=True))


def remembered(request: RunRequest, interruption: Interruption) -> Memory:
    """What the results file of ``request`` tells about its rows and builds."""
    return Probing(request, lambda event: None, interruption).remember()


def narrowed(request: RunRequest, names: Iterable[str], *, repeats: int = 1) -> RunRequest:
    """The same request for some of its builds."""
    kept = set(names)
    plan = request.plan
    return dataclasses.replace(
        request,
        builds=tuple(build for build in request.builds if build.name in kept),
        plan=dataclasses.replace(
            plan, environments=tuple(each for each in plan.environments if each.build.name in kept)
        ),
        repeats=repeats,
    )


def with_environments(request: RunRequest, found: Mapping[str, Environment]) -> RunRequest:
    """The same request, with the environments that are known to be there by now."""

    def updated(planned: environments.PlannedEnvironment) -> environments.PlannedEnvironment:
        environment = found.get(planned.build.name)
        if environment is None:
            return planned
        return dataclasses.replace(planned, present=environment, lock_hash=environment.lock_hash)

    plan = dataclasses.replace(request.plan, environments=tuple(map(updated, request.plan.environments)))
    return dataclasses.replace(request, plan=plan)


def without_environments(request: RunRequest, names: Container[str]) -> RunRequest:
    """The same request, where these builds have no environment any more."""
    planned = tuple(
        dataclasses.replace(each, present=None) if each.build.name in names else each
        for each in request.plan.environments
    )
    return dataclasses.replace(request, plan=dataclasses.replace(request.plan, environments=planned))


def looked_up(request: RunRequest, names: Container[str], note: Callable[[str], None]) -> RunRequest:
    """The same request, with what was left open of some builds found out: locks, and of nightlies commit and size.

    Args:
        note: Called with a line for what cannot be found out.

    Raises:
        BisectTorchError: The ledger of nightly builds cannot be read, or an option cannot be used.
    """
    left = [each for each in request.plan.environments if each.open and each.build.name in names]
    if not left:
        return request
    options = request.environment_options
    ledger = NightlyLedger(options.store.nightlies)
    builds = with_facts([each.build for each in left], ledger, python=left[0].python, note=note)
    cancel = threading.Event()
    try:
        done = environments.completed(
            [dataclasses.replace(each, build=build) for each, build in zip(left, builds, strict=True)],
            options,
            cancel=cancel,
        )
    finally:
        cancel.set()  # after Ctrl-C no uv goes on behind
    found = {each.build.name: each for each in done}
    planned = tuple(found.get(each.build.name, each) for each in request.plan.environments)
    return dataclasses.replace(
        request,
        builds=tuple(found[build.name].build if build.name in found else build for build in request.builds),
        plan=dataclasses.replace(request.plan, environments=planned),
    )


class Watch:
    """Between a run and the observer of a search: notes which environments were made and which builds failed.

    What is noted once is not told again by the next run of the search.
    """

    def __init__(self, observer: events.Observer) -> None:
        self._observer = observer
        self.made: dict[str, float] = {}
        self.ready: dict[str, Environment] = {}
        self.failed: dict[str, str] = {}
        self._noted: set[events.Note] = set()

    def __call__(self, event: events.Event) -> None:
        """Take note of an event, and tell it unless it was told before."""
        if isinstance(event, events.Note):
            if event in self._noted:
                return
            self._noted.add(event)
        elif isinstance(event, events.EnvironmentReady):
            self.ready[event.build.name] = event.environment
            if not event.reused:
                self.made[event.build.name] = event.seconds
        elif isinstance(event, events.BuildProgress) and event.phase == "failed":
            self.failed[event.build.name] = event.message
        self._observer(event)

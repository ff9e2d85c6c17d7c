"""The cells that a run has given to its site and that have no answer yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bisect_torch.engine import plan
from bisect_torch.engine.events import CellLost, Note
from bisect_torch.engine.site import Site
from bisect_torch.engine.slot_messages import CellDone
from bisect_torch.engine.telling import Telling
from bisect_torch.model import Environment, Isolation, Outcome


class UnderWay:
    """Groups cells into tasks for the site, and counts them until each has its answer.

    Args:
        site: Runs them.
        ready: Build name to its environment, of those that are ready at the moment.
        tell: Told of a cell that is lost.
        each: Repeats of a forked cell that one worker process runs; else all of them have processes of their own.
    """

    def __init__(self, site: Site, ready: Mapping[str, Environment], tell: Telling, *, each: int = 1) -> None:
        self._site = site
        self._ready = ready
        self._tell = tell
        self._each = each
        self._pending = 0
        self._retried: set[tuple[plan.Place, int]] = set()

    @property
    def any(self) -> bool:
        """Whether an answer is still to come."""
        return self._pending > 0

    def submit(self, runs: Sequence[plan.CellRun]) -> None:
        """Run cells. The environments of their builds are ready."""
        self._pending += len(runs)
        alone = any(run.isolation is Isolation.PROCESS for run in runs)
        for task in self._by_build(runs) if self._each == 1 or alone else self._by_cell(runs):
            self._site.submit(task)

    def _by_build(self, runs: Sequence[plan.CellRun]) -> Iterator[plan.Task]:
        by_build: dict[str, list[plan.CellRun]] = {}
        for run in runs:
            by_build.setdefault(run.build.name, []).append(run)
        workers = max(1, self._site.slots // max(1, len(by_build)))
        for name, group in by_build.items():
            yield from plan.tasks(self._ready[name], group, workers=workers)

    def _by_cell(self, runs: Sequence[plan.CellRun]) -> Iterator[plan.Task]:
        for cell in dict.fromkeys(run.place for run in runs):
            repeats = [run for run in runs if run.place == cell]
            environment = self._ready[repeats[0].build.name]
            for start in range(0, len(repeats), self._each):
                yield plan.Task(environment, tuple(repeats[start : start + self._each]), forked=True)

    def answered(self, message: CellDone) -> bool:
        """Take note that a cell has ended.

        Returns:
            Whether its facts are an answer. Those of a cell that was lost for the first time are none: it runs again.
        """
        run = message.run
        self._pending -= 1
        if message.facts["outcome"] != Outcome.LOST.value or (run.place, run.repeat) in self._retried:
            return True
        self._retried.add((run.place, run.repeat))
        lost = CellLost(run.build, run.instance, run.device, run.repeat, message.slot, message.at)
        self._tell(lost)
        reason = message.facts.get("reason")
        self._tell(Note(f"{run.instance.name}: {reason}; running it again", run.build))
        self.submit([run])
        return False

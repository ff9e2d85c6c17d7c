"""What a run looks at again before it concludes: environments that may have changed, cells on which much depends."""

from __future__ import annotations

from collections.abc import Mapping

from bisect_torch import analysis
from bisect_torch.engine import events
from bisect_torch.engine.ledger import Ledger
from bisect_torch.engine.making import Making
from bisect_torch.engine.plan import CellRun
from bisect_torch.engine.resweep import Resweep
from bisect_torch.engine.rows import Rows
from bisect_torch.engine.site import Site
from bisect_torch.engine.telling import Telling
from bisect_torch.model import Series

CONFIRMING_S = 1800.0
"""Cell seconds that confirming may take before what is left is named instead of run."""


class SecondLook:
    """Takes back what was seen in environments that changed, and names the cells that must run again.

    Args:
        ledger: What is known about every cell.
        rows: The instances.
        making: The environments.
        site: Where cells run.
        tell: Told of environments that changed.
        confirm: Whether cells run again to confirm what is told of them.
    """

    def __init__(
        self, ledger: Ledger, rows: Rows, making: Making, site: Site, tell: Telling, *, confirm: bool = True
    ) -> None:
        self._ledger = ledger
        self._rows = rows
        self._making = making
        self._resweep = Resweep(site)
        self._tell = tell
        self._confirm = confirm
        self._without_end: list[CellRun] = []

    def ran(self, run: CellRun) -> None:
        """A cell ended in the environment of its build."""
        self._resweep.ran(run)

    def at_environments(self) -> None:
        """Take back what was seen in environments that have changed meanwhile, until those that decide are whole."""
        with self._tell.step("sweeping environments"):
            while found := self._resweep.changed(self._series()):
                self._distrust(found)

    def at_all_environments(self) -> None:
        """The same for every environment that ran cells, before they are removed."""
        self._distrust(self._resweep.changed_of_all())

    def _distrust(self, found: Mapping[str, tuple[str, list[CellRun]]]) -> None:
        for name, (what, runs) in found.items():
            # Should more be wanted of this build, it is made anew.
            build = self._making.ready.pop(name).build
            reason = f"the environment changed during the run: {what}"
            self._tell(events.BuildProgress(build, "failed", message=reason))
            self._ledger.distrust(runs, reason)

    def at_cells(self) -> list[CellRun]:
        """Repeats that are still wanted, of cells whose builds can have an environment."""
        with self._tell.step("choosing confirmations"):
            more = self._making.waiting
            self._without_end = self._possible(None, more_builds=more)
            # What a cell takes is looked up only where there is one to choose.
            wanted = self._confirm and self._without_end
            return self._possible(CONFIRMING_S, more_builds=more) if wanted else []

    def left_out(self) -> str | None:
        """What is to be said of repeats that would have been wanted, at the last look at cells, if there were no end to
        the time for them, or if they had been asked for; None where there are none."""
        left = len(self._without_end)
        if not left:
            return None
        if self._confirm:
            repeats = "1 confirming repeat was" if left == 1 else f"{left} confirming repeats were"
            return f"{repeats} left out, beyond {CONFIRMING_S / 60:.0f} min"
        runs = "1 run that would confirm it was" if left == 1 else f"{left} runs that would confirm it were"
        return f"{runs} left out (--no-confirm): the same line without that word goes on with them"

    def _possible(self, budget_s: float | None, *, more_builds: bool) -> list[CellRun]:
        failed = {failure.build.name for failure in self._making.failures}
        wanted = self._ledger.confirmations(budget_s, more_builds=more_builds)
        return [run for run in wanted if run.build.name not in failed]

    def reason(self) -> str:
        """Which cells are looked at again, in plain words."""
        series = self._series()
        if all(len(each.builds) == 1 for each in series):
            return "what is to be told of this build, again in new processes"
        found = sum(len(analysis.transitions(each)) for each in series)
        if not found:
            return "the first and last build of every row, again in new processes"
        ends = "both ends of 1 transition" if found == 1 else f"the ends of {found} transitions"
        return f"{ends} and of every row, again in new processes"

    def _series(self) -> tuple[Series, ...]:
        rows = self._rows.all()
        return self._ledger.series(rows) + self._ledger.beside(rows)

"""Environments that changed while their cells ran.

Each environment was swept before its first cell. What breaks it later (a file deleted, or written through a hard link
that it shares with others) makes its cells fail, and reads like a fault of the build. So before a bad cell or the end
of a transition is believed, the environment that it ran in is swept once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bisect_torch import analysis
from bisect_torch.engine.plan import CellRun
from bisect_torch.engine.site import Site
from bisect_torch.model import Series


class Resweep:
    """Remembers what ran in the environments of a site since they were last known to be whole."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._ran: dict[str, list[CellRun]] = {}

    def ran(self, run: CellRun) -> None:
        """A cell ended in the environment of its build."""
        self._ran.setdefault(run.build.name, []).append(run)

    def changed(self, series: Sequence[Series]) -> Mapping[str, tuple[str, list[CellRun]]]:
        """Sweep the environments on which something hangs.

        Where one has changed, all that ran cells are swept: they share files.

        Returns:
            Build name to what changed and the cells that ran in that environment, which say nothing.
        """
        found = self._sweep(name for name in deciding(series) if name in self._ran)
        if found:
            found.update(self._sweep(self._ran))
        return found

    def changed_of_all(self) -> Mapping[str, tuple[str, list[CellRun]]]:
        """The same for every environment that ran cells: none of them will be there later to be asked."""
        return self._sweep(self._ran)

    def _sweep(self, names: Iterable[str]) -> dict[str, tuple[str, list[CellRun]]]:
        ran = {name: self._ran.pop(name) for name in list(names)}
        return {name: (what, ran[name]) for name, what in self._site.changed(ran).items()} if ran else {}


def deciding(series: Sequence[Series]) -> set[str]:
    """Builds with a bad or flaky cell, or with the end of a transition. Pure."""
    bad = {
        point.build
        for each in series
        for point in each.points
        if point is not None and (point.flaky or point.judgement.verdict.bad)
    }
    ends = {end.build for each in series for found in analysis.transitions(each) for end in (found.before, found.after)}
    return bad | ends

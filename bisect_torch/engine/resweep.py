"""Environments that changed while their cells ran.

Each environment was swept before its first cell. What breaks it later (a file deleted, or written through a hard link
that it shares with others) makes its cells fail, and reads like a fault of the build. So before a bad cell or the end
of a transition is believed, the environment that it ran in is swept once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bisect_torch import analysis, environments
from bisect_torch.engine.plan import CellRun
from bisect_torch.model import Environment, Series


class Resweep:
    """Remembers what ran in which environment since that was last known to be whole."""

    def __init__(self) -> None:
        self._environments: dict[str, tuple[Environment, environments.Seal | None]] = {}
        self._ran: dict[str, list[CellRun]] = {}

    def watch(self, environment: Environment) -> None:
        """Take in an environment that has just been swept or made."""
        self._environments[environment.build.name] = environment, environments.seal(environment)

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
            found.update(self._sweep(list(self._ran)))
        return found

    def changed_of_all(self) -> Mapping[str, tuple[str, list[CellRun]]]:
        """The same for every environment that ran cells: none of them will be there later to be asked."""
        return self._sweep(list(self._ran))

    def _sweep(self, names: Iterable[str]) -> dict[str, tuple[str, list[CellRun]]]:
        found = {}
        for name in list(names):
            runs = self._ran.pop(name)
            what = environments.changed_since(*self._environments[name])
            if what is not None:
                found[name] = what, runs
        return found


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

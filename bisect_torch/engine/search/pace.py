"""How long the rest of a search will take, by what its builds have taken so far; nothing is said before."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator

from bisect_torch.engine.search.weighing import PROCESS_S

CONFIRMING_RUNS = 6
"""Of a row with one change: two more of each of its ends, and one of the first and of the last build."""


class Pace:
    """What installing and running a build take in this search.

    Args:
        install_s: A guess at what making an environment takes, in seconds.
        made: Seconds of each environment that was made so far.
        clock: Seconds, going on at any rate.
    """

    def __init__(
        self, install_s: float, made: Callable[[], Collection[float]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._guess_s = install_s
        self._made = made
        self._clock = clock
        self._run_s: list[float] = []

    @property
    def install_s(self) -> float:
        """For one environment."""
        made = self._made()
        return sum(made) / len(made) if made else self._guess_s

    def run_s(self, elapsed_s: float | None) -> float | None:
        """For judging one build by itself; None where nothing tells yet: a cell may compile for a minute.

        Args:
            elapsed_s: The longest of the cells that are known from earlier runs, for a guess while this search has
                measured no build; None where there are none.
        """
        if self._run_s:
            return sum(self._run_s) / len(self._run_s)
        return None if elapsed_s is None else elapsed_s + PROCESS_S

    def left_s(self, builds: int, installs: int, elapsed_s: float | None, *, rows: int, jobs: int) -> float | None:
        """For so many builds and environments, one after another, and for confirming what comes out.

        Args:
            elapsed_s: See :meth:`run_s`, as for None.
            rows: Cells of each build.
            jobs: Cells that run at once.
        """
        run_s = self.run_s(elapsed_s)
        if run_s is None:
            return None
        confirming_s = run_s * max(1.0, CONFIRMING_RUNS * min(rows, jobs) / jobs)
        return installs * self.install_s + builds * run_s + confirming_s

    @contextlib.contextmanager
    def measuring(self, builds: int, rows: Callable[[], int], jobs: int) -> Iterator[None]:
        """Around judging some builds, environments included; one that is cut off does not count.

        Builds that are judged together share the places that run cells: each alone takes as long as they would, were
        all places busy, or just as long as all of them where there are places enough.

        Args:
            builds: Their number.
            rows: Cells of each; asked at the end, since before the first build they may not be known. None where no
                environment could be made: that is no measure of running.
            jobs: Cells that run at once.
        """
        begin, before = self._clock(), sum(self._made())
        yield
        installing = sum(self._made()) - before
        running = max(0.0, self._clock() - begin - installing)
        if each := rows():
            self._run_s += [running * min(jobs, builds * each) / (builds * min(jobs, each))] * builds

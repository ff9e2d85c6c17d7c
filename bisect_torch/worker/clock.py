"""A cell's own time: seconds in which the machine was awake and the cell could have run."""

from __future__ import annotations

from bisect_torch.worker import system

MOST_FORGIVEN = 20.0
"""Times the limit: how much of a cell's waiting for a core, and of ticks that were much too long, is not counted."""

_SLEPT_S = 0.5
"""A tick that took so much longer than was asked for was not slept by the worker alone."""


class CellClock:
    """What a cell has used of the limit of its phase, as a sum of ticks of its supervisor.

    Args:
        process: The cell's.
        limit_s: Of its first phase, which begins with the process.
    """

    def __init__(self, process: int, limit_s: float) -> None:
        self._process = process
        self._limit_s = limit_s
        self._forgiven_s = 0.0
        self._slept_s = 0.0
        self._core_wait_s = 0.0
        self.used_s = 0.0

    def begin(self, limit_s: float) -> None:
        """Another phase begins, with a limit of its own."""
        self._limit_s = limit_s
        self.used_s = self._forgiven_s = self._slept_s = 0.0
        self._core_wait_s = system.core_wait_s(self._process)

    @property
    def left_s(self) -> float:
        """Seconds to the limit; negative beyond it."""
        return self._limit_s - self.used_s

    def count(self, spent: float, tick: float) -> None:
        """A tick is over. A machine that slept, or a stopped worker, makes one long tick, and nobody knows how much of
        it the cell has had: it counts nothing, or a cell that was near its limit would be over it.

        Args:
            spent: Seconds that it took.
            tick: Seconds that it was to take at most.
        """
        if spent > tick + _SLEPT_S and self._slept_s + tick < MOST_FORGIVEN * self._limit_s:
            self._slept_s += tick
        else:
            self.used_s += min(spent, tick + 0.05)

    def forgive_waiting(self) -> bool:
        """Give back the time in which the cell was ready to run and others had the cores: a machine under load makes no
        timeout. A cell that sleeps, or that has a core and does not come to its end, gets nothing.

        Returns:
            Whether something was given back.
        """
        waited = system.core_wait_s(self._process)
        given = min(waited - self._core_wait_s, MOST_FORGIVEN * self._limit_s - self._forgiven_s)
        if given < 0.05 * self._limit_s:
            return False
        self._core_wait_s = waited
        self._forgiven_s += given
        self.used_s -= given
        return True

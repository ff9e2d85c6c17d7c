"""Memory that the cells of a run share, as far as their cases declare it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class MemoryBudget:
    """Admits cells only while their declared sizes fit together. One cell is always admitted."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._used = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def reserve(
        self, size: int, waiting: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    ) -> Iterator[None]:
        """Hold ``size`` bytes, waiting until they are there.

        Args:
            waiting: Entered while that is waited for.
        """
        with self._changed:
            if not self._fits(size):
                with waiting():
                    self._changed.wait_for(lambda: self._fits(size))
            self._used += size
        try:
            yield
        finally:
            with self._changed:
                self._used -= size
                self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._total

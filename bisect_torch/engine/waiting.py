"""What waits for a slot of the executor."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Work = TypeVar("Work")


class Waiting(Generic[Work]):
    """Pieces of work, for each accelerator and for the CPU in the order in which they came. Safe for several threads.

    No two that hold the same accelerator run at once: they would share its memory and disturb each other's times. What
    waits for an accelerator holds up nothing else, and goes first once it is free: any slot will do for the rest.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: defaultdict[str | None, deque[Work]] = defaultdict(deque)
        self._busy: set[str] = set()
        self._closed = False

    def put(self, work: Work, accelerator: str | None = None) -> None:
        """Add a piece.

        Args:
            accelerator: What it holds while it runs; None for the CPU alone.
        """
        with self._changed:
            self._waiting[accelerator].append(work)
            self._changed.notify_all()

    @contextmanager
    def take(self) -> Iterator[Work | None]:
        """The next piece that may run, which holds its accelerator as long as the context lasts. Waits for one; gives
        None once this is closed and nothing is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready() or (self._closed and not any(self._waiting.values())))
            accelerator = next(iter(self._ready()), None)
            work = self._waiting[accelerator].popleft() if self._waiting[accelerator] else None
            if accelerator is not None:
                self._busy.add(accelerator)
            self._changed.notify_all()  # who waits for the last piece to be taken
        try:
            yield work
        finally:
            if accelerator is not None:
                with self._changed:
                    self._busy.remove(accelerator)
                    self._changed.notify_all()

    def _ready(self) -> list[str | None]:
        """What has a piece that may run now, accelerators before the CPU."""
        free = [place for place, works in self._waiting.items() if works and place not in self._busy]
        return sorted(free, key=lambda place: place is None)

    def close(self, *, discard: bool = False) -> None:
        """Let those who take end once nothing is left.

        Args:
            discard: What has not begun never will.
        """
        with self._changed:
            self._closed = True
            if discard:
                self._waiting.clear()
            self._changed.notify_all()

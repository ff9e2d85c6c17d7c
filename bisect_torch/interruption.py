"""Ctrl-C, SIGTERM and SIGHUP: the first ends a run with everything kept, a second one ends it at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """What these signals do while :meth:`watched`: they raise KeyboardInterrupt in the main thread, except where the
    first is only noted."""

    def __init__(self) -> None:
        self._count = 0
        self._holding = False

    @property
    def came(self) -> bool:
        """Whether one of the signals has come."""
        return self._count > 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take the signals over. One that is ignored, as under nohup, stays so."""
        before = {
            number: signal.signal(number, self._on_signal)
            for number in _SIGNALS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Work that takes a moment and must not be cut short by a first signal, such as writing what is known."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 1 or not self._holding:
            raise KeyboardInterrupt

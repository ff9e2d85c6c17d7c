"""Ctrl-C, SIGTERM and SIGHUP: the first ends a run with everything kept, a second one ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.01

_listening: list[Interruption | _FirstOnly] = []
"""Whose handlers stand now, the innermost last."""


def comes_again() -> None:
    """Raise the last signal's KeyboardInterrupt once more, in a moment: it was raised where none can leave, as in a
    destructor, and so got lost."""
    if _listening:
        _listening[-1].count -= 1
    main = threading.main_thread().ident or 0
    # A true signal, which also wakes what sleeps.
    threading.Timer(_AGAIN_S, signal.pthread_kill, (main, signal.SIGINT)).start()


@contextmanager
def interruptible() -> Iterator[None]:
    """While a command runs, the first Ctrl-C is a KeyboardInterrupt; another one goes to who listened before.

    So what cleans up after the first can't be torn apart by the next: that one ends the program.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or not callable(before):
        yield
        return
    mine = _FirstOnly(before)
    _listening.append(mine)
    try:
        signal.signal(signal.SIGINT, mine.on_signal)
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _listening.remove(mine)


class _FirstOnly:
    def __init__(self, before: Callable[[int, FrameType | None], object]) -> None:
        self.count = 0
        self._before = before

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            self._before(number, frame)
        raise KeyboardInterrupt


class Interruption:
    """What these signals do while :meth:`watched`: they raise KeyboardInterrupt in the main thread, except where the
    first is only noted.

    Attributes:
        count: Of the signals that came.
        began: Whether cells have begun to run: an interruption before that has nothing to keep.
    """

    def __init__(self) -> None:
        self.count = 0
        self.began = False
        self._holding = False

    @property
    def came(self) -> bool:
        """Whether one of the signals has come."""
        return self.count > 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take the signals over. One that is ignored, as under nohup, stays so."""
        before = {
            number: signal.signal(number, self._on_signal)
            for number in _SIGNALS
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        _listening.append(self)
        try:
            yield
        finally:
            _listening.remove(self)
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
        self.count += 1
        if self.count > 1 or not self._holding:
            raise KeyboardInterrupt

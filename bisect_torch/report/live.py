"""The live screen: a rich display on stderr, drawn anew only when what it shows has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO

from rich.console import Console, Group, OverflowMethod
from rich.live import Live
from rich.text import Text

from bisect_torch.engine.events import Event, Note, RunFinished
from bisect_torch.model import BuildProgress
from bisect_torch.report.progress import RunProgress
from bisect_torch.report.screen import counts_line, screen
from bisect_torch.report.text import Line, clean, for_encoding, seconds_words, wrap

FRAME_S = 0.25
"""Seconds between two looks at the state: four a second are enough to follow, and cost nothing beside torch."""

LARGEST_SHARE = 0.02
"""Of one core, for looking and drawing: a matrix of ten thousand cells is drawn less often."""


class LiveReport:
    """An observer that keeps a matrix on the screen; a context manager that leaves the terminal as it was.

    Args:
        stream: The terminal, usually stderr.
        console: Instead of one made for ``stream``.
        closing: Leave a last line with what came out; not needed where the summary follows on the same screen.
        confirming_hint: What the user can do about confirming that takes long.
    """

    def __init__(
        self, stream: TextIO, *, console: Console | None = None, closing: bool = True, confirming_hint: str = ""
    ) -> None:
        self._closing = closing
        self._console = console or Console(file=stream, highlight=False, markup=False, emoji=False)
        self._progress = RunProgress(confirming_hint=confirming_hint)
        self._lock = threading.Lock()
        self._shown: list[Line] = []
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="live report", daemon=True)
        self._live = Live(Text(""), console=self._console, auto_refresh=False, transient=True, redirect_stdout=False)

    def __enter__(self) -> LiveReport:
        self._live.start()
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._ticker.join()
        with suppress(OSError):
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Take in an event; what must not be missed is printed above the screen."""
        with self._lock:
            self._progress.apply(event)
        if isinstance(event, Note):
            where = f"{clean(event.build.name)}: " if event.build else "note: "
            self._print(where + clean(event.text), "yellow")
        elif isinstance(event, BuildProgress) and event.phase == "failed":
            self._print(f"{clean(event.build.name)}: no environment: {clean(event.message)}", "red")
        elif isinstance(event, RunFinished) and self._closing:
            how = "interrupted" if event.interrupted else "finished"
            self._print(f"{how} after {seconds_words(event.seconds)}: {counts_line(self._progress)}", "bold")

    def _print(self, text: str, style: str) -> None:
        """A line that stays, above the matrix; broken between words, so that an address in it stays whole."""
        lines = [((line, style),) for line in wrap(text.split(" "), self._console.width, indent="  ")]
        with suppress(OSError):  # the terminal is gone: the run goes on
            self._console.print(rich_lines(lines, self._console.encoding, overflow="ignore"), soft_wrap=True)

    def _tick(self) -> None:
        pause = FRAME_S
        while not self._stop.wait(pause):
            began = time.thread_time()
            with suppress(OSError):
                self.draw()
            pause = max(FRAME_S, (time.thread_time() - began) / LARGEST_SHARE)

    def draw(self) -> None:
        """Look at the state and draw it where it differs from what is shown."""
        size = self._console.size
        with self._lock:
            lines = screen(self._progress, size.width, size.height - 1, now=time.monotonic())
        if lines != self._shown:
            self._shown = lines
            self._live.update(rich_lines(lines, self._console.encoding), refresh=True)


def rich_lines(lines: Iterable[Line], encoding: str, *, overflow: OverflowMethod = "crop") -> Group:
    """The lines for rich, neither wrapped nor interpreted."""
    texts = []
    for line in lines:
        text = Text(no_wrap=True, overflow=overflow)
        for piece, style in line:
            text.append(for_encoding(piece, encoding), style=style or None)
        texts.append(text)
    return Group(*texts)

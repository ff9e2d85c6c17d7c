"""Which report fits the terminal, and how text gets there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TextIO

from bisect_torch.report.plain import PlainReport
from bisect_torch.report.plain import width_for as width_for
from bisect_torch.report.text import Line, for_encoding, plain

if TYPE_CHECKING:
    from bisect_torch.report.live import LiveReport


def decorated(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the cursor may be moved: a terminal that is not dumb.

    ``NO_COLOR`` is about colour alone, as its convention says: rich leaves the colours out, and the live matrix stays,
    which reads by its letters.
    """
    return stream.isatty() and environ.get("TERM", "") != "dumb"


def open_report(
    *,
    quiet: bool = False,
    stream: TextIO | None = None,
    environ: Mapping[str, str] | None = None,
    confirming_hint: str = "",
) -> AbstractContextManager[LiveReport | PlainReport]:
    """The observer for a run: live on a terminal, plain lines elsewhere.

    Args:
        quiet: Only notes and failures.
        stream: stderr when None.
        environ: The process's when None.
        confirming_hint: What the user can do about confirming that takes long; empty where there is nothing.
    """
    stream = sys.stderr if stream is None else stream
    if quiet or not decorated(stream, os.environ if environ is None else environ):
        return PlainReport(stream, quiet=quiet, confirming_hint=confirming_hint)
    from bisect_torch.report.live import LiveReport

    return LiveReport(stream, closing=not sys.stdout.isatty(), confirming_hint=confirming_hint)


def print_lines(lines: Sequence[Line], stream: TextIO | None = None) -> None:
    """Write lines to stdout (or ``stream``), with colour where it is welcome."""
    stream = sys.stdout if stream is None else stream
    if not decorated(stream, os.environ):
        stream.write(for_encoding(plain(lines), getattr(stream, "encoding", None)))
        return
    from rich.console import Console

    from bisect_torch.report.live import rich_lines

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    console.print(rich_lines(lines, console.encoding, overflow="ignore"), soft_wrap=True)

"""``--profile FILE``: a command's events, written as a trace when it ends, however it ends."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bisect_torch.redaction import Private
    from bisect_torch.report.profile import Collector, Profile


def add_profile_option(parser: argparse._ArgumentGroup) -> None:
    """Declare ``--profile``."""
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="write where the time goes, as a trace (JSON) for ui.perfetto.dev or chrome://tracing",
    )


class Profiling:
    """What a command needs to be profiled. Without ``--profile`` it does nothing.

    Args:
        path: Of the trace; None for no profile.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._collector: Collector | None = None
        self._private: Private | None = None
        if path is not None:
            from bisect_torch.cli.output import refuse_unwritable
            from bisect_torch.report.profile import Collector

            refuse_unwritable("--profile", path)
            self._collector = Collector()

    def step(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Around work of the command itself."""
        return contextlib.nullcontext() if self._collector is None else self._collector.step(what)

    def observing(self, observer: Callable[[Any], None]) -> Callable[[Any], None]:
        """An observer that is told the same, and by which the profile learns it."""
        collect = self._collector
        if collect is None:
            return observer

        def both(event: object) -> None:
            collect(event)
            observer(event)

        return both

    @contextlib.contextmanager
    def written(self, private: Private) -> Iterator[None]:
        """At the end, also by Ctrl-C or an error, write the trace and its summary.

        Args:
            private: What must not stand in it.

        Raises:
            InfrastructureError: It cannot be written, where nothing else had gone wrong.
        """
        try:
            yield
        finally:
            if self._collector is not None and self._path is not None:
                self._write(self._collector, self._path, private)

    def _write(self, collector: Collector, path: Path, private: Private) -> None:
        from bisect_torch.cli.output import write_whole
        from bisect_torch.errors import InfrastructureError
        from bisect_torch.report.profile import summary_lines, trace_text

        profile = _redacted(collector.profile(), private)
        try:
            write_whole(path, trace_text(profile).encode())
        except OSError as error:
            raise InfrastructureError(
                f"the profile {path} cannot be written: {error.strerror}", hint="the results are kept all the same"
            ) from error
        lines = [*summary_lines(profile), f"trace: {path}"]
        with contextlib.suppress(OSError):  # nobody reads any more
            sys.stderr.write("".join(f"{line}\n" for line in lines))
            sys.stderr.flush()


def _redacted(profile: Profile, private: Private) -> Profile:
    """Instances have the names that they have in results."""
    from bisect_torch.report.profile.spans import CELL, CONFIRMATION

    spans = tuple(
        dataclasses.replace(
            span,
            name=(private.instance if span.kind in (CELL, CONFIRMATION) else private.redact)(span.name),
            details=private.value(span.details),
        )
        for span in profile.spans
    )
    return dataclasses.replace(profile, spans=spans)

"""The tool, with a process that kills itself at a chosen moment: ``python -m tests.engine.dying MOMENT run …``.

Nothing of this is in the product: the functions that it calls at these moments are wrapped here, before it starts.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def before_moving(function: str, part: str) -> None:
    """Die when ``os.rename`` or ``os.replace`` is about to put something that is written into its place."""
    move = getattr(os, function)

    def moving(source: Any, target: Any, **options: Any) -> None:
        if part in os.fspath(target):
            die()
        move(source, target, **options)

    setattr(os, function, moving)


def before_calling(owner: object, name: str, *, nth: int = 1, also: Callable[..., object] = lambda *_: None) -> None:
    """Die when a function is called for the nth time; ``also`` is what it does before."""
    original = getattr(owner, name)
    calls = 0

    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            also(*arguments)
            die()
        return original(*arguments, **named)

    setattr(owner, name, called)


def in_half_a_record(nth: int) -> None:
    from bisect_torch.results import journal

    before_calling(journal, "_write_whole", nth=nth, also=lambda fd, line, size: os.write(fd, line[: len(line) // 2]))


def after_a_record(nth: int) -> None:
    from bisect_torch.results import journal

    before_calling(journal.Journal, "_sync_sometimes", nth=nth)


def in_half_the_parquet_file() -> None:
    from bisect_torch.results import parquet

    def begun(table: object, file: BinaryIO, beside: object) -> None:
        file.write(b"PAR1 and then nothing")
        file.flush()

    before_calling(parquet, "write_table", also=begun)


def before_the_journal_goes() -> None:
    from bisect_torch.results.journal import Journal

    before_calling(Journal, "remove_locked")


def while_workers_import() -> None:
    from bisect_torch.engine.worker_process import WorkerProcess

    before_calling(WorkerProcess, "_greet", also=lambda worker: time.sleep(0.3))


def when_the_worker_is_just_started() -> None:
    from bisect_torch.engine.worker_process import WorkerProcess

    before_calling(WorkerProcess, "_greet")


def in_a_confirmation() -> None:
    from bisect_torch.engine.events import CellFinished, Confirming
    from bisect_torch.report.plain import PlainReport

    tell = PlainReport.__call__
    confirming = False

    def told(self: PlainReport, event: Any) -> None:
        nonlocal confirming
        if confirming and isinstance(event, CellFinished):
            die()
        confirming = confirming or isinstance(event, Confirming)
        tell(self, event)

    PlainReport.__call__ = told  # type: ignore[method-assign]


def in_half_an_expansion() -> None:
    write_bytes = Path.write_bytes

    def writing(self: Path, data: bytes) -> int:
        if self.parent.name == "expansions":
            write_bytes(self, data[: len(data) // 2])
            die()
        return write_bytes(self, data)

    Path.write_bytes = writing  # type: ignore[method-assign]


def in_half_a_staged_package() -> None:
    write_bytes = Path.write_bytes

    def writing(self: Path, data: bytes) -> int:
        written = write_bytes(self, data[: len(data) // 2])
        die()
        return written

    Path.write_bytes = writing  # type: ignore[method-assign]


def while_checking_an_environment() -> None:
    from bisect_torch.environments import install

    before_calling(install.control, "check_identity")


MOMENTS: dict[str, Callable[[], None]] = {
    "before an answer of the index is kept": lambda: before_moving("replace", "/index-cache/"),
    "before a lock is kept": lambda: before_moving("replace", "/locks/"),
    "while checking an environment": while_checking_an_environment,
    "between install and rename": lambda: before_moving("rename", "/envs/2.2.0-"),
    "in half a staged package": in_half_a_staged_package,
    "when the worker is just started": when_the_worker_is_just_started,
    "while workers import": while_workers_import,
    "in half an expansion": in_half_an_expansion,
    "before an expansion is kept": lambda: before_moving("replace", "/expansions/"),
    "in half a record": lambda: in_half_a_record(6),
    "after a record": lambda: after_a_record(6),
    "in a confirmation": in_a_confirmation,
    "in half the Parquet file": in_half_the_parquet_file,
    "before the Parquet file is in its place": lambda: before_moving("replace", "/results.parquet"),
    "before the journal goes": before_the_journal_goes,
}

if __name__ == "__main__":
    MOMENTS[sys.argv[1]]()
    from bisect_torch.cli.main import main

    del sys.argv[1]
    sys.exit(main())

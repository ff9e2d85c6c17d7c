"""What a worker is asked for: one cell, or tests of a suite in one process."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bisect_torch.model import Isolation, Scalar


@dataclasses.dataclass(frozen=True)
class CellRequest:
    """One repeat of a cell, as a worker needs it.

    Args:
        file: The case file or script; for a command, its working directory.
        kind: ``case``, ``script``, ``command`` or ``pytest``.
        case: The case's name.
        timeout_s: From the moment when the cell is ready (everything imported) to its result.
        load_timeout_s: Limit on getting ready.
        memory_bytes: Limit on the growth of resident memory; None for no limit.
        isolation: A fork where the worker can fork, or an interpreter of its own.
        full_teardown: A fork, too, ends as an interpreter does. Cells with their own interpreter always do.
        seed: For cases; scripts and commands are never seeded.
        argv: The words of a command, or those for pytest.
        tests: For pytest: path of the file and what stands after ``::`` of each test; none to only list them.
        bad_if_output: Regular expression; a match in the output means that the cell is wrong.
        cwd: Working directory of scripts, commands and pytest; the orchestrator's own when None. A case has an empty
            folder.
        needs_compile: The file uses ``torch.compile``: what that needs is loaded before the clock starts.
        native_stack: Before a timeout's kill, take the native stacks as well (up to 10 s, needs gdb).
        thorough: What ``bisect_torch.thorough()`` gives.
        since_ns: Files that were changed from then on (nanoseconds since the epoch) count as read wherever they lie; 0
            for none.
    """

    file: Path
    kind: str
    case: str
    parameters: Mapping[str, Scalar] = dataclasses.field(default_factory=dict)
    device: str = "cpu"
    timeout_s: float = 60.0
    load_timeout_s: float = 600.0
    memory_bytes: int | None = None
    isolation: Isolation = Isolation.FORK
    full_teardown: bool = False
    seed: int | None = None
    argv: tuple[str, ...] = ()
    tests: tuple[tuple[str, str], ...] = ()
    bad_if_output: str | None = None
    cwd: Path | None = None
    needs_compile: bool = False
    native_stack: bool = False
    thorough: bool = False
    since_ns: int = 0

    def to_message(self) -> dict[str, Any]:
        """As it travels."""
        message = dataclasses.asdict(self)
        message.update(
            file=str(self.file),
            isolation=self.isolation.value,
            cwd=str(self.cwd or Path.cwd()),
            parameters=dict(self.parameters),
        )
        return message

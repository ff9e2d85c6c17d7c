"""How a cell ended."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from bisect_torch.worker.output import BoundedOutput


class Ending:
    """How a cell ended, as its supervisor saw it.

    Args:
        status: As ``os.waitpid`` gives it.
        started: The cell's own code ran; without that, its interpreter did not start.
        phase: ``load``, ``run`` or ``exit`` (after the result).
        result: The cell's last result message, None when it sent none.
        timed_out: We killed it because its time was over.
        over_memory: Resident bytes that made us kill it.
        kernel_killed: The kernel's counter of kills for lack of memory went up while it ran.
        ignored: Exceptions that it has told of as they happened, though Python passes over them.
        peak_bytes: Largest growth seen at a tick, 0 when memory was not watched.
        began_ns: When it was started, in nanoseconds since the epoch, by the clock that files are dated with; 0 where
            that is not known.
        read: What it read beside its case file: see :func:`bisect_torch.worker.beside.read_files`.
    """

    def __init__(self) -> None:
        self.status = 0
        self.started = False
        self.phase = "load"
        self.result: Optional[Dict[str, Any]] = None
        self.timed_out = False
        self.over_memory: Optional[int] = None
        self.kernel_killed = False
        self.ignored: List[str] = []
        self.peak_bytes = 0
        self.began_ns = 0
        self.read: Dict[str, str] = {}
        self.stack = ""
        self.elapsed_s = 0.0
        self.stdout = BoundedOutput()
        self.stderr = BoundedOutput()

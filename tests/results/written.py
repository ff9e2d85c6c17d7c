"""Results files for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bisect_torch.model import Observation
from bisect_torch.results import ResultsFile

HOST = {"cpu": "AMD EPYC", "cores": 2, "memory_bytes": 8 * 10**9, "system_release": "6.1", "libc": "glibc 2.36"}


def write(path: Path, observations: Iterable[Observation], *, ended: bool = True, **manifest: object) -> Path:
    """A results file of one run; one that has not ended leaves its journal only."""
    made = tuple(observations)
    run: Mapping[str, object] = {
        "run_id": made[0].run_id if made else "run",
        "started_at": "2026-11-30T08:00:00+00:00",
        "ended_at": "2026-11-30T09:00:00+00:00" if ended else None,
        "tool_version": "0.1.0",
        "builds": sorted({each.build_name for each in made}),
        "host": HOST,
        **manifest,
    }
    with ResultsFile.open(path) as file:
        file.begin(run)
        for each in made:
            file.append(each)
        if ended:
            file.finish(run)
    return path

"""What a results file carries beside its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bisect_torch.redaction import Private


@dataclass(frozen=True)
class Metadata:
    """What a results file carries beside its rows.

    Args:
        runs: Manifest of every run that contributed, oldest first; each has a ``run_id``, and the facts on its host.
        locks: Lock hash to the lock's text.
        sources: SHA-256 to text of the case files that ran and of the neighbours that they imported.
    """

    runs: tuple[Mapping[str, object], ...] = ()
    locks: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    def redacted(self, private: Private) -> Metadata:
        """Without anything private. A text that had to be changed no longer has the hash that it stands under."""
        return Metadata(
            runs=tuple(private.manifest(run) for run in self.runs),
            locks={digest: private.redact(text) for digest, text in self.locks.items()},
            sources={digest: private.redact(text) for digest, text in self.sources.items()},
        )

    def with_more(self, other: Metadata) -> Metadata:
        """What this and a later one say together; of a run, the last manifest counts."""
        return Metadata(
            runs=merge_runs(self.runs, other.runs),
            locks={**self.locks, **other.locks},
            sources={**self.sources, **other.sources},
        )


def merge_runs(
    first: Iterable[Mapping[str, object]], then: Iterable[Mapping[str, object]]
) -> tuple[Mapping[str, object], ...]:
    """Manifests by run, oldest run first. The last one of a run counts, but none that says that it ended gives way to
    one that does not: files may be merged in any order."""
    by_run: dict[object, Mapping[str, object]] = {}
    for manifest in (*first, *then):
        known = by_run.get(manifest.get("run_id"))
        if known is None or manifest.get("ended_at") is not None or known.get("ended_at") is None:
            by_run[manifest.get("run_id")] = manifest
    return tuple(sorted(by_run.values(), key=lambda manifest: str(manifest.get("started_at") or "")))

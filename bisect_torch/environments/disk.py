"""A short disk: environments in groups that fit it, one group at a time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

OWN_BYTES = 60_000_000
"""What is each environment's own: bytecode of torch, and the stamp."""

SAFETY = 1.05
"""Sizes are those of the wheels' files; a file system rounds each of them up to blocks."""


def gb(size: float) -> str:
    """Bytes as ``14.1 GB``, in decimal units."""
    return f"{size / 1e9:.1f} GB"


@dataclass(frozen=True)
class DiskBudget:
    """What may lie on the disk at once, and what each environment puts there.

    Environments made from the same wheels share their files, so that releases of one CUDA version take little more
    together than one of them.

    Args:
        room_bytes: For the environments of one group and the cache that they are linked from.
        parts: Build name to the wheels that its environment adds to the disk: SHA-256 to unpacked bytes. Empty for an
            environment that is there.
        reason: Why not all are made at once, in words.
    """

    room_bytes: int
    parts: Mapping[str, Mapping[str, int]]
    reason: str

    def bytes_of(self, names: Sequence[str]) -> int:
        """What the environments of a group take together."""
        wheels: dict[str, int] = {}
        for name in names:
            wheels.update(self.parts[name])
        own = sum(OWN_BYTES for name in names if self.parts[name])
        return int(SAFETY * (sum(wheels.values()) + own))

    def too_large(self, names: Sequence[str]) -> tuple[str, ...]:
        """The builds that do not fit even alone."""
        return tuple(name for name in names if self.bytes_of([name]) > self.room_bytes)

    def refusal(self, name: str) -> str | None:
        """Why no environment of a build can be made; None where it fits."""
        if not self.too_large([name]):
            return None
        return f"its environment needs {gb(self.bytes_of([name]))}, there is room for {gb(self.room_bytes)}"

    def groups(self, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Part builds into groups of neighbours that each fit, with as little to download twice as can be.

        A build that does not fit even alone stands in a group of its own.

        Args:
            names: In release order.
        """
        # best[i]: least bytes to write for the first i builds, then fewest groups; and where the last group begins.
        best: list[tuple[int, int, int]] = [(0, 0, 0)]
        for end in range(1, len(names) + 1):
            choices = []
            for start in range(end - 1, -1, -1):
                size = self.bytes_of(names[start:end])
                if size > self.room_bytes and end - start > 1:
                    break  # further back only adds to it
                choices.append((best[start][0] + size, best[start][1] + 1, start))
            best.append(min(choices))
        groups: list[tuple[str, ...]] = []
        end = len(names)
        while end:
            start = best[end][2]
            groups.insert(0, tuple(names[start:end]))
            end = start
        return tuple(groups)

"""One part of a matrix, such that several machines together run all of it. Pure: no input, no output, no clock."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisect_torch.cases import Discovered, matching
from bisect_torch.model import Build, CaseKind, Instance


class ShardBy(str, enum.Enum):
    """Along what a matrix is cut."""

    CASE = "case"  # whole rows: each instance on every build
    BUILD = "build"  # whole columns: every instance on neighbouring builds


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``count``, from 1.

    It hangs on the command line, the case files and the builds alone, so that machines that know nothing of each other
    come to disjoint parts, whatever each has kept from earlier runs.
    """

    number: int
    count: int
    by: ShardBy = ShardBy.CASE

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def builds(self, builds: Sequence[Build]) -> tuple[Build, ...]:
        """Its builds: a run of neighbours, so that most transitions lie whole in one part; all in a part by case."""
        first, end = self._bounds(len(builds))
        return tuple(builds[first:end])

    def holds_ends(self, builds: int) -> tuple[bool, bool]:
        """Whether the first and the last of so many builds are among its own."""
        first, end = self._bounds(builds)
        return first == 0 < end, first < end == builds

    def _bounds(self, builds: int) -> tuple[int, int]:
        if self.by is ShardBy.CASE:
            return 0, builds
        return builds * (self.number - 1) // self.count, builds * self.number // self.count

    def instances(self, instances: Sequence[Instance], start: int) -> tuple[Instance, ...]:
        """Its share of the instances of a file, dealt out one by one; all of them in a part by build.

        Tests of a suite go by a hash of their file's bytes and their name instead: which tests there are differs from
        build to build, and what a machine has kept decides in which order they come to be known.

        Args:
            start: How many instances of other files come before them, see :func:`starts`.
        """
        if self.by is ShardBy.BUILD:
            return tuple(instances)
        return tuple(
            instance
            for place, instance in enumerate(instances, start)
            if (_place_of_test(instance) if instance.case.file.kind is CaseKind.PYTEST else place) % self.count
            == self.number - 1
        )


def _place_of_test(instance: Instance) -> int:
    known_by = f"{instance.case.file.sha256} {instance.name}".encode()
    return int.from_bytes(hashlib.sha256(known_by).digest()[:8], "big")


def starts(discovered: Sequence[Discovered], select: str | None) -> Mapping[Path, int]:
    """At which place the instances of each file begin.

    Files that a worker must expand count as empty, also where their expansion is known from before: another machine may
    not know it. So each of them makes parts differ by at most one instance more.
    """
    found, place = {}, 0
    for item in discovered:
        found[item.file.path] = place
        instances = item.instances or ()
        place += len(matching(instances, select) if select else instances)
    return found

"""The verdicts of an instance over builds, where they change, and where a search ended."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

from bisect_torch.model.observations import Judgement


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """All repeats of one cell, judged: one place in a series.

    Args:
        build: The build's name.
        judgement: Of the repeats together; when they differ, of the worst (any bad before ok).
        flaky: Repeats gave different signatures.
        counts: Signature to number of repeats that gave it.
        processes: Number of different worker processes among the judged repeats.
        own_process: Whether one of them was an interpreter of its own with full teardown.
        in_forks: What all forks of a worker answered, where it differs from the answer of all interpreters of their
            own: the latter counts, since ``python file.py`` is one. None where they do not differ.
        elapsed_s: Median.
        rel_error: Largest.
        digests: Distinct output digests, sorted.
    """

    build: str
    judgement: Judgement
    flaky: bool = False
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    processes: int = 0
    own_process: bool = False
    in_forks: str | None = None
    elapsed_s: float | None = None
    rel_error: float | None = None
    digests: tuple[str, ...] = ()

    @property
    def solid(self) -> bool:
        """Whether it may be the end of a transition."""
        return self.judgement.verdict.judged and not self.flaky


@dataclasses.dataclass(frozen=True)
class Series:
    """The points of one instance on one device, over builds in release order. ``None`` stands for a cell not run.

    Args:
        alike: The points without the numbers that were measured in each, where many series share them as one object.
    """

    case_file: str
    instance: str
    device: str
    builds: tuple[str, ...]
    points: Sequence[Point | None]
    alike: Sequence[Point | None] | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def answers(self) -> Sequence[Point | None]:
        """What was answered on each build: the points, of which ``elapsed_s``, ``rel_error`` and ``digests`` may lack.

        Series that went alike may share them, so that it is enough to look at them once: see
        :func:`bisect_torch.analysis.alike`.
        """
        return self.points if self.alike is None else self.alike


class TransitionKind(str, enum.Enum):
    """In which way two neighbours differ."""

    BROKE = "broke"  # ok, then bad
    FIXED = "fixed"  # bad, then ok
    BECAME_SILENT = "became silent"  # error, crash, timeout or oom, then wrong
    CHANGED = "changed"  # bad on both sides, other signature
    APPEARED = "appeared"  # the API was absent, then there
    DISAPPEARED = "disappeared"


@dataclasses.dataclass(frozen=True)
class Transition:
    """Two neighbouring judged builds whose verdict or signature differs.

    Args:
        before: The older end.
        after: The newer end.
        between: Builds between them that could not be judged, were flaky or were not run, with the reason.
        confirmed: Both ends were run in at least three worker processes, one of them an interpreter of its own.
    """

    kind: TransitionKind
    series: Series
    before: Point
    after: Point
    between: tuple[tuple[str, str], ...] = ()
    confirmed: bool = False


@dataclasses.dataclass(frozen=True)
class Boundary:
    """Where a search ended: two builds that were judged and differ, with nothing left between them that may be judged.

    Args:
        last_good: Newest build known to have the old signature.
        first_bad: Oldest build known to have the new one.
        between: Builds between them that could not be judged, with the reason. Empty means tight.
        confidence: Posterior probability of the boundary, 0 to 1; 1.0 where no repeat of a build differed.
    """

    last_good: str
    first_bad: str
    between: tuple[tuple[str, str], ...] = ()
    confidence: float = 1.0

    @property
    def tight(self) -> bool:
        """Whether the two builds are neighbours."""
        return not self.between

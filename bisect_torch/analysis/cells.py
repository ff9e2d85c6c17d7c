"""All repeats of one cell become a point. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from bisect_torch.model import Isolation, Judgement, Observation, Point, Verdict

Build = TypeVar("Build", bound=Hashable)

_WORST_FIRST = (
    Verdict.CRASH, Verdict.TIMEOUT, Verdict.OOM, Verdict.ERROR, Verdict.WRONG, Verdict.OK,
    Verdict.BROKEN, Verdict.UNINSTALLABLE, Verdict.SKIP, Verdict.INFRA, Verdict.UNDECIDABLE,
)  # fmt: skip
OWN_TO_TELL = 3
"""Interpreters of their own that must agree before their answer counts against that of all forks: as many as any end of
a transition needs. A case that gives one answer with probability p and another with q = 1 - p then passes for one that
does not depend on chance with a probability of at most pq(p**2 + q**2) <= 1/8; three processes that agree by chance,
which any end may be, have p**3 + q**3 >= 1/4."""


@dataclass(frozen=True)
class Cell:
    """All repeats of one cell with what each of them means, in the order in which they were observed."""

    repeats: tuple[tuple[Observation, Judgement], ...]

    @property
    def judged(self) -> tuple[tuple[Observation, Judgement], ...]:
        """The repeats that say something about the build."""
        return tuple(pair for pair in self.repeats if pair[1].verdict.judged)

    @property
    def forked(self) -> bool:
        """Whether it is a cell that runs in forks of a worker."""
        return any(o.isolation == Isolation.FORK.value for o, _ in self.repeats)

    @property
    def in_session(self) -> bool:
        """Whether it is a test that runs in one interpreter with the others of its suite."""
        return any(o.isolation == Isolation.SESSION.value for o, _ in self.repeats)

    @property
    def own_to_confirm(self) -> int:
        """How many more interpreters of their own are wanted, where so far they all differ from all forks alike."""
        return answer_of([(o.isolation, judgement) for o, judgement in self.repeats]).own_to_confirm

    def point(self, build: str) -> Point:
        """The cell in a series.

        Args:
            build: Name of its build.
        """
        answer = answer_of([(o.isolation, judgement) for o, judgement in self.repeats])
        return point_of(build, answer, [o for o, _ in self.judged])


@dataclass(frozen=True)
class Answer:
    """What all repeats of a cell mean together; see :class:`~bisect_torch.model.Point` for the fields of that name.

    Args:
        own_to_confirm: How many more interpreters of their own are wanted.
    """

    judgement: Judgement
    flaky: bool
    counts: Mapping[str, int]
    own_process: bool
    in_forks: str | None
    own_to_confirm: int


def answer_of(repeats: Sequence[tuple[str | None, Judgement]]) -> Answer:
    """What repeats mean together.

    Args:
        repeats: Isolation and judgement of each, at least one.
    """
    return _answer_of_one(*repeats[0]) if len(repeats) == 1 else _answer_of_several(repeats)


def _answer_of_one(isolation: str | None, judgement: Judgement) -> Answer:
    """What nearly all cells have, in a fifth of the time."""
    judged = judgement.verdict.judged
    own = judged and isolation == Isolation.PROCESS.value
    return Answer(judgement, False, {judgement.signature: 1} if judged else {}, own, None, 0)


def _answer_of_several(repeats: Sequence[tuple[str | None, Judgement]]) -> Answer:
    judged = [pair for pair in repeats if pair[1].verdict.judged]
    counts = Counter(judgement.signature for _, judgement in judged)
    undecided = [judgement for _, judgement in repeats if judgement.verdict is Verdict.UNDECIDABLE]
    own = _own(judged)
    own_answer = _own_answer(judged)
    own_to_confirm = 0 if own_answer is None else max(0, OWN_TO_TELL - len(own))
    flaky = len(counts) > 1
    in_forks = None
    if own_answer is not None and not own_to_confirm:
        judgement, flaky = own_answer, False
        in_forks = next(j.signature for isolation, j in judged if isolation != Isolation.PROCESS.value)
    elif undecided and not flaky:
        judgement = undecided[0]
    else:
        candidates = [judgement for _, judgement in judged or repeats]
        judgement = min(candidates, key=lambda each: (_WORST_FIRST.index(each.verdict), each.signature))
    return Answer(judgement, flaky, dict(sorted(counts.items())), bool(own), in_forks, own_to_confirm)


class Measured(Protocol):
    """What of a repeat enters a point as a number: an observation has it."""

    @property
    def worker(self) -> str | None:
        """Id of the process that ran the cell, or forked it."""

    @property
    def elapsed_s(self) -> float | None:
        """Seconds that it took."""

    @property
    def rel_error(self) -> float | None:
        """max |out - ref| / max |ref|."""

    @property
    def digest(self) -> str | None:
        """Of its output."""


def point_of(build: str, answer: Answer, judged: Sequence[Measured]) -> Point:
    """The point of a cell.

    Args:
        judged: Its judged repeats.
    """
    elapsed = [each.elapsed_s for each in judged if each.elapsed_s is not None]
    errors = [each.rel_error for each in judged if each.rel_error is not None]
    return Point(
        build=build,
        judgement=answer.judgement,
        flaky=answer.flaky,
        counts=answer.counts,
        processes=len({each.worker for each in judged}),
        own_process=answer.own_process,
        in_forks=answer.in_forks,
        elapsed_s=_median(elapsed) if elapsed else None,
        rel_error=max(errors) if errors else None,
        digests=tuple(sorted({each.digest for each in judged if each.digest is not None})),
    )


def _median(values: Sequence[float]) -> float:
    """As that of ``statistics``, which loads fractions, decimal and random: a whole run has no other use for them."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _own(judged: Sequence[tuple[str | None, Judgement]]) -> list[Judgement]:
    return [judgement for isolation, judgement in judged if isolation == Isolation.PROCESS.value]


def _own_answer(judged: Sequence[tuple[str | None, Judgement]]) -> Judgement | None:
    """What every interpreter of its own answered, where every fork gave one other answer.

    That is no chance but the isolation: a fork that leaves at once hides a crash at exit, and a worker that has loaded
    the compiler has names in torch that a plain ``import torch`` lacks. An interpreter of its own is what
    ``python file.py`` is, so its answer is the one that counts.
    """
    own = _own(judged)
    forked = {j.signature for isolation, j in judged if isolation != Isolation.PROCESS.value}
    if not own or len(forked) != 1 or len({j.signature for j in own}) != 1 or own[0].signature in forked:
        return None
    return own[0]


def current(facts: Sequence[tuple[Hashable, Build, Hashable, Hashable]]) -> dict[Build, list[int]]:
    """Which observations of a row count, of several generations, keys and runs of the same repeat.

    Args:
        facts: Generation, build, key and repeat of each, oldest first; at least one.

    Returns:
        Build to the places of those that count, in their order.
    """
    generation = facts[-1][0]
    newest_key = {build: key for of, build, key, _ in facts if of == generation}
    repeats: dict[Build, dict[Hashable, int]] = {}
    for place, (of, build, key, repeat) in enumerate(facts):
        if of == generation and key == newest_key[build]:
            known = repeats.setdefault(build, {})
            known.pop(repeat, None)
            known[repeat] = place
    return {build: list(known.values()) for build, known in repeats.items()}

"""Whether what somebody's results claim was seen here too. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bisect_torch.analysis.transitions import confirmed
from bisect_torch.model import Point, Transition


class Answer(str, enum.Enum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CANNOT_SAY = "cannot say"


@dataclass(frozen=True)
class Verified:
    """One claim, and what was seen here.

    Args:
        claim: As the file tells it.
        before: The point of its older end here; None where it did not run.
        after: That of the newer end.
        reason: Why it was not reproduced, or why nothing can be said; empty when it was reproduced.
        differences: What is not as it was there: machine class, Python, dependencies.
    """

    claim: Transition
    answer: Answer
    before: Point | None = None
    after: Point | None = None
    reason: str = ""
    differences: tuple[str, ...] = ()


def verified(claim: Transition, before: Point | None, after: Point | None, differences: Sequence[str] = ()) -> Verified:
    """Compare both ends with what is claimed of them.

    Both ends must have the claimed signatures in as many processes as a transition needs. Where they have others, it
    was not reproduced, unless something else differs that may be why: then nothing can be said.
    """
    ends = ((claim.before, before), (claim.after, after))
    for claimed, seen in ends:
        problem = _unjudged(claimed, seen)
        if problem:
            return Verified(claim, Answer.CANNOT_SAY, before, after, problem, tuple(differences))
    other = "; ".join(_otherwise(claimed, seen) for claimed, seen in ends if seen and not _same(claimed, seen))
    if not other:
        return Verified(claim, Answer.REPRODUCED, before, after, differences=tuple(differences))
    if differences:
        return Verified(claim, Answer.CANNOT_SAY, before, after, other, tuple(differences))
    return Verified(claim, Answer.NOT_REPRODUCED, before, after, other)


def _same(claimed: Point, seen: Point) -> bool:
    ours, theirs = seen.judgement, claimed.judgement
    return ours.signature == theirs.signature and ours.api_absent == theirs.api_absent


def _unjudged(claimed: Point, seen: Point | None) -> str:
    """Why a point says nothing about the claim; empty where it does."""
    if seen is None:
        return f"{claimed.build} did not run"
    judgement = seen.judgement
    if not judgement.verdict.judged:
        return f"{claimed.build}: {judgement.verdict.value}{f': {judgement.reason}' if judgement.reason else ''}"
    if seen.flaky and claimed.judgement.signature in seen.counts:
        counts = ", ".join(f"{signature} {count}" for signature, count in seen.counts.items())
        return f"{claimed.build} is flaky here ({counts})"
    if not seen.flaky and _same(claimed, seen) and not confirmed(seen):
        return f"{claimed.build} ran in too few processes to be sure"
    return ""


def _otherwise(claimed: Point, seen: Point) -> str:
    return f"{claimed.build} is {seen.judgement.signature} here, not {claimed.judgement.signature}"


def exit_code(found: Iterable[Verified]) -> int:
    """0: all claims were reproduced; 1: one was not; 3: nothing can be said of one, or there is none."""
    answers = {each.answer for each in found}
    if Answer.NOT_REPRODUCED in answers:
        return 1
    return 0 if answers == {Answer.REPRODUCED} else 3

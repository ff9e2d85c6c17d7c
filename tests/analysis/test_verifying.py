"""What two points seen here say about a claim."""

from __future__ import annotations

import pytest

from bisect_torch.analysis.verifying import Answer, exit_code, verified
from bisect_torch.model import Judgement, Point, Series, Transition, TransitionKind, Verdict

SERIES = Series("x.py", "f", "cpu", ("1", "2"), (None, None))


def point(build: str, signature: str, *, processes: int = 3, own: bool = True, **more: object) -> Point:
    judgement = Judgement(Verdict(signature.partition(":")[0]), signature)
    return Point(build, judgement, processes=processes, own_process=own, **more)  # type: ignore[arg-type]


CLAIM = Transition(TransitionKind.BROKE, SERIES, point("1", "ok"), point("2", "wrong"))
OK, WRONG = point("1", "ok"), point("2", "wrong")


@pytest.mark.parametrize(
    ("before", "after", "differences", "answer"),
    [
        (OK, WRONG, (), Answer.REPRODUCED),
        (OK, WRONG, ("another Python",), Answer.REPRODUCED),
        (OK, point("2", "ok"), (), Answer.NOT_REPRODUCED),
        (OK, point("2", "crash:SIGSEGV"), (), Answer.NOT_REPRODUCED),
        (OK, point("2", "ok"), ("another Python",), Answer.CANNOT_SAY),
        (OK, None, (), Answer.CANNOT_SAY),
        (OK, point("2", "broken"), (), Answer.CANNOT_SAY),
        (OK, point("2", "wrong", processes=2), (), Answer.CANNOT_SAY),
        (OK, point("2", "wrong", own=False), (), Answer.CANNOT_SAY),
        (OK, point("2", "wrong", flaky=True, counts={"wrong": 2, "ok": 1}), (), Answer.CANNOT_SAY),
        (OK, point("2", "oom", flaky=True, counts={"oom": 2, "ok": 1}), (), Answer.NOT_REPRODUCED),
    ],
)
def test_answers(before: Point, after: Point | None, differences: tuple[str, ...], answer: Answer) -> None:
    found = verified(CLAIM, before, after, differences)
    assert found.answer is answer
    assert bool(found.reason) == (answer is not Answer.REPRODUCED)


def test_exit_codes() -> None:
    good, bad = verified(CLAIM, OK, WRONG), verified(CLAIM, OK, point("2", "ok"))
    open_ = verified(CLAIM, OK, None)
    assert [exit_code(each) for each in ([good], [good, open_], [open_, bad], [])] == [0, 3, 1, 3]

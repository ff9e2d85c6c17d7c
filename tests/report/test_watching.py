"""What ``watch`` shows of a state."""

from __future__ import annotations

import io
from pathlib import Path

from bisect_torch.engine.watching import WatchState
from bisect_torch.model import Judgement, Point, Series, Verdict
from bisect_torch.report.text import plain
from bisect_torch.report.watching import PipeReport, watch_lines

BUILDS = ("2.1.0", "2.2.0")


def series(*signatures: str, processes: int = 1) -> Series:
    points = tuple(
        None
        if signature == "?"
        else Point(
            build,
            Judgement(Verdict(signature.partition(":")[0]), signature, "no kernel" if ":" in signature else ""),
            counts={signature: processes},
            processes=processes,
            own_process=processes > 1,
        )
        for build, signature in zip(BUILDS, signatures, strict=True)
    )
    return Series("cases.py", "bmm", "cpu", BUILDS, points)


def shown(state: WatchState) -> str:
    return plain(watch_lines(state, 100))


def state(found: Series, **more: object) -> WatchState:
    return WatchState(Path("cases.py"), BUILDS, 2, (found,), **more)  # type: ignore[arg-type]


def test_a_matrix_that_fills_up_says_how_far_it_is() -> None:
    text = shown(state(series("ok", "?")))
    assert "cases.py · save 2 · running, 1/2" in text
    assert "· ok" in text


def test_a_transition_is_marked_until_it_is_confirmed() -> None:
    doubtful = shown(state(series("ok", "error:A"), ended=True, seconds=0.4, confirming=4))
    sure = shown(state(series("ok", "error:A", processes=3), ended=True, seconds=0.4, confirming=0))
    assert "2 cells in 0.4 s · confirming, 4 more" in doubtful
    assert "bmm: ok up to 2.1.0, error:A from 2.2.0 on (? not confirmed yet)" in doubtful
    assert "bmm: ok up to 2.1.0, error:A from 2.2.0 on\n" in sure
    assert "2.2.0 raises A: no kernel" in sure


def test_what_a_save_has_changed_is_said() -> None:
    was = (series("ok", "wrong"),)
    assert "as before this save" in shown(state(series("ok", "wrong"), ended=True, seconds=1.0, before=was))
    assert "changed by this save: 2.2.0 wrong → ok" in shown(
        state(series("ok", "ok"), ended=True, seconds=1.0, before=was)
    )


def test_a_repro_that_separates_nothing_is_told() -> None:
    assert "does not separate" in shown(state(series("ok", "ok"), ended=True, seconds=1.0))


def test_a_problem_is_one_line_above_the_last_matrix() -> None:
    text = shown(state(series("ok", "wrong"), ended=True, seconds=1.0, problem="cases.py:3: invalid\x1b[31m syntax"))
    lines = text.splitlines()
    assert lines[0] == "cases.py · save 2 · not run; this is the last matrix"
    assert lines[1] == "cases.py:3: invalid\\x1b[31m syntax"
    assert "W" in text


def test_in_a_pipe_a_matrix_comes_once_for_each_save() -> None:
    stream = io.StringIO()
    report = PipeReport(stream, 80)
    whole = state(series("ok", "wrong"), ended=True, seconds=1.0)
    for each in (state(series("ok", "?")), whole, whole, state(series("ok", "wrong"), ended=True, confirming=0)):
        report(each)
    for _ in range(2):
        report(state(series("ok", "wrong"), problem="cases.py is gone"))
    text = stream.getvalue()
    assert text.count("save 2 · 2 cells") == 1
    assert text.count("save 2: confirmed") == 1
    assert text.count("cases.py is gone") == 1

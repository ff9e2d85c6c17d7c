"""What ``watch`` shows of a state."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

from bisect_torch.engine.watch import WatchState
from bisect_torch.model import Judgement, Observation, Point, Series, Verdict
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
    assert "changed by this save: bmm in 2.2.0 wrong → ok" in shown(
        state(series("ok", "ok"), ended=True, seconds=1.0, before=was)
    )


def test_long_lines_are_wrapped_and_nothing_is_cut() -> None:
    names = [f"product_of_many_matrices[dtype=bfloat16,batch={batch}]" for batch in (65520, 65536)]
    was = tuple(dataclasses.replace(series("ok", "wrong"), instance=name) for name in names)
    now = tuple(dataclasses.replace(series("ok", "error:NotImplementedError"), instance=name) for name in names)
    found = watch_lines(
        WatchState(Path("cases.py"), BUILDS, 2, now, before=was, ended=True, seconds=1.0, problem="why " * 30), 60
    )
    text = plain(found)
    assert "…" not in text
    assert all(len(line) <= 60 or " " not in line.strip() for line in text.splitlines())
    flat = " ".join(text.split())
    assert f"{names[1]}: ok up to 2.1.0, error:NotImplementedError from 2.2.0 on (? not confirmed yet)" in flat
    told = [f"{name} in 2.2.0 wrong → error:NotImplementedError" for name in names]
    assert f"changed by this save: {told[0]} and {told[1]}" in flat
    assert ("why " * 30).strip() in flat


def test_what_failed_is_told_in_the_words_of_its_message() -> None:
    message = "shape mismatch: value tensor of shape [4, 5] cannot be broadcast to indexing result of shape [4, 6]"
    raised = Observation(
        "key", "1", "2.2.0", "2.2.0", "release", "cases.py", "", "bmm", "bmm", "cpu", 0, "raised",
        error_type="RuntimeError", message=message, root_type="RuntimeError", root_message=message,
    )  # fmt: skip
    masked = "shape mismatch: value tensor of shape <shape> cannot be broadcast to indexing result of shape <shape>"
    found = series("ok", "error:RuntimeError")
    newest = found.points[1]
    assert newest is not None
    judged = dataclasses.replace(newest, judgement=dataclasses.replace(newest.judgement, detail=masked))
    found = dataclasses.replace(found, points=(found.points[0], judged))
    text = " ".join(shown(state(found, observations=(raised,))).split())
    assert f"2.2.0 raises RuntimeError: {message}" in text
    assert "<shape>" not in text


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

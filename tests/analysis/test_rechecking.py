"""What becomes of an earlier verdict on a new build, and when it is said."""

from __future__ import annotations

import dataclasses
import json
from itertools import product
from pathlib import Path

import pytest

from bisect_torch.analysis.rechecking import Change, exit_code, is_bad, rechecked, repeats_for
from bisect_torch.model import Build, BuildKind, Environment, Judgement, Point, Verdict
from bisect_torch.report.recheck import Recheck, recheck_data, recheck_lines
from bisect_torch.report.recheck_comment import comments
from bisect_torch.report.text import plain
from bisect_torch.results.said import news, read_said, write_said
from tests.report.histories import instance, observation

ROW = ("cases.py", "bmm", "cpu")


def point(signature: str, *, build: str = "2.9.0", sure: bool = True, counts: dict[str, int] | None = None) -> Point:
    verdict = Verdict(signature.partition(":")[0])
    return Point(
        build,
        Judgement(verdict, signature, reason="why" if not verdict.judged else ""),
        flaky=counts is not None,
        counts=counts or {signature: 3},
        processes=3 if sure else 2,
        own_process=sure,
    )


FLAKY = point("wrong", counts={"ok": 1, "wrong": 2})


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (point("wrong"), point("ok"), Change.FIXED),
        (point("wrong"), point("ok", sure=False), Change.UNJUDGED),
        (point("wrong"), point("wrong"), Change.STILL_BAD),
        (point("error:A"), point("error:B"), Change.FAILS_DIFFERENTLY),
        (point("error:A"), point("wrong"), Change.FAILS_DIFFERENTLY),
        (point("wrong"), FLAKY, Change.FLAKY),
        (FLAKY, point("ok"), Change.FIXED),
        (FLAKY, point("wrong"), Change.STILL_BAD),
        (point("ok"), point("wrong"), Change.NEWLY_BAD),
        (point("ok"), FLAKY, Change.NEWLY_BAD),
        (point("ok"), point("ok", sure=False), Change.STILL_OK),
        (point("wrong"), None, Change.UNJUDGED),
        *((point("wrong"), point(each), Change.UNJUDGED) for each in ("broken", "infra", "skip", "uninstallable")),
    ],
)
def test_every_pair_has_one_word(before: Point, after: Point | None, change: Change) -> None:
    assert rechecked(ROW, before, after).change is change


POINTS = [point(each) for each in ("ok", "wrong", "error:A", "crash:SIGSEGV", "broken", "skip")] + [FLAKY, None]


@pytest.mark.parametrize(("before", "after"), list(product([each for each in POINTS if each], POINTS)))
def test_exit_0_means_that_it_was_seen_to_be_ok(before: Point, after: Point | None) -> None:
    """Over every pair: 0 only where the new point is ok, 1 only where it is bad, 3 only where it says nothing."""
    if not before.judgement.verdict.judged:
        return
    code = exit_code([rechecked(ROW, before, after)])
    said = after is not None and after.judgement.verdict.judged
    assert code == (3 if not said else 1 if is_bad(after) else 0)  # type: ignore[arg-type]


def test_one_bad_row_outranks_one_that_could_not_be_judged() -> None:
    rows = [rechecked(ROW, point("wrong"), None), rechecked(ROW, point("wrong"), point("wrong"))]
    assert exit_code(rows) == 1
    assert exit_code([]) == 0


@pytest.mark.parametrize(
    ("counts", "repeats"), [({"ok": 1, "wrong": 1}, 5), ({"ok": 9, "wrong": 1}, 29), ({"ok": 999, "wrong": 1}, 30)]
)
def test_a_flaky_row_is_repeated_until_chance_is_unlikely(counts: dict[str, int], repeats: int) -> None:
    assert repeats_for([point("wrong", counts=counts)]) == repeats
    assert repeats_for([point("wrong"), point("ok")]) == 1


# --- what is said ---------------------------------------------------------------------------------------------


def test_a_day_that_cannot_be_judged_is_said_once_and_is_no_news_when_it_is_over(tmp_path: Path) -> None:
    path = tmp_path / "said.json"
    bad, lost, fixed = (
        rechecked(ROW, point("wrong"), after) for after in (point("wrong"), point("infra"), point("ok"))
    )
    told = []
    for row in (bad, bad, lost, lost, bad, fixed, fixed):
        said = read_said(path)
        told.append(len(news([row], said)))
        write_said(path, [row], said)
    assert told == [1, 0, 1, 0, 0, 1, 0]
    assert [each.name for each in tmp_path.iterdir()] == ["said.json"]


def test_rows_that_did_not_take_part_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "said.json"
    other = rechecked(("cases.py", "other", "cpu"), point("wrong"), point("wrong"))
    write_said(path, [other], {})
    write_said(path, [rechecked(ROW, point("wrong"), point("ok"))], read_said(path))
    assert len(json.loads(path.read_text())["rows"]) == 2
    assert news([other], read_said(path)) == []


def made(*rows: tuple[Point, Point | None]) -> Recheck:
    build = Build(BuildKind.LOCAL, "2.15.0", "/home/someone/torch/bin/python")
    environment = Environment(
        build, Path(), Path(), "3.11.7", "", {}, "2.15.0a0+git1", "abcdef0123456789", "13.0", "local"
    )
    found = tuple(
        rechecked(("/home/someone/cases.py", f"bmm[n={n},s=@me|`x`]", "cpu"), *pair) for n, pair in enumerate(rows)
    )
    return Recheck(build, environment, {}, found, found, {}, Path("results.parquet"), machine=("Linux", "AMD"))


def test_a_comment_is_short_and_names_no_path_and_nobody() -> None:
    local = point("wrong", build="/home/someone/old/bin/python")
    ((issue, text),) = comments(made(*[(local, point("ok"))] * 25, (local, None)))

    assert issue is None
    assert "someone" not in text
    assert "/home" not in text
    assert "25 fixed, 1 not judged" in text
    assert "a local torch" in text
    assert "torch 2.15.0a0+git1" in text
    assert "abcdef012345" in text
    assert "CUDA 13.0" in text
    assert "and 6 more" in text
    assert "s=@me\\|'x'" in text  # in backticks, where @ addresses nobody
    assert len(text.splitlines()) < 35


def test_an_error_of_a_package_beside_torch_is_said_to_be_of_it() -> None:
    error = point("error:AttributeError")
    found = made((error, error), (point("wrong"), error), (error, point("wrong")))
    environment = dataclasses.replace(found.environment, packages={"numpy": "2.4.1", "torch": "2.15.0"})
    facts = {"root_message": "module 'numpy' has no attribute 'trapz'"}
    seen = {row.row: [observation(instance("bmm"), "2.15.0", **facts)] for row in found.rows}
    found = dataclasses.replace(found, environment=environment, seen=seen)
    of_torch = {row.row: [observation(instance("bmm"), "2.15.0", frame="torch:f", frame_origin="torch")]
                for row in found.rows}  # fmt: skip

    from_numpy = "the error comes from numpy 2.4.1: a package beside torch, so this may not be torch's fault"
    for told in (plain(recheck_lines(found, 1000)), comments(found)[0][1]):
        assert told.count(from_numpy) == 2
    assert "comes from" not in plain(recheck_lines(dataclasses.replace(found, seen=of_torch), 1000))


def test_without_news_nothing_is_printed_and_the_data_is_whole() -> None:
    found = made((point("wrong"), point("ok")))
    silent = Recheck(**{**vars(found), "news": ()})

    assert recheck_lines(silent, 100) == []
    assert comments(silent) == []
    assert recheck_data(silent)["counts"] == {"fixed": 1}
    assert json.loads(json.dumps(recheck_data(silent)))["rows"][0]["news"] is False
    assert "fixed: 1 instance" in plain(recheck_lines(found, 100))


def test_what_may_not_have_run_is_not_said_to_be_fixed() -> None:
    found = rechecked(ROW, point("wrong"), point("ok"), unreached="T.test_a, which failed, is skipped")
    why = "ok, but what failed may not have run: T.test_a, which failed, is skipped"
    assert (found.change, found.reason) == (Change.UNJUDGED, why)
    assert rechecked(ROW, point("wrong"), point("wrong"), unreached="x").change is Change.STILL_BAD


def test_what_checks_nothing_is_no_longer_bad() -> None:
    found = rechecked(ROW, point("error:A"), point("ok"), only_ran=True)
    assert (found.change, exit_code([found])) == (Change.NO_LONGER_BAD, 0)
    assert rechecked(ROW, point("error:A"), point("ok", sure=False), only_ran=True).change is Change.UNJUDGED
    assert rechecked(ROW, point("error:A"), point("error:A"), only_ran=True).change is Change.STILL_BAD

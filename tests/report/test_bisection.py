"""What a search says, while it goes on and at its end."""

from __future__ import annotations

import dataclasses
import datetime
import io
import json

import pytest

from bisect_torch.analysis.question import Finished, Question, reading_of
from bisect_torch.analysis.search import step
from bisect_torch.analysis.series import build_series
from bisect_torch.engine.events import CellFinished, Confirming, Note, RunFinished, RunPlanned
from bisect_torch.engine.search.request import BisectResult, Judged, Judging, Repeating, Row, Weighed, Weighs
from bisect_torch.model import Boundary, Build, BuildKind, BuildProgress
from bisect_torch.report.bisection import BisectionReport, finer_words, row_words, search_data, search_lines
from bisect_torch.report.text import plain
from tests.analysis.made import observe
from tests.report.histories import instance, judgement, observation


def row(words: list[str | None], *, good: int | None = 0, bad: int | None = -1, judge_absent: bool = False) -> Row:
    """A row whose builds gave these words, None where it was not run."""
    builds = tuple(f"2.{minor}.0" for minor in range(1, len(words) + 1))
    seen = [observe(word, build=build) for word, build in zip(words, builds, strict=True) if word is not None]
    (series,) = build_series(seen, builds)
    question = Question(builds, None if good is None else builds[good], None if bad is None else builds[bad])
    readings = {
        point.build: reading_of(point, judge_absent=judge_absent) for point in series.points if point is not None
    }
    end = step(question, readings)
    assert isinstance(end, Finished)
    return Row(series, end)


WORDS = {
    "tight": (
        row(["ok", None, "ok", "wrong", "wrong"]),
        [
            "boundary: 2.3.0 | 2.4.0, tight",
            "not run, since the builds on both sides of them are alike: 2.2.0; `run` over all of them would show a "
            "change that came and went",
        ],
    ),
    "not tight": (
        row(["ok", "broken", "wrong"]),
        ["boundary: 2.1.0 | 2.3.0, not tight; untested between: 2.2.0 (broken: control case failed)"],
    ),
    "swapped": (
        row(["wrong", "ok"]),
        [
            "2.1.0 was named as good, but gives silently wrong values there; a change of verdict was searched for all "
            "the same",
            "2.2.0 was named as bad, but is ok there; a change of verdict was searched for all the same",
            "boundary: 2.1.0 | 2.2.0, tight",
        ],
    ),
    "both good": (
        row(["ok", "ok"]),
        [
            "2.2.0 was named as bad, but is ok there",
            "2.1.0 and 2.2.0 are alike, each is ok: there is nothing to search between them; should it show only "
            "sometimes: --flaky",
        ],
    ),
    "an end is replaced": (
        row(["uninstallable", "ok", "error:TypeError"]),
        [
            "2.1.0 cannot be judged (uninstallable: no wheel); 2.2.0 was taken instead, the nearest that can be",
            "boundary: 2.2.0 | 2.3.0, tight",
        ],
    ),
    "absent at the good end": (
        row(["api_absent", "wrong", "wrong"]),
        [
            "2.1.0 cannot be judged (it lacks torch.new); 2.2.0 was taken instead, the nearest that can be; --absent "
            "judge searches for where the API came or went",
            "2.2.0, which stands in for 2.1.0, named as good, gives silently wrong values",
            "2.2.0 and 2.3.0 are alike, each gives silently wrong values: there is nothing to search between them; "
            "should it show only sometimes: --flaky",
        ],
    ),
    "absent at both ends": (
        row(["api_absent", "api_absent"], judge_absent=True),
        [
            "2.1.0 was named as good, but lacks torch.new",
            "2.1.0 and 2.2.0 are alike, each lacks torch.new: there is nothing to search between them; should it show "
            "only sometimes: --flaky",
        ],
    ),
    "nothing can be judged": (
        row(["broken", "skip"]),
        [
            "2.1.0 cannot be judged (broken: control case failed)",
            "2.2.0 cannot be judged (skip: no such device)",
            "nothing was searched: fewer than two builds from 2.1.0 to 2.2.0 can be judged",
        ],
    ),
    "no opposite": (
        row(["wrong", "wrong", "wrong"], good=None),
        ["no opposite was found from 2.3.0 as far as 2.1.0, where the search ends (--from and --to move that)"],
    ),
}


def test_rows_that_went_alike_are_told_in_one_line() -> None:
    def named(name: str, words: list[str | None]) -> Row:
        one = row(words)
        return dataclasses.replace(one, series=dataclasses.replace(one.series, instance=name))

    same = [named(f"f[n={number}]", ["ok", "ok"]) for number in range(4)]
    said = (
        "2.2.0 was named as bad, but is ok there; 2.1.0 and 2.2.0 are alike, each is ok: there is nothing to search "
        "between them; should it show only sometimes: --flaky"
    )
    lines = plain(search_lines(result(*same, named("g", ["ok", "wrong"])), 400)).splitlines()
    assert lines[:2] == [
        f"4 instances (f[n=0], f[n=1] and 2 more): {said}",
        "g: boundary: 2.1.0 | 2.2.0, tight",
    ]
    lines = plain(search_lines(result(*same), 400)).splitlines()
    assert lines[0] == f"all 4 instances: {said}"


@pytest.mark.parametrize("name", WORDS)
def test_what_a_row_says(name: str) -> None:
    given, expected = WORDS[name]
    seen = tuple(
        observe("api_absent", build=point.build)
        for point in given.series.points
        if point is not None and point.judgement.api_absent
    )
    assert row_words(given, dataclasses.replace(result(given), observations=seen)) == expected


def nightly(day: int) -> Build:
    name = f"2.16.0.dev202611{day:02}"
    return Build(BuildKind.NIGHTLY, name, name, day=datetime.date(2026, 11, day))


def release(name: str) -> Build:
    return Build(BuildKind.RELEASE, name, name)


FINER: dict[str, tuple[list[Build], tuple[int, int], list[str]]] = {
    "none left": (
        [release("2.8.0"), release("2.9.0")], (0, 1),
        ["no nightly build between 2.8.0 and 2.9.0 is left, they leave their index after about two months: the "
         "boundary of releases stands"],
    ),
    "one release branch": (
        [release("2.9.0"), release("2.9.1")], (0, 1),
        ["2.9.0 and 2.9.1 were both made on one release branch, where no nightly build comes from: the boundary of "
         "releases stands"],
    ),
    "none can be judged": (
        [release("2.15.0"), nightly(3), release("2.16.0")], (0, 2),
        ["none of the nightly builds between 2.15.0 and 2.16.0 that are left can be judged: the boundary of releases "
         "stands"],
    ),
    "after the last nightly": (
        [nightly(3), release("2.16.0")], (0, 1),
        ["2.16.0.dev20261103 is the last nightly build before the branch of 2.16.0 was cut that was judged: the change "
         "came after it, on that branch or by how the release was built"],
    ),
    "before the first nightly": (
        [release("2.15.0"), nightly(3)], (0, 1),
        ["2.16.0.dev20261103 is the first nightly build after 2.15.0 that was judged: the change came before it, since "
         "the branch of that release was cut"],
    ),
    "a day is missing": (
        [nightly(3), nightly(4), nightly(6), nightly(9)], (1, 3),
        ["of 2026-11-05, 2026-11-07 and 2026-11-08 there is no nightly build that can take part"],
    ),
    "neighbours": ([nightly(3), nightly(4)], (0, 1), []),
}  # fmt: skip


@pytest.mark.parametrize("name", FINER)
def test_why_a_boundary_is_no_finer(name: str) -> None:
    builds, (older, newer), expected = FINER[name]
    seen = [observe("ok" if place <= older else "wrong", build=build.name) for place, build in enumerate(builds)]
    (series,) = build_series(seen, [build.name for build in builds])
    found = Row(series, Finished((Boundary(builds[older].name, builds[newer].name),)))
    asked = dataclasses.replace(result(found), builds=tuple(builds), finer=True)
    assert finer_words(found, asked) == expected


BOUNDARY = Boundary("2.1.0", "2.3.0", (("2.2.0", "broken"),), 0.97)
WEIGHED = Weighed(
    boundaries=(BOUNDARY,), fixed=False, everywhere=0.02, nowhere=0.0, shows=0.42, confidence=0.95,
    counts={"2.1.0": (0, 9), "2.3.0": (4, 9)}, processes=18, seconds=80.0,
)  # fmt: skip


def test_a_flaky_row_says_its_probabilities() -> None:
    weighed = dataclasses.replace(row(["ok", "wrong"]), weighed=WEIGHED)
    assert row_words(weighed, result(weighed)) == [
        "flaky: bad now and then from 2.3.0 on (last without 2.1.0), with a probability of 0.970",
        "boundary: 2.1.0 | 2.3.0, not tight; untested between: 2.2.0 (broken)",
        "probabilities of the boundaries: 2.1.0 | 2.3.0 0.970 and in every build 0.020",
        "bad in these runs: 2.1.0 0 of 9 and 2.3.0 4 of 9",
        "this rests on 18 worker processes; where it has the bug, it shows in about 42 % of the runs",
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"fixed": True}, "flaky: bad now and then up to 2.1.0, fixed in 2.3.0, with a probability of 0.970"),
        (
            {"boundaries": (), "everywhere": 0.96},
            "flaky: every build of the range is bad now and then, with a probability of 0.960",
        ),
        ({"boundaries": (), "nowhere": 0.96}, "flaky: no build of the range has it, with a probability of 0.960"),
        (
            {"confidence": 0.99, "stopped": "no further run would tell more"},
            "flaky: no boundary is named, since none is as likely as 0.99: no further run would tell more",
        ),
    ],
)
def test_how_a_flaky_row_may_end(change: dict[str, object], expected: str) -> None:
    weighed = dataclasses.replace(WEIGHED, **change)
    flaky = dataclasses.replace(row(["ok", "wrong"]), weighed=weighed)
    assert row_words(flaky, result(flaky))[0] == expected


def result(*rows: Row, interrupted: bool = False) -> BisectResult:
    return BisectResult(
        rows=rows, environments={}, observations=(), judged=("2.1.0", "2.2.0"), known=("2.3.0",), made=("2.1.0",),
        ahead=("2.2.0",), interrupted=interrupted, seconds=3.0,
    )  # fmt: skip


def test_the_effort_is_told_with_what_was_made_ahead_apart() -> None:
    text = plain(search_lines(result(row(["ok", "ok", "wrong"])), 120))
    assert (
        "judged 2 of 3 builds, 1 known from before; made 1 environment, and 1 environment ahead of the search" in text
    )


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (result(row(["ok", "wrong"])), 1),
        (result(row(["wrong", "ok"])), 0),
        (result(row(["wrong", "ok", "broken"])), 3),
        (result(row(["ok", "wrong", "broken"])), 1),
        (result(row(["broken", "broken"])), 3),
        (result(), 3),
        (result(row(["ok", "ok"]), row(["ok", "wrong"])), 1),
        (result(row(["ok", "wrong"]), interrupted=True), 130),
        (result(dataclasses.replace(row(["ok", "wrong"]), weighed=dataclasses.replace(WEIGHED, fixed=True))), 0),
    ],
)
def test_exit_codes_are_those_of_a_run_at_the_newer_end(given: BisectResult, code: int) -> None:
    assert given.exit_code == code


def test_the_data_can_be_written_as_json_and_says_what_the_text_says() -> None:
    rows = [row(["ok", "broken", "wrong"]), dataclasses.replace(row(["ok", "wrong"]), weighed=WEIGHED)]
    data = json.loads(json.dumps(search_data(result(*rows))))
    assert data["rows"][0]["boundaries"] == [
        {
            "last_good": "2.1.0",
            "first_bad": "2.3.0",
            "tight": False,
            "confidence": 1.0,
            "between": {"2.2.0": "broken: control case failed"},
        }
    ]
    assert data["rows"][1]["flaky"]["named"]["confidence"] == 0.97
    assert data["rows"][1]["text"] == row_words(rows[1], result(*rows))


CASE = instance("case")
FINISHED = CellFinished(CASE, observation(CASE, "2.2.0"), judgement("ok"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_no_word_is_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    BisectionReport(stream)(Judging(("2.2.0",), ("2.1.0", "ok"), ("2.3.0", "wrong"), 2, 1, 95.0))
    assert stream.getvalue().splitlines() == [
        "judging 2.2.0, between 2.1.0 (ok) and",
        "  2.3.0 (wrong): at most 2 builds to go,",
        "  1 environment to make, about 2 min",
        "  with confirming",
    ]


def test_each_step_is_one_line_and_quiet_keeps_only_failures() -> None:
    build = Build(BuildKind.RELEASE, "2.2.0", "2.2.0")
    events = [
        Judging(("2.2.0",), ("2.1.0", "ok"), ("2.3.0", "wrong"), 2, 1, 95.0),
        RunPlanned((build,), (), ("cpu",), 1, 0, 1),
        BuildProgress(build, "downloading", 0, 900_000_000),
        BuildProgress(build, "downloading", 500_000_000, 900_000_000),
        BuildProgress(build, "failed", message="no \x1b wheel"),
        Judged("2.2.0", {"ok": 2, "wrong": 1}),
        Repeating(("2.1.0", "2.3.0")),
        Weighs("case", WEIGHED, "2.3.0", 2, 16),
        Note("something"),
        FINISHED,
        Confirming(3, "both ends"),
        FINISHED,
        dataclasses.replace(FINISHED, kept=True),
        FINISHED,
        FINISHED,
    ]
    loud, quiet = io.StringIO(), io.StringIO()
    for stream, report in ((loud, BisectionReport(loud)), (quiet, BisectionReport(quiet, quiet=True))):
        for event in events:
            report(event)
        assert stream.getvalue().endswith("\n")
    assert loud.getvalue().splitlines() == [
        "judging 2.2.0, between 2.1.0 (ok) and 2.3.0 (wrong): at most 2 builds to go, 1 environment to make, about "
        "2 min with confirming",
        "2.2.0: downloading 900 MB",
        "2.2.0: no environment: no \\x1b wheel",
        "2.2.0: ok (2), wrong (1)",
        "not as it was said to be: 2.1.0 and 2.3.0 again in further processes",
        "likeliest so far 2.1.0 | 2.3.0 with 0.97; 2.3.0 next, in 2 further processes of 16 repeats",
        "note: something",
        "confirming, 3 more runs: both ends",
        "confirmed 1 of 3",
        "confirmed 2 of 3",
        "confirmed 3 of 3",
    ]
    assert quiet.getvalue().splitlines() == ["2.2.0: no environment: no \\x1b wheel", "note: something"]


def test_a_search_says_what_it_does_where_no_step_ends_for_long() -> None:
    """Each step is a run of its own."""
    older, newer = (Build(BuildKind.RELEASE, version, version) for version in ("2.1.0", "2.2.0"))
    stream, now = io.StringIO(), [0.0]
    report = BisectionReport(stream, clock=lambda: now[0])
    for build in (older, newer):
        report(RunPlanned((build,), (), ("cpu",), 3, 0, 1))
        report(BuildProgress(build, "installing"))
        now[0] += 31
        report.beat()
        report(RunFinished(False, 31.0))
        now[0] += 31
        report.beat()
    assert stream.getvalue().splitlines() == [
        "2.1.0: installing",
        "0 of 3 cells; 2.1.0: installing for 31 s",
        "2.2.0: installing",
        "0 of 3 cells; 2.2.0: installing for 31 s",
    ]

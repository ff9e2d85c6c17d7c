"""From two builds to the commits between them: links and commands only of commits that are known to be public."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from bisect_torch import analysis
from bisect_torch.model import Build, BuildKind, TransitionKind
from bisect_torch.releases.commits import Origin
from bisect_torch.report.data import as_data
from bisect_torch.report.findings import Findings
from bisect_torch.report.sentence import Sentence
from bisect_torch.report.sentences import sentences
from bisect_torch.report.summary import summary
from bisect_torch.report.text import plain
from tests.report.histories import findings, series

OLD, NEW = "2.4.1", "2.5.0"
FIRST, SECOND, MAIN = "1a" * 20, "2b" * 20, "3c" * 20


def build(name: str, kind: BuildKind, commit: str | None, day: int | None = None) -> Build:
    """The histories are of releases: here such a name stands for a build of any kind."""
    when = None if day is None else datetime.date(2026, 11, day)
    return Build(kind, name, name, day=when, git_commit=commit)


def found(old: Build, new: Build, history: str = "ok wrong", **facts: object) -> Findings:
    row = series("f", *history.split())
    made = findings(row, transitions=tuple(analysis.transitions(row)))
    return dataclasses.replace(made, builds=(old, new), environments={}, **facts)  # type: ignore[arg-type]


def sentence(old: Build, new: Build, history: str = "ok wrong", **facts: object) -> Sentence:
    (only,) = sentences(found(old, new, history, **facts))
    return only


def test_two_nightlies_give_days_a_link_and_a_command() -> None:
    told = sentence(build(OLD, BuildKind.NIGHTLY, FIRST, 12), build(NEW, BuildKind.NIGHTLY, SECOND, 14))
    evidence = dict(told.evidence)
    assert told.compare == f"https://github.com/pytorch/pytorch/compare/{FIRST[:12]}...{SECOND[:12]}"
    assert told.bisect == evidence["git bisect"] == f"git bisect start {SECOND[:12]} {FIRST[:12]}"
    assert evidence["days"] == "2 days, 2026-11-12 to 2026-11-14"
    assert evidence["built from"] == f"nightly branch {FIRST[:12]} → nightly branch {SECOND[:12]}"
    assert "--source CHECKOUT" in evidence["commits of main"]


def test_commits_of_main_are_taken_where_the_messages_gave_them() -> None:
    origins = {OLD: Origin(FIRST, "nightly branch", MAIN, resolved=True)}
    told = sentence(build(OLD, BuildKind.NIGHTLY, FIRST, 12), build(NEW, BuildKind.CANDIDATE, SECOND), origins=origins)
    assert told.bisect == f"git bisect start {SECOND[:12]} {MAIN[:12]}"
    assert dict(told.evidence)["built from"] == (
        f"nightly branch {FIRST[:12]} (main {MAIN[:12]}) → release branch {SECOND[:12]}"
    )
    assert {"days", "commits of main"}.isdisjoint(dict(told.evidence))


@pytest.mark.parametrize(
    ("kind", "history", "terms"),
    [
        (TransitionKind.BROKE, "ok wrong", ""),
        (TransitionKind.FIXED, "wrong ok", "--term-old=broken --term-new=fixed "),
        (TransitionKind.APPEARED, "absent ok", "--term-old=absent --term-new=there "),
        (TransitionKind.DISAPPEARED, "ok absent", "--term-old=there --term-new=absent "),
        (TransitionKind.CHANGED, "wrong error:ValueError", "--term-old=before --term-new=after "),
    ],
)
def test_git_is_told_what_its_two_ends_mean(kind: TransitionKind, history: str, terms: str) -> None:
    told = sentence(build(OLD, BuildKind.RELEASE, FIRST), build(NEW, BuildKind.NIGHTLY, SECOND, 14), history)
    assert told.kind == kind.value
    assert told.bisect == f"git bisect start {terms}{SECOND[:12]} {FIRST[:12]}"


@pytest.mark.parametrize(
    ("kind", "commit"), [(BuildKind.LOCAL, SECOND), (BuildKind.NIGHTLY, None), (BuildKind.NIGHTLY, "2b2b2b2b")]
)
def test_a_commit_that_may_not_be_public_is_no_link(kind: BuildKind, commit: str | None) -> None:
    told = sentence(build(OLD, BuildKind.RELEASE, FIRST), build(NEW, kind, commit, 14))
    assert (told.compare, told.bisect) == (None, None)


def test_releases_have_a_link_and_no_command() -> None:
    told = sentence(build(OLD, BuildKind.RELEASE, FIRST), build(NEW, BuildKind.RELEASE, SECOND))
    assert told.compare is not None
    assert told.bisect is None
    assert {"days", "built from", "git bisect"}.isdisjoint(dict(told.evidence))


def test_what_differs_between_builds_of_one_commit_is_not_torchs_code() -> None:
    """The same commit of the nightly branch, or another one with the same commit of main."""
    old, new = build(OLD, BuildKind.NIGHTLY, FIRST, 12), build(NEW, BuildKind.NIGHTLY, FIRST, 13)
    other = dataclasses.replace(new, git_commit=SECOND)
    origins = {
        OLD: Origin(FIRST, "nightly branch", MAIN, resolved=True),
        NEW: Origin(SECOND, "nightly branch", MAIN, resolved=True),
    }
    for made in (found(old, new), found(old, other, origins=origins)):
        (told,) = sentences(made)
        assert told.text.endswith(", between builds of one commit: not by torch's code.")
        assert (told.compare, told.bisect) == (None, None)
        assert "no change of torch's code" in dict(told.evidence)["same commit"]
        assert "were built from one commit" in plain(summary(made, 120))
    assert "built from one commit" not in plain(summary(found(old, other), 120))


def test_the_command_is_whole_on_its_line_however_narrow_the_terminal() -> None:
    made = found(build(OLD, BuildKind.NIGHTLY, FIRST, 12), build(NEW, BuildKind.NIGHTLY, SECOND, 14))
    assert f"\ngit bisect start {SECOND[:12]} {FIRST[:12]}\n" in plain(summary(made, 40))


def test_data_tells_what_a_commit_is() -> None:
    origins = {OLD: Origin(FIRST, "nightly branch", MAIN, resolved=True)}
    made = found(build(OLD, BuildKind.NIGHTLY, FIRST, 12), build(NEW, BuildKind.LOCAL, None), origins=origins)
    old, new = as_data(made)["builds"]  # type: ignore[misc]
    assert (old["commit_of"], old["main_commit"], old["day"]) == ("nightly branch", MAIN, "2026-11-12")
    assert (new["commit_of"], new["main_commit"]) == (None, None)

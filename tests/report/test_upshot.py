"""The one line at the end of a long run: each row once, and no more than the sentences say."""

from __future__ import annotations

import dataclasses

import pytest

from bisect_torch.analysis import transitions
from bisect_torch.model import Series
from bisect_torch.report.data import as_data
from bisect_torch.report.findings import Findings
from bisect_torch.report.sentences import sentences
from bisect_torch.report.summary import summary
from bisect_torch.report.text import plain
from bisect_torch.report.upshot import FEW, upshot
from tests.report.histories import findings, series


def told(*rows: Series) -> Findings:
    return findings(*rows, transitions=tuple(each for row in rows for each in transitions(row)))


def line(found: Findings) -> str:
    return upshot(found, sentences(found))


EVERY = told(
    series("always[n=1]", "wrong", "wrong", "wrong"),
    series("always[n=2]", "wrong", "wrong", "wrong"),
    series("absent", "absent", "absent", "absent"),
    series("appears", "absent", "ok", "ok"),
    series("breaks", "ok", "ok", "wrong"),
    series("there and back", "ok", "wrong", "ok"),
    series("other error", "error:TypeError", "error:TypeError", "error:ValueError"),
    series("flaky", "ok", "ok|wrong", "ok"),
    series("flaky and fixed", "ok|wrong", "wrong", "ok"),
    series("fine", "ok", "ok", None),
    series("nothing", "infra", "skip", None),
)


def test_each_row_counts_once_by_what_is_told_of_it() -> None:
    assert line(EVERY) == (
        "11 instances on 3 builds: 5 changed (1 newly available, 1 broke, 1 more than once, 1 bad in another way, "
        "1 fixed; 1 not confirmed; 1 flaky on other builds), 4 the same wherever judged (1 ok, 2 bad, 1 API "
        "absent), 1 flaky, 1 judged nowhere; 2 cells not judged, 2 not run"
    )


def test_it_stands_at_the_end_of_the_text_and_not_in_the_data() -> None:
    lines = plain(summary(EVERY, 300)).splitlines()
    assert lines[-2] == line(EVERY)
    assert "more than once" not in str(as_data(EVERY))


def test_a_few_rows_are_seen_at_one_look() -> None:
    few = told(*(series(f"f[n={number}]", "ok", "wrong") for number in range(FEW)))
    assert line(few) == ""
    assert "changed (" not in plain(summary(few, 120))


def test_what_is_not_confirmed_is_not_told_as_if_it_were() -> None:
    rows = [series(f"f[n={number}]", "ok", "wrong") for number in range(FEW + 1)]
    found = told(*rows)
    unsure = tuple(dataclasses.replace(each, confirmed=number > 1) for number, each in enumerate(found.transitions))
    assert line(dataclasses.replace(found, transitions=unsure)) == (
        "6 instances on 2 builds: 6 changed (6 broke; 2 not confirmed)"
    )


def test_what_may_not_have_come_to_what_failed_is_not_counted_as_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(*(series(f"f[n={number}]", "wrong", "ok") for number in range(FEW + 1)))
    assert line(found).endswith("6 changed (6 fixed)")
    monkeypatch.setattr("bisect_torch.report.sentences.only_ran", lambda *_: True)
    assert "fixed" not in sentences(found)[0].text
    assert line(found).endswith("6 changed (6 no longer bad)")


def test_rows_of_two_devices_are_no_instances() -> None:
    found = told(*(series(f"f[n={number}]", "ok", "ok", device=device) for number in range(3) for device in "ab"))
    assert line(found) == "6 rows on 2 builds: 6 the same wherever judged (6 ok)"

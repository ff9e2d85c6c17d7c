"""Files beside a case file that were not the same for all cells of a row are told, once; what is no news is not."""

from __future__ import annotations

import json

import pytest

from bisect_torch import analysis
from bisect_torch.model import Observation
from bisect_torch.report.beside import unlike_words
from bisect_torch.report.doubts import doubted
from bisect_torch.report.findings import Findings
from bisect_torch.report.sentences import sentences
from tests.analysis.made import observe
from tests.report.test_markdown import build, environment

A, B = "a" * 64, "b" * 64
EARLY, IN_FIRST = "2026-11-28T10:00:00Z", "2026-11-28T12:00:03.5Z"
"""Long before any cell, and while that of the first build ran."""

MEND = "; what it writes belongs into tempfile.mkdtemp()."

BUILDS = ("2.4.1", "2.5.0")
BEGINS = {"2.4.1": "2026-11-28T12:00:02.000000Z", "2.5.0": "2026-11-28T12:00:07.000000Z"}


def cell(word: str, build: str, read: dict[str, str], **fields: object) -> Observation:
    known: dict[str, object] = {"started_at": BEGINS[build], "elapsed_s": 2.0, "local_modules": json.dumps(read)}
    return observe(word, build, **{**known, **fields})


def findings(*observations: Observation) -> Findings:
    series = analysis.build_series(observations, BUILDS)
    return Findings(
        tuple(build(name) for name in BUILDS),
        {name: environment(name) for name in BUILDS},
        tuple(series),
        tuple(found for each in series for found in analysis.transitions(each)),
        observations=observations,
    )


def told(first: dict[str, str], second: dict[str, str]) -> list[str]:
    found = unlike_words(findings(cell("ok", "2.4.1", first), cell("ok", "2.5.0", second)))
    return [text.partition(" reads ")[2] for text in found]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"x": f"{A} {EARLY}"}, {"x": f"{A} {EARLY}"}, ""),
        ({"x": f"{A} {EARLY}"}, {"x": f"{A} 2026-11-28T10:00:01Z"}, ""),
        ({"x": f"{A} {EARLY}"}, {}, ""),
        ({"x": f"{A} own"}, {"x": f"{B} own"}, ""),
        ({"x": f"{A} own@{IN_FIRST}"}, {"x": f"{A} own@2026-11-28T12:00:08Z"}, ""),
        (
            {"x": f"{A} own@{IN_FIRST}"},
            {"x": f"{A} own@{IN_FIRST}"},
            f"x beside it, which was written meanwhile: 2.5.0 may see what 2.4.1 has left{MEND}",
        ),
        ({"x": "absent"}, {"x": "absent"}, ""),
        ({"helper.py": A}, {"helper.py": B}, ""),
        ({"(more than 1000 files)": "many"}, {"x": f"{B} {EARLY}"}, ""),
        (
            {"x": f"{A} {EARLY}"},
            {"x": f"{B} {EARLY}"},
            "x beside it, which was not the same each time: what differs may come from that.",
        ),
        (
            {"x": "absent"},
            {"x": f"{B} {IN_FIRST}"},
            f"x beside it, which was not the same each time: 2.5.0 may see what 2.4.1 has left{MEND}",
        ),
        (
            {},
            {"x": f"{B} {IN_FIRST}"},
            f"x beside it, which was written meanwhile: 2.5.0 may see what 2.4.1 has left{MEND}",
        ),
        (
            {"x": f"changed {EARLY}"},
            {"x": f"changed {IN_FIRST}"},
            f"x beside it, which was not the same each time: 2.5.0 may see what 2.4.1 has left{MEND}",
        ),
        (
            {"x": f"5 bytes {EARLY}", "y": f"{A} {EARLY}"},
            {"x": "5 bytes 2026-11-28T11:00:00Z", "y": f"{B} {EARLY}"},
            "x and y beside it, which were not the same each time: what differs may come from that.",
        ),
    ],
)
def test_what_is_said_of_two_cells(first: dict[str, str], second: dict[str, str], expected: str) -> None:
    assert told(first, second) == ([expected] if expected else [])


def test_builds_that_make_one_file_at_the_same_time_may_read_each_other_s() -> None:
    one = cell("ok", "2.4.1", {"x": "changed own"})
    other = cell("ok", "2.5.0", {"x": f"{A} own"}, started_at=BEGINS["2.4.1"])
    (words,) = unlike_words(findings(one, other))
    assert words.endswith(f"reads x beside it, which was written meanwhile: 2.4.1 may see what 2.5.0 has left{MEND}")
    assert unlike_words(findings(one, cell("ok", "2.5.0", {"x": f"{A} own"}))) == [], "one after the other"


def test_of_two_that_ran_at_the_same_time_either_may_have_left_it() -> None:
    both = [cell("ok", build, {"x": f"{A} {IN_FIRST}"}, started_at=BEGINS["2.4.1"]) for build in ("2.4.1", "2.5.0")]
    (words,) = unlike_words(findings(*both))
    assert words.endswith(f"one of 2.4.1 and 2.5.0 may see what the other has left{MEND}")


def test_a_file_that_a_build_has_left_for_itself_alone_is_none_of_the_others() -> None:
    other = cell("ok", "2.4.1", {}, started_at=BEGINS["2.5.0"])
    seen = [cell("ok", "2.5.0", {"x-2.5.0": f"{A} 2026-11-28T12:00:08Z"}, repeat=repeat) for repeat in (0, 1)]
    assert unlike_words(findings(other, *seen)) == []
    (words,) = unlike_words(findings(cell("ok", "2.4.1", {"x-2.5.0": "absent"}), *seen))
    assert words.endswith(f"2.5.0 may see what 2.4.1 has left{MEND}")


def test_what_rests_on_a_file_that_another_build_may_have_left_is_not_confirmed() -> None:
    """A script that goes on from a checkpoint where one lies there fails wherever another version has written it."""
    first, then = f"{A} own@{IN_FIRST}", f"{A} {IN_FIRST}"
    observations = [
        cell(word, name, {"x": (first if repeat == 0 and name == "2.4.1" else then)}, repeat=repeat, isolation=how)
        for name, word in (("2.4.1", "ok"), ("2.5.0", "wrong"))
        for repeat, how in enumerate(("fork", "fork", "process"))
    ]
    found = findings(*observations)
    assert [each.confirmed for each in found.transitions] == [True]
    assert [each.confirmed for each in doubted(found).transitions] == [False]
    (sentence,) = sentences(doubted(found))
    assert sentence.text.endswith("(last good 2.4.1), not confirmed.")
    assert dict(sentence.evidence)["confidence"].startswith("not confirmed: 2.5.0 may see what 2.4.1 has left (x); 3 ")


def test_rows_of_a_file_share_a_sentence_and_a_change_names_what_differs_at_its_ends() -> None:
    observations = [
        cell(word, name, {"x": f"{sha} {EARLY}"}, instance=instance, repeat=repeat)
        for instance in ("f[n=1]", "f[n=2]")
        for name, word, sha in (("2.4.1", "ok", A), ("2.5.0", "wrong", B))
        for repeat in range(3)
    ]
    found = findings(*observations)
    assert len(unlike_words(found)) == 1
    (unlike,) = found.unlike_files
    assert [row[1] for row in unlike.rows] == ["f[n=1]", "f[n=2]"]
    (sentence,) = sentences(found)
    assert dict(sentence.evidence)["also differ"] == "x, which is read"

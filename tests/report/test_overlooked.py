"""What happened beside a verdict is told with the rows and builds, and what to do about it."""

from __future__ import annotations

import dataclasses
import json

import pytest

from bisect_torch.model import Observation, Series
from bisect_torch.report.data import as_data
from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown import markdown, nothing_found
from bisect_torch.report.overlooked import overlooked_words
from bisect_torch.report.summary import note_words
from tests.report.histories import RELEASES, series
from tests.report.test_markdown import reported

LOST = "ignored in a thread: ValueError: lost\nmore"


def seen(*rows: Series, **facts: dict[str, str]) -> Findings:
    """Findings whose observations on a build have these facts: field to build to value."""
    told = reported(*rows)

    def with_facts(each: Observation) -> Observation:
        of_build = {name: builds[each.build_name] for name, builds in facts.items() if each.build_name in builds}
        return dataclasses.replace(each, **of_build)

    return dataclasses.replace(told, observations=tuple(map(with_facts, told.observations)))


def warned(*texts: str) -> str:
    return json.dumps(texts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            LOST,
            "an exception in a thread was printed and ignored on {}: ValueError: lost; let the main thread raise it.",
        ),
        (
            "ignored in a test: AssertionError: 1 != 2",
            "a test failed on {} and the script ended with 0 all the same: AssertionError: 1 != 2; unittest.main(), or "
            "sys.exit(pytest.main(…)), ends with a status that tells.",
        ),
        (
            "ignored in D.__del__: KeyError",
            "an exception in D.__del__ was printed and ignored on {}: KeyError; raise it where somebody sees it.",
        ),
    ],
)
def test_an_ignored_exception_is_told_with_the_builds_on_which_it_was_not(text: str, said: str) -> None:
    row = series("repro", "ok", "ok", file="repro.py")
    both = {name: warned("UserWarning: x", text) for name in RELEASES[:2]}
    assert overlooked_words(seen(row, warnings=both)) == ["repro: " + said.format("2.4.1 and 2.5.0")]
    one = seen(row, warnings={"2.5.0": warned(text)})
    assert overlooked_words(one) == ["repro: " + said.format("2.5.0, not on 2.4.1")]


def test_it_stands_in_every_report() -> None:
    row, other = series("repro", "ok", "ok", file="repro.py"), series("other", "ok", "wrong", file="other.py")
    told = seen(row, other, warnings={"2.4.1": warned(LOST)})
    said = "repro: an exception in a thread was printed and ignored on 2.4.1, not on 2.5.0: ValueError: lost"
    assert any(note.startswith(said) for note in note_words(told, []))
    assert as_data(told)["remarks"][0].startswith(said)  # type: ignore[index]
    assert f"- {said}" in markdown(told)
    assert nothing_found(seen(row, warnings={"2.4.1": warned(LOST)}))[1].startswith(said)


def test_where_a_row_is_bad_it_may_be_why() -> None:
    row = series("repro", "ok", "crash:SIGABRT", file="repro.py")
    assert overlooked_words(seen(row, warnings={"2.5.0": warned(LOST)})) == [
        "repro crashes with SIGABRT on 2.5.0, where a thread raised ValueError: lost."
    ]


def test_instances_that_went_alike_share_a_sentence() -> None:
    rows = [series(f"f[n={n}]", "ok", "ok") for n in range(3)] + [series("g", "ok", "ok")]
    words = overlooked_words(seen(*rows, warnings={"2.5.0": warned(LOST)}))
    assert [each.partition(":")[0] for each in words] == ["all 3 instances of f", "g"]


def test_all_tests_that_fail_are_named_where_one_stands_for_them() -> None:
    row = series("repro", "wrong", "wrong", "ok", file="/x/repro.py")
    one, two = (json.dumps({"failed_tests": [f"__main__.T.test_{name}" for name in names]}) for names in ("a", "ab"))
    told = seen(row, measurements={"2.4.1": one, "2.5.0": two, "2.5.1": two})
    assert overlooked_words(told) == [
        "repro is judged by the first of its tests that fails: 1 test on 2.4.1 (T.test_a) and 2 tests on 2.5.0 "
        "(T.test_a and T.test_b); `bisect-torch run --pytest repro.py` makes each test a row."
    ]
    assert overlooked_words(seen(row, measurements={"2.4.1": one, "2.5.0": one})) == []


def test_a_file_that_was_not_imported_is_named_once() -> None:
    text = "bisect-torch: random.py beside the script is passed over; the real random is used"
    told = seen(series("repro", "ok", "ok"), warnings=dict.fromkeys(RELEASES[:2], warned(text)))
    assert overlooked_words(told) == [text.removeprefix("bisect-torch: ") + "."]


def of_command(*words: str) -> Findings:
    run = {"run_id": "run", "arguments": ["run", "--from", "2.4.1", "--", *words]}
    return dataclasses.replace(reported(series("repro", "ok", file=".")), runs=(run, run))


@pytest.mark.parametrize("words", [("python", "-O", "x.py"), ("/x/python3", "-uOO", "x.py")])
def test_a_command_without_asserts_says_so(words: tuple[str, ...]) -> None:
    assert overlooked_words(of_command(*words)) == [
        f"`{' '.join(words)}` leaves out every assert: what they check was not checked."
    ]


@pytest.mark.parametrize("words", [("python", "-m", "unittest", "x"), ("pytest", "x.py"), ("python3", "-m", "pytest")])
def test_a_command_that_runs_tests_points_to_rows_for_each(words: tuple[str, ...]) -> None:
    (said,) = overlooked_words(of_command(*words))
    assert "is one row, judged by its status alone" in said


@pytest.mark.parametrize("words", [("python", "x.py", "-O"), ("gcc", "-O", "x.c"), ("python", "-m", "x", "pytest")])
def test_of_other_commands_nothing_is_said(words: tuple[str, ...]) -> None:
    assert overlooked_words(of_command(*words)) == []


def test_a_script_that_reads_what_is_not_there_says_so() -> None:
    told = reported(
        series("repro", "ok", file="repro.py"), sources={"00": "import sys\nfor line in sys.stdin: print(line)\n"}
    )
    assert overlooked_words(told) == [
        "repro.py reads sys.stdin, which is empty: a command can fill it, as -- sh -c '… | python repro.py'."
    ]

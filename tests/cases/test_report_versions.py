"""What a report's sentences say of releases: understood, or passed over; never turned round."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_torch.cases.report_advice import advice, first_two
from bisect_torch.cases.report_choice import choose
from bisect_torch.cases.report_versions import told
from bisect_torch.cli.main import main

RELEASES = ("2.4.1", "2.6.0", "2.7.0", "2.7.1", "2.8.0", "2.9.0", "2.9.1", "2.10.0", "2.14.0")

CLEAR = {
    # a sentence: what is right, what is wrong
    "it is right in 2.8.0, wrong in 2.9.1": ("2.8.0", "2.9.1"),
    "correct on 2.8.0 and wrong on 2.9.0.": ("2.8.0", "2.9.0"),
    "fine with 2.8, fails with 2.9": ("2.8.0", "2.9.0"),
    "It worked in 2.8.0. It fails on 2.9.0!": ("2.8.0", "2.9.0"),
    "Works in PyTorch 2.8.0. Regression since 2.9.": ("2.8.0", "2.9.0"),
    "After upgrading from PyTorch 2.8.0 to 2.9.0 the result is wrong.": ("2.8.0", "2.9.0"),
    "I upgraded torch from 2.8.0 to 2.9.0 and it no longer works": ("2.8.0", "2.9.0"),
    "After upgrading to 2.9.0 I get NaNs, 2.8.0 was fine": ("2.8.0", "2.9.0"),
    "works on 2.8.0 but not on 2.9.0": ("2.8.0", "2.9.0"),
    "fails in 2.9.1 but not in 2.8.0": ("2.8.0", "2.9.1"),
    "2.8.0 works, 2.9.0 doesn't": ("2.8.0", "2.9.0"),
    "It doesn't work in 2.9.0, used to work in 2.8.0": ("2.8.0", "2.9.0"),
    "It stopped working in 2.9.0 (it works in 2.8.0)": ("2.8.0", "2.9.0"),
    "wrong in both 2.8.0 and 2.9.0; right in 2.7.1": ("2.7.1", "2.8.0"),
    "works in 2.7.1 and 2.8.0; fails in 2.9.0, 2.9.1 and 2.10.0": ("2.8.0", "2.9.0"),
    "works up to 2.8.0, broken from 2.9.0 on": ("2.8.0", "2.9.0"),
    "no error in 2.8.0, RuntimeError in 2.9.0": ("2.8.0", "2.9.0"),
    "cannot reproduce with 2.8.0, can reproduce with 2.9.1": ("2.8.0", "2.9.1"),
    "This does not happen in 2.8.0. It happens in 2.9.0.": ("2.8.0", "2.9.0"),
    "it regressed between 2.8.0 and 2.9.0": ("2.8.0", "2.9.0"),
    "last good: 2.8.0, first bad: 2.9.0": ("2.8.0", "2.9.0"),
    "- 2.8.0: ok\n- 2.9.0: wrong\n- 2.9.1: wrong": ("2.8.0", "2.9.0"),
    "The code is right in\n2.8.0 and wrong in\n`torch==2.9.1`.": ("2.8.0", "2.9.1"),
    "fails with torch 2.9.0 and CUDA 12.8, works with torch 2.8.0 and CUDA 12.6": ("2.8.0", "2.9.0"),
    "2.9.0 gives nan while 2.8.0 gives the right answer": ("2.8.0", "2.9.0"),
}

DOUBTFUL = (
    "Is it right in 2.8.0? It is wrong in 2.9.0",
    "should be right in 2.8.0, wrong in 2.9.0",
    "if it works in 2.8.0, it fails in 2.9.0 too",
    "it is not right in 2.8.0, wrong in 2.9.0",
    "it is not\nright in 2.8.0, fails in 2.9.0",
    "not, as far as I see, right in 2.8.0, wrong in 2.9.0",
    "not only 2.8.0 is right, wrong in 2.9.0",
    "no difference: right in 2.8.0, wrong in 2.9.0",
    "neither is right in 2.8.0, wrong in 2.9.0",
    "It never worked in 2.8.0. It is wrong in 2.9.0",
    "I don't think that it is right in 2.8.0. Wrong in 2.9.0.",
    "right before 2.8.0, wrong in 2.9.0",
    "was right until 2.8.0, wrong in 2.9.0",
    "slower than the right one in 2.8.0, wrong in 2.9.0",
    "a regression from 2.8.0",
    "After upgrading from 2.8.0 to 2.9.0 the crash is gone",
    "After upgrading from 2.8.0 to 2.9.0 it no longer fails",
    "After upgrading from 2.8.0 to 2.9.0 it is faster",
    "the upgrade from 2.8.0 to 2.9.0 fixed a crash",
    "wrong in 2.8.0, right in 2.9.0",
    "right in 2.8.0 and 2.9.1, wrong in 2.9.0",
    "right now I am on 2.8.0, and it fails in 2.9.0",
    "fine-tuning in 2.8.0, fails in 2.9.0",
    "I am working on 2.8.0. It crashes in 2.9.0",
    "It works with numpy 2.8.0, fails with 2.9.0",
    "2.8 times the right value, fails in 2.9.0",
    "see https://example.org/works/in/2.8.0 fails in 2.9.0",
    "<!-- works in 2.8.0 --> fails in 2.9.0",
    "```\nright in 2.8.0, wrong in 2.9.0\n```",
    "right in 2.8.0.dev20250101, wrong in 2.9.0rc1",
)


@pytest.mark.parametrize("sentence", CLEAR)
def test_a_clear_sentence_names_both_ends(sentence: str) -> None:
    found = told(sentence, RELEASES)

    assert (found.good, found.bad) == CLEAR[sentence]
    assert first_two(sentence, RELEASES) == CLEAR[sentence]


@pytest.mark.parametrize("sentence", DOUBTFUL)
def test_a_doubtful_one_names_none(sentence: str) -> None:
    assert told(sentence, RELEASES).good is None
    assert told(sentence, RELEASES).bad is None


@given(st.lists(st.sampled_from([*CLEAR, *DOUBTFUL]), max_size=6), st.sampled_from([". ", "\n\n", "; ", ", "]))
def test_whatever_stands_together_an_end_that_is_right_is_the_older(sentences: list[str], between: str) -> None:
    found = told(between.join(sentences), RELEASES)

    assert (found.good is None) == (found.bad is None)
    if found.good is not None and found.bad is not None:
        assert RELEASES.index(found.good) < RELEASES.index(found.bad)


@given(st.text("works in 2.8.0,no(t)\n;\"'?-:`", max_size=80))
def test_any_text_is_read(text: str) -> None:
    told(text, RELEASES)


def test_what_is_only_named_still_bounds_the_range() -> None:
    assert first_two("Something with torch 2.9.1. The same with 2.7.0.", RELEASES) == ("2.7.0", "2.9.1")
    assert first_two("It is wrong in 2.9.0", RELEASES) == ("2.9.0", "2.14.0")
    assert first_two("flash-attn 2.7.0 with PyTorch 2.9.1", RELEASES) == ("2.9.1", "2.14.0")


def test_the_advice_says_what_was_understood() -> None:
    report = "It is right in 2.8.0, wrong in 2.9.1.\n```python\nimport torch\nassert torch.ones(1)\n```\n"

    (said,) = advice(choose(report), report, as_case=False, releases=RELEASES)

    assert (said.kind, said.text) == ("version", "by the report 2.8.0 is right, and 2.9.1 is not")


@pytest.mark.parametrize(
    ("said", "told_version"),
    [
        ("PyTorch version: 1.13.1+cu117", "1.13.1"),
        ("right in torch 1.13.1, wrong in torch 2.3.0", "2.3.0"),
        ("PyTorch version: 2.4.0", "2.4.0"),
        ("wrong since torch 2.3.0, with torch 2.9.0 too", None),
        ("PyTorch version: 2.9.0", None),
    ],
)
def test_a_report_on_older_releases_than_there_are_is_told_so(said: str, told_version: str | None) -> None:
    report = f"{said}\n```python\nimport torch\nassert torch.ones(1)\n```\n"

    texts = [each.text for each in advice(choose(report), report, as_case=False, releases=RELEASES)]

    about = f"the report is about torch {told_version}, and the first release that this tool runs is 2.4.1"
    assert [about in text for text in texts if "first release" in text] == [True] * (told_version is not None)


def test_the_command_ends_with_a_search_between_the_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, made = tmp_path / "report.md", tmp_path / "made.py"
    code = "```python\nimport torch, scipy\nassert torch.ones(1)\n```\n"
    report.write_text(f"It is right in 2.8.0, wrong in 2.9.1.\n{code}")

    assert main(["new", str(report), "-o", str(made)]) == 0
    lines = capsys.readouterr().out.splitlines()
    made.unlink()
    report.write_text(f"It is wrong in 2.9.1.\n{code}")
    assert main(["new", str(report), "-o", str(made)]) == 0
    without = capsys.readouterr().out.splitlines()

    assert lines[-3:] == [
        f"next: bisect-torch run {made} --with scipy --versions 2.8.0,2.9.1",
        f"then, where the two differ: bisect-torch run {made} --with scipy --from 2.8.0 --to 2.9.1",
        f"or, with few installs: bisect-torch bisect {made} --with scipy --good 2.8.0 --bad 2.9.1",
    ]
    assert without[-1].startswith("then, where the two differ: ")


def test_a_nightly_build_is_older_than_the_release_of_its_version() -> None:
    report = "```python\nimport torch\nassert torch.ones(1) == 1\n```\nPyTorch version: 2.9.0.dev20250514+cpu\n"
    assert first_two(report, RELEASES)[0] == RELEASES[RELEASES.index("2.9.0") - 1]
    assert first_two("PyTorch version: 2.9.0", RELEASES) == ("2.9.0", RELEASES[-1])

"""What a row that is ok prints is compared between builds: numbers, versions and addresses differ innocently."""

from __future__ import annotations

import dataclasses

import pytest

from bisect_torch.report.findings import Findings
from bisect_torch.report.printed import printed_words
from tests.report.histories import RELEASES, series
from tests.report.test_markdown import reported


def printing(*texts: str, signatures: tuple[str, ...] = ()) -> Findings:
    row = series("repro", *(signatures or ["ok"] * len(texts)), file="repro.py")
    told = reported(row)
    printed = dict(zip(RELEASES, texts, strict=False))
    seen = tuple(dataclasses.replace(each, stdout_tail=printed[each.build_name]) for each in told.observations)
    return dataclasses.replace(told, observations=seen)


def test_the_first_lines_that_differ_are_shown() -> None:
    assert printed_words(printing("at work\nequal True\n", "at work\nequal True\n", "at work\nequal False\n")) == [
        "repro is ok on 2.5.0 and 2.5.1, but what it prints differs: \"equal True\", then \"equal False\"; an "
        "assert makes it a verdict, or --bad-if-output REGEX."
    ]  # fmt: skip
    assert 'nothing, then "x"' in printed_words(printing("", "x\n"))[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("loss 0.5 in 12 ms", "loss 0.25 in 3.1 s"),
        ("2.4.1", "2.5.0"),
        ("torch 2.4.1+cu121 of e4ee3be4063b7c430974252fdf7db42273388d86", "torch 2.5.0+cpu of " + "0a" * 20),
        ("<object at 0x7f01>", "<object at 0x7f02>"),
        ("/tmp/abc/x.pt", "/tmp/def/x.pt"),
        ("tensor([1., 2.])", "tensor([3., -2.])"),
        ("x\n\n", "  x"),
        ("[Gloo] Rank 0 is connected\nx", "x"),
    ],
)
def test_what_differs_innocently_makes_no_sentence(one: str, other: str) -> None:
    assert printed_words(printing(one, other)) == []


@pytest.mark.parametrize("other", ["tensor([nan, 2.])", "tensor([inf, 2.])"])
def test_what_is_no_number_is_not_one(other: str) -> None:
    assert printed_words(printing("tensor([1., 2.])", other)) != []


@pytest.mark.parametrize("signatures", [("ok", "wrong"), ("ok|wrong", "ok"), ("skip", "ok")])
def test_only_builds_that_are_ok_are_compared(signatures: tuple[str, str]) -> None:
    assert printed_words(printing("yes", "no", signatures=signatures)) == []


def test_a_build_that_could_not_be_judged_between_them_is_passed_over() -> None:
    told = printing("yes", "", "no", signatures=("ok", "infra", "ok"))
    assert "ok on 2.4.1 and 2.5.1," in printed_words(told)[0]


@pytest.mark.parametrize("line", ["FAILED: 3 != 4", "max difference 3.0: MISMATCH", "  mismatch at 0"])
def test_a_row_that_is_ok_and_prints_that_it_is_not_is_named(line: str) -> None:
    assert printed_words(printing(f"begin\n{line}\nend", "fine\n" + line, "fine")) == [
        'repro is ok on 2.4.1 and 2.5.0, but what it prints differs: "begin", then "fine"; an assert makes it '
        "a verdict, or --bad-if-output REGEX."
    ]
    told = printed_words(printing(f"begin\n{line}", f"begin\n{line}"))
    assert told == [
        f'repro prints "{line.strip()}" on 2.4.1 and 2.5.0 and is ok all the same, since it ends with 0; an assert '
        "makes it a verdict, or --bad-if-output REGEX."
    ]


def test_a_traceback_that_a_row_prints_and_survives_is_one_too() -> None:
    """Of a subprocess at which nobody looks, of ``traceback.print_exc()``."""
    text = 'begin\nTraceback (most recent call last):\n  File "x", line 1\n    f()\nValueError: lost\n'
    told = reported(series("repro", "ok", file="repro.py"), facts={"stderr_tail": text})
    assert printed_words(told)[0].startswith('repro prints "ValueError: lost" on 2.4.1 and is ok all the same')
    ignored = reported(
        series("repro", "ok", file="repro.py"),
        facts={"stderr_tail": text, "warnings": '["ignored in a thread: ValueError: lost"]'},
    )
    assert printed_words(ignored) == []


@pytest.mark.parametrize("signature", ["wrong", "error:exit 1"])
def test_a_row_that_is_bad_prints_so_rightly(signature: str) -> None:
    assert printed_words(printing("FAILED", "FAILED", signatures=(signature, signature))) == []

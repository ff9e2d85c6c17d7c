"""What attribute found is told with its transition, and with no other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bisect_torch.analysis.attribution import Cause
from bisect_torch.report.attributed import cause_words
from bisect_torch.report.differences import Difference
from bisect_torch.report.findings import Findings
from bisect_torch.report.html import html
from bisect_torch.report.sentences import sentences
from bisect_torch.results.attributed import KEY, Attributed, attributed_in
from tests.report.histories import series
from tests.report.test_markdown import reported

NUMPY = Attributed(
    case_file="repro.py",
    case_file_hash="00",
    instance="repro",
    device="cpu",
    before="2.4.1",
    after="2.5.0",
    torch="2.5.0",
    cause=Cause.DEPENDENCY,
    packages=(("numpy", "2.2.5", "2.3.0"),),
)
ANSWER = "numpy 2.2.5 → 2.3.0, not torch (`bisect-torch attribute`)"


def found(*kept: object, rows: tuple[str, ...] = ("repro",)) -> Findings:
    told = reported(*(series(name, "ok", "wrong", "wrong", file="repro.py") for name in rows))
    run = {"run_id": "run", "arguments": ["run", "repro.py"], KEY: list(kept)}
    return dataclasses.replace(told, runs=(run,), results=Path("r.parquet"))


def told(findings: Findings) -> str | None:
    (sentence,) = sentences(findings)
    return dict(sentence.evidence).get("attributed to")


def test_it_stands_with_its_transition() -> None:
    assert told(found(NUMPY.describe())) == ANSWER


def test_on_the_page_it_stands_beside_the_sentence() -> None:
    assert f'<span class="attributed">Attributed to {ANSWER}.</span></summary>' in html(found(NUMPY.describe()))
    assert "Attributed to" not in html(found())


def test_the_last_answer_counts() -> None:
    earlier = dataclasses.replace(NUMPY, cause=Cause.TORCH, packages=())
    assert told(found(earlier.describe(), NUMPY.describe())) == ANSWER


@pytest.mark.parametrize(
    "other",
    [
        {"before": "2.5.0", "after": "2.5.1"},
        {"device": "cuda"},
        {"instance": "repro[n=1]"},
        {"case_file": "other/repro.py"},
        {"case_file_hash": "11"},
    ],
)
def test_one_of_another_row_change_or_text_does_not(other: dict[str, str]) -> None:
    assert told(found(dataclasses.replace(NUMPY, **other).describe())) is None  # type: ignore[arg-type]


def test_of_several_rows_those_are_named_of_which_it_was_asked() -> None:
    rows = ("f[n=1]", "f[n=2]")
    one = dataclasses.replace(NUMPY, instance="f[n=2]")
    both = [dataclasses.replace(NUMPY, instance=name).describe() for name in rows]
    assert told(found(one.describe(), rows=rows)) == ANSWER.replace("attribute`", "attribute` of f[n=2]")
    assert told(found(*both, rows=rows)) == ANSWER


DAMAGED: list[object] = [
    None, 3, "text", [], {}, {**NUMPY.describe(), "cause": "moon"}, {**NUMPY.describe(), "cause": []},
    {**NUMPY.describe(), "packages": None}, {**NUMPY.describe(), "packages": ["numpy"]},
    {**NUMPY.describe(), "packages": [{"name": "numpy"}]},
    {**NUMPY.describe(), "packages": [{"name": 1, "old": "1", "new": "2"}]},
    {**NUMPY.describe(), "bound": "triton"}, {**NUMPY.describe(), "bound": [1]}, {**NUMPY.describe(), "before": 2.4},
]  # fmt: skip


@pytest.mark.parametrize("kept", DAMAGED)
def test_what_is_damaged_is_as_if_it_were_not_there(kept: object) -> None:
    assert told(found(kept)) is None
    assert told(found(kept, NUMPY.describe())) == ANSWER


def test_what_is_described_is_read_again() -> None:
    whole = dataclasses.replace(NUMPY, packages=(("a", None, "1"), ("python", "3.10", "3.11")), bound=("triton",))
    assert attributed_in([{}, {KEY: None}, {KEY: [whole.describe()]}]) == [whole]


@pytest.mark.parametrize(
    ("cause", "bound", "words"),
    [
        (Cause.TORCH, (), "torch itself"),
        (Cause.TORCH, ("triton", "nvidia-a", "cuda-b"),
         "torch, or what cannot be separated from it: triton and 2 nvidia packages"),
        (Cause.DEPENDENCY, ("triton",), "numpy 1 → 2, not torch"),
        (Cause.TOGETHER, (), "only both together, torch 2.5.0 and numpy 1 → 2: neither alone changes it"),
        (Cause.TOGETHER, ("triton",),
         "only both together, torch 2.5.0 or what cannot be separated from it (triton), and numpy 1 → 2: "
         "neither alone changes it"),
        (Cause.EITHER, (), "each alone is enough: torch 2.5.0, and numpy 1 → 2"),
        (Cause.EITHER, ("triton",),
         "each alone is enough: torch 2.5.0 or what cannot be separated from it (triton), and numpy 1 → 2"),
    ],
)  # fmt: skip
def test_torch_alone_is_blamed_only_where_it_was_alone(cause: Cause, bound: tuple[str, ...], words: str) -> None:
    assert cause_words(cause, [Difference("numpy", "1", "2")], "2.5.0", bound) == words

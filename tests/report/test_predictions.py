"""What rules from elsewhere predicted for a cell, beside what was seen; and where wrong values begin."""

from __future__ import annotations

import json

import pytest

from bisect_torch.report.data import as_data
from bisect_torch.report.predictions import predictions
from bisect_torch.report.seen import seen
from bisect_torch.report.sentences import sentences
from bisect_torch.report.summary import summary
from bisect_torch.report.text import plain, width_of
from tests.report.histories import findings, instance, observation, series

WRAPS = "flat index of a wraps at 2**32"
STRIDES = "strides of b ignored"


def cell(number: int, *, seen: str, model: str | None = None, **measured: object):
    """A cell on one build: the row, and its observation with what was measured."""
    of = instance("bmm", batch=number)
    row = series(of.name, seen, device="mps")
    facts = observation(of, "2.4.1", device="mps", explained_by=model, measurements=json.dumps(measured))
    return row, facts


def found(*cells):
    return findings(*(row for row, _ in cells), observations=tuple(facts for _, facts in cells))


def predicted(verdict: str, model: str | None = None) -> dict[str, object]:
    return {"predicted_verdict": verdict, "predicted_model": model}


FITTING = [
    cell(1, seen="ok", **predicted("ok")),
    cell(2, seen="wrong", model=WRAPS, **predicted("wrong", WRAPS)),
    cell(3, seen="wrong", model=f"{STRIDES} or {WRAPS}", **predicted("wrong", WRAPS)),
    cell(4, seen="wrong", model=None, **predicted("wrong")),
    cell(5, seen="error:RuntimeError", **predicted("error")),
    cell(6, seen="ok", **predicted("wrong", WRAPS), simulated_verdict="wrong", simulated_explained_by=WRAPS),
    cell(7, seen="ok"),
]
DEVIATING = [
    cell(11, seen="ok", **predicted("wrong", WRAPS)),
    cell(12, seen="wrong", model=STRIDES, **predicted("ok")),
    cell(13, seen="wrong", model=None, **predicted("wrong", WRAPS)),
    cell(14, seen="wrong", model=STRIDES, **predicted("wrong", WRAPS)),
    cell(15, seen="wrong", model=STRIDES, **predicted("error")),
    cell(16, seen="ok", **predicted("ok"), simulated_verdict="wrong", simulated_explained_by=None),
]
UNJUDGED = [
    cell(21, seen="infra", **predicted("ok")),
    cell(22, seen="ok|wrong", **predicted("ok")),
]


@pytest.mark.parametrize("one", FITTING[:-1])
def test_a_cell_that_fits(one):
    (each,) = predictions(found(one))
    assert each.fits


@pytest.mark.parametrize("one", DEVIATING + UNJUDGED)
def test_a_cell_that_does_not_fit_or_was_not_judged_is_not_counted_as_fitting(one):
    (each,) = predictions(found(one))
    assert not each.fits
    assert (each.seen is None) == (one in UNJUDGED)


def test_a_run_without_predictions_says_nothing_of_them():
    assert "predicted" not in plain(summary(found(FITTING[-1]), 80))
    assert as_data(found(FITTING[-1]))["predictions"] is None


def test_a_run_that_came_out_as_predicted_says_so_in_one_line():
    text = plain(summary(found(*FITTING), 80))
    assert [line for line in text.splitlines() if "predicted" in line] == [
        "as predicted: 6 of 6 cells (1 on a simulated backend)"
    ]


def test_each_deviation_is_said_with_what_was_expected_and_what_was_seen():
    text = plain(summary(found(*FITTING, *DEVIATING, *UNJUDGED), 100))
    section = text[text.index("as predicted") :].partition("\n\n")[0]
    assert section.splitlines() == [
        "as predicted: 6 of 12 cells (2 on a simulated backend); 2 more could not be judged",
        "  bmm[batch=11]: predicted wrong (flat index of a wraps at 2**32), seen ok, in 2.4.1",
        "  bmm[batch=12]: predicted ok, seen wrong (strides of b ignored), in 2.4.1",
        "  bmm[batch=13]: predicted wrong (flat index of a wraps at 2**32), seen wrong (by no known model),",
        "    in 2.4.1",
        "  bmm[batch=14]: predicted wrong (flat index of a wraps at 2**32), seen wrong (strides of b",
        "    ignored), in 2.4.1",
        "  bmm[batch=15]: predicted error, seen wrong (strides of b ignored), in 2.4.1",
        "  bmm[batch=16]: predicted ok, seen wrong (by no known model), in 2.4.1",
    ]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_section_fits_the_width(width):
    lines = plain(summary(found(*FITTING, *DEVIATING), width)).splitlines()
    assert max(width_of(line) for line in lines) <= width


def test_the_same_deviation_of_many_instances_is_one_line_and_every_cell_is_in_the_data():
    cells = [cell(number, seen="ok", **predicted("wrong", WRAPS)) for number in range(100, 140)]
    document = found(*FITTING, *cells)
    text = plain(summary(document, 100))
    assert text[text.index("as predicted") :].partition("\n\n")[0].splitlines() == [
        "as predicted: 6 of 46 cells (1 on a simulated backend)",
        "  40 of 47 instances of bmm, such as bmm[batch=100]: predicted wrong (flat index of a wraps at",
        "    2**32), seen ok, in 2.4.1",
    ]
    data = as_data(document)["predictions"]
    assert (data["cells"], data["as_predicted"], data["unjudged"]) == (46, 6, 0)
    assert data["deviations"][0] == {
        "case_file": "/cases/cases.py",
        "instance": "bmm[batch=100]",
        "device": "mps",
        "build": "2.4.1",
        "expected": {"verdict": "wrong", "model": WRAPS},
        "seen": {"verdict": "ok", "model": None},
    }
    assert len(data["deviations"]) == 40
    assert json.dumps(data)


def test_more_kinds_of_deviation_than_a_screen_holds_are_counted():
    cells = [cell(n, seen="wrong", model=f"model {n}", **predicted("ok")) for n in range(20)]
    text = plain(summary(found(*cells), 100))
    assert "as predicted: 0 of 20 cells" in text
    assert text.count("predicted ok") == 12
    assert "8 more deviations; --json has every cell" in text


def test_a_wrong_cell_says_where_the_wrongness_begins():
    row, facts = cell(1, seen="wrong", model=WRAPS, first_wrong_batch=65536, first_wrong_flat_index=2**32)
    document = found((row, facts))
    words = seen([(row, row.points[0])], document)
    assert words == f"exactly what this would give: {WRAPS}; wrong from batch 65,536, flat index 4,294,967,296 on"
    (sentence,) = sentences(document)
    assert dict(sentence.evidence)["seen"] == words


def test_wrong_cells_that_differ_in_what_explains_them_say_how_many_each():
    models = [WRAPS] * 3 + [STRIDES] * 2 + [None]
    document = found(*(cell(n, seen="wrong", model=model) for n, model in enumerate(models)))
    (sentence,) = sentences(document)
    assert dict(sentence.evidence)["explained by"] == f"{WRAPS} in 3; {STRIDES} in 2; no model in 1"

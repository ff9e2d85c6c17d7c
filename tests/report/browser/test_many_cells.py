"""A page with very many cells holds only those in sight. How fast it is, `python -m tests.benchmarks.html` measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.browser.conftest import Opener, write
from tests.support.many_cells import many_cells

pytestmark = pytest.mark.browser

_MOST = 1500
"""Cells of the matrix in the document at once."""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory, many_cells(100_000))


def test_a_hundred_thousand_cells_are_reached_though_few_are_drawn(open_page: Opener, many: Path) -> None:
    page = open_page(many)
    assert page.locator("#status").inner_text() == "6,667 rows in 40 cases"
    assert page.locator("#grid .row.case").count() > 5, "a long matrix begins folded"

    page.locator("#unfold").click()
    assert page.locator("#grid").get_attribute("aria-rowcount") == "6708"
    page.locator("#grid").focus()
    page.keyboard.press("Control+End")

    assert page.locator("#grid .active").get_attribute("aria-label", timeout=60_000)
    assert (
        page.locator("#grid .active").evaluate("(each) => each.parentElement.getAttribute('aria-rowindex')") == "6708"
    )
    assert page.locator("#grid .cell").count() < _MOST
    page.keyboard.press("Enter")
    assert "operator_39[" in page.locator("#detail-title").inner_text()


def test_a_name_among_thousands_is_found(open_page: Opener, many: Path) -> None:
    page = open_page(many)

    page.get_by_label("Search names").fill("batch=6666]")

    assert page.locator("#status").inner_text() == "1 of 6,667 rows in 1 case"


def test_hundreds_of_nightlies_are_drawn_as_they_come_into_sight(
    open_page: Opener, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = tuple(f"2.16.0.dev2026{month:02d}{day:02d}" for month in range(1, 11) for day in range(1, 29))
    page = open_page(write(tmp_path_factory, many_cells(280 * 30, names)))
    assert page.locator("#grid .cell").count() < _MOST

    page.locator("#grid").focus()
    page.keyboard.press("End")

    head = page.locator("#grid .build").last
    assert head.inner_text() == "10-28"
    assert head.get_attribute("aria-colindex") == "281"
    assert page.locator("#grid .active").get_attribute("aria-colindex") == "281"
    assert page.locator("#grid .cell").count() < _MOST
    assert page.locator("#grid .label").first.is_visible(), "names stay"

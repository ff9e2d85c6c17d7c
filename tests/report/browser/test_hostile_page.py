"""What a case printed does not run, does not break the page, and is shown as what it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.report.browser.conftest import Opener, write
from tests.report.hostile import ATTACKS, BUILDS, hostile_findings

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory, hostile_findings())


def test_no_attack_runs_and_every_cell_opens(open_page: Opener, hostile: Path) -> None:
    page = open_page(hostile)
    elements = page.evaluate("[...new Set([...document.querySelectorAll('*')].map((each) => each.tagName))]")
    assert "IMG" not in elements

    for cell in page.locator("#grid .body .row:not(.case) .cell").all():
        cell.click()
        page.evaluate("document.querySelectorAll('#detail details').forEach((each) => { each.open = true; })")
        assert page.locator("#detail script, #detail img, #detail [onmouseover]").count() == 0
        shown = page.locator("#detail pre[aria-label=Traceback]").first.inner_text()
        assert "</script><script>window.canary = true</script>" in shown
        assert "abc\\u202egnp.exe\\u2066" in shown
    assert page.locator("#grid .body .row:not(.case)").count() == len(ATTACKS)
    assert page.evaluate("window.canary") is None


def test_no_address_of_a_case_becomes_a_link_unless_it_is_one_of_the_web(open_page: Opener, hostile: Path) -> None:
    page = open_page(hostile)
    page.locator("#grid .body .row:not(.case) .cell").first.click()

    links = page.evaluate("[...document.links].map((each) => each.protocol)")

    assert set(links) <= {"https:", "file:"}


def test_the_policy_stops_a_script_that_gets_in_all_the_same(open_page: Opener, hostile: Path) -> None:
    page = open_page(hostile, complains=True)

    stopped = page.evaluate(
        """() => {
          try {
            document.body.innerHTML = "<img src=x onerror='window.canary = true'>";
          } catch (error) {
            return error.name;
          }
          return "parsed";
        }"""
    )

    assert stopped == "TypeError"
    assert page.evaluate("window.canary") is None


def test_names_are_filters_too(open_page: Opener, hostile: Path) -> None:
    page = open_page(hostile)
    field = page.locator("fieldset", has=page.locator("legend", has_text=re.compile("^case$")))

    for place in range(len(ATTACKS)):
        field.locator("input[type=checkbox]").nth(place).check()
        assert page.locator("#grid .body .row:not(.case)").count() == 1
        field.locator("input[type=checkbox]").nth(place).uncheck()
    assert page.locator("#grid .build").all_inner_texts() == list(BUILDS)

"""What a reader does with the page, in a real Chromium."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.report.browser.conftest import DESKTOP, PHONE, Opener, recorded, write
from tests.report.histories import findings, series

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def rows(page: Page) -> list[str]:
    """Labels of the rows that are drawn, without those of cases."""
    return page.locator("#grid .body .row:not(.case) .label").all_inner_texts()


def letters(page: Page, label: str) -> str:
    """The letters and small marks of one row."""
    row = page.locator("#grid .row", has=page.locator(".label", has_text=re.compile(f"^{label}$")))
    return " ".join(row.locator(".cell").all_inner_texts())


def tick(page: Page, facet: str, value: str) -> None:
    field = page.locator("fieldset", has=page.locator("legend", has_text=re.compile(f"^{facet}$")))
    field.locator("label", has=page.locator(".value", has_text=re.compile(f"^{re.escape(value)}$"))).click()


def active(page: Page) -> str:
    """What the grid says of the cell that the keys have reached."""
    return page.evaluate(
        """() => {
          const cell = document.getElementById(document.getElementById("grid").getAttribute("aria-activedescendant"));
          return cell.getAttribute("aria-label") ?? cell.innerText;
        }"""
    )


# --- matrix and filters


def test_a_filter_s_number_says_that_it_counts_rows(open_page: Opener, real_cases: Path) -> None:
    page = open_page(real_cases)
    numbers = dict(
        zip(*(page.locator(f"#facets .{name}").all_inner_texts() for name in ("value", "number")), strict=True)
    )
    assert numbers["ok"] == "12 rows"
    assert numbers["API absent"] == "1 row"


def test_the_matrix_shows_the_letters_of_the_terminal(open_page: Opener, real_cases: Path) -> None:
    page = open_page(real_cases)

    assert letters(page, "scan_closed_over_grad").replace("\n", "") == "A A A E E' E W W W W W W W · ·"
    assert letters(page, "index_put_accumulate_float").replace("\n", "") == " ".join(["W~"] * 15)
    assert len(rows(page)) == 20
    legend = page.locator("#legend").inner_text()
    assert all(words in legend for words in ("ok", "wrong (silent)", "error", "crash", "API absent"))


def test_the_grid_has_the_roles_and_places_of_an_aria_grid(open_page: Opener, real_cases: Path) -> None:
    grid = open_page(real_cases).get_by_role("grid", name="Matrix")

    assert (grid.get_attribute("aria-rowcount"), grid.get_attribute("aria-colcount")) == ("21", "16")
    assert grid.get_by_role("columnheader").all_inner_texts()[:3] == ["instance", "2.4.1", "2.5.0"]
    row = grid.get_by_role("row", name=re.compile("chebyshev_t_nan"))
    assert row.get_attribute("aria-rowindex") == "3"
    cell = row.get_by_role("gridcell", name="2.9.0: wrong (silent), broke after 2.8.0")
    assert cell.get_attribute("aria-colindex") == "9"


def test_a_verdict_is_a_filter(open_page: Opener, real_cases: Path) -> None:
    page = open_page(real_cases)

    tick(page, "verdict", "crash")

    assert rows(page) == [
        "as_strided_huge_offset", "embedding_bag_f64_empty_offsets", "floor_divide_intmin",
        "native_channel_shuffle_groups0",
    ]  # fmt: skip
    assert page.locator("#status").inner_text() == "4 of 20 rows in 4 cases"
    faint = page.locator("#grid .cell.dim").all_inner_texts()
    assert "C" not in faint
    assert "E" in faint
    page.get_by_role("button", name="Clear filters").click()
    assert len(rows(page)) == 20


def test_parameters_and_cases_are_filters_that_all_must_fit(open_page: Opener, large_index: Path) -> None:
    page = open_page(large_index)

    tick(page, "case", "bmm_output")
    tick(page, "layout", "strided")
    tick(page, "batch", "65537")

    assert page.locator("#status").inner_text().startswith("2 of 144 rows in 1 case")
    assert [text.replace("\n", " ") for text in rows(page)] == [
        "bfloat16, strided, 256x64x256, 65537", "float16, strided, 256x64x256, 65537",
    ]  # fmt: skip


def test_the_number_beside_a_value_is_that_of_the_rows_it_would_leave(open_page: Opener, large_index: Path) -> None:
    page = open_page(large_index)
    tick(page, "layout", "strided")
    numbers = {
        text.split("\n")[0]: int(text.split("\n")[-1].split()[0])
        for text in page.locator("fieldset", has_text="dtype").first.locator("label").all_inner_texts()
    }

    for dtype, number in numbers.items():
        tick(page, "dtype", dtype)
        assert page.locator("#status").inner_text().startswith(f"{number} of 144 rows")
        tick(page, "dtype", dtype)


def test_a_name_is_searched_for(open_page: Opener, real_cases: Path) -> None:
    page = open_page(real_cases)

    page.get_by_label("Search names").fill("compile")
    assert rows(page) == ["compile_index_put_doubles_twice", "compile_uint8_abs_cat_sum"]
    page.get_by_label("Search names").fill("no such case")
    assert page.locator("#nothing").is_visible()


def test_a_case_folds_to_one_line_that_counts_its_worst(open_page: Opener, large_index: Path) -> None:
    page = open_page(large_index)
    tick(page, "case", "bmm_output")

    page.locator("#grid .row.case .label").click()

    assert rows(page) == []
    cells = page.locator("#grid .row.case .cell")
    assert cells.first.get_attribute("aria-label") == "2.4.1: skipped in 24 of 48 rows"
    assert cells.first.inner_text().replace("\n", "") == "-24"


def test_a_finding_leads_to_its_rows(open_page: Opener, real_cases: Path) -> None:
    page = open_page(real_cases)

    page.locator("#findings > li", has_text="chebyshev_t_nan is fixed").get_by_role("button").click()

    assert rows(page) == ["chebyshev_t_nan"]
    assert active(page) == "2.13.0: ok, fixed after 2.12.1"
    link = page.locator("#findings > li", has_text="chebyshev_t_nan is fixed").get_by_role("link")
    assert (link.get_attribute("href") or "").startswith("https://github.com/pytorch/pytorch/compare/")


# --- a cell


def test_a_cell_opens_with_traceback_environment_and_command(open_page: Opener, real_cases: Path) -> None:
    page = open_page(real_cases)
    page.get_by_role("row", name=re.compile("ctc_loss_empty_batch")).get_by_role("gridcell").nth(6).click()
    detail = page.get_by_role("dialog", name="ctc_loss_empty_batch on 2.8.0")

    text = detail.inner_text()
    assert "error:RuntimeError" in text
    assert "changed after 2.7.1" in text
    assert "bisect-torch run ctc_loss_empty_batch.py --python=3.11 --timeout=90 --versions=2.8.0" in text
    assert detail.get_by_label("Traceback").first.inner_text().startswith("Traceback (most recent call last):")
    assert detail.locator("details.observation").count() == len(
        recorded("real_cases_matrix").by_cell["ctc_loss_empty_batch.py", "ctc_loss_empty_batch", "cpu", "2.8.0"]
    )
    detail.locator("summary", has_text=re.compile(r"^\d+ packages$")).click()
    assert "numpy 2.3.2" in detail.locator(".packages").inner_text()
    assert "AMD EPYC" in text


def test_the_details_follow_the_arrow_keys(open_page: Opener, real_cases: Path) -> None:
    page = open_page(real_cases)
    page.get_by_role("row", name=re.compile("sign_nan")).get_by_role("gridcell").first.click()

    page.keyboard.press("ArrowRight")
    assert page.locator("#detail-title").inner_text() == "sign_nan on 2.5.0"
    page.get_by_role("button", name="Build after").click()
    assert page.locator("#detail-title").inner_text() == "sign_nan on 2.5.1"
    assert active(page).startswith("2.5.1")


def test_an_error_is_plotted_for_each_case(open_page: Opener, large_index: Path) -> None:
    page = open_page(large_index)
    page.locator("#plots-section").scroll_into_view_if_needed()
    page.wait_for_selector(".plot canvas")
    figure = page.locator("#plots figure").first

    assert figure.locator("figcaption").inner_text() == "bmm_output"
    assert "tolerance 0.01564" in figure.inner_text()
    figure.get_by_text("As a table").click()
    assert "2.14.0" in figure.locator("table").inner_text()


def test_plots_are_drawn_before_anybody_scrolls_to_them(open_page: Opener, neighbours: Path) -> None:
    """Else a picture of the whole page, or a print of it, has empty boxes."""
    page = open_page(neighbours)
    page.wait_for_selector("#plots .plot canvas", state="attached")

    box = page.locator("#plots .plot").last.bounding_box()
    assert box is not None
    assert box["y"] > 2 * DESKTOP[1], "far below what is in sight"
    assert page.locator("#plots .plot").count() == page.locator("#plots .plot canvas").count() == 6

    page.get_by_role("button", name="More plots").click()
    assert page.locator("#plots .plot").count() == page.locator("#plots .plot canvas").count() == 12


def test_very_many_plots_wait_until_they_are_in_sight_or_printed(
    open_page: Opener, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = []
    for number in range(30):
        row = series(f"case_{number}", "ok", "wrong")
        points = tuple(each and dataclasses.replace(each, rel_error=0.5) for each in row.points)
        rows.append(dataclasses.replace(row, points=points))
    page = open_page(write(tmp_path_factory, findings(*rows)))
    page.wait_for_selector("#plots .plot canvas", state="attached")

    for _ in range(4):
        page.evaluate("document.getElementById('more-plots').click(); window.scrollTo(0, 0)")
    assert page.locator("#plots .plot").count() == 30
    assert page.locator("#plots .plot canvas").count() < 30

    page.emulate_media(media="print")
    page.wait_for_selector("#grid.printing")
    assert page.locator("#plots .plot canvas").count() == 30


def test_no_label_of_the_matrix_is_cut_where_there_is_room(open_page: Opener, neighbours: Path) -> None:
    page = open_page(neighbours)

    cut = page.locator("#grid .row:not(.head) .label").evaluate_all(
        """(labels) => labels.flatMap((label) => [...label.children])
          .filter((each) => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0)
          .map((each) => each.innerText)"""
    )
    assert cut == []


def test_names_give_way_where_fifteen_builds_fit_beside_them(
    open_page: Opener, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The newest builds would else be reached only by scrolling inside the matrix."""
    name = "a_case_whose_name_is_long_enough_to_take_half_of_the_room_that_there_is"
    page = open_page(write(tmp_path_factory, findings(series(name, *["ok"] * 15))), size=(1300, 1000))

    assert page.locator("#grid").evaluate("(grid) => grid.scrollWidth - grid.clientWidth") <= 0
    assert page.locator("#grid .heads .build").last.inner_text() == "2.14.0"
    overlap = "(heads) => heads.some((each) => each.scrollWidth > each.clientWidth)"
    assert not page.locator("#grid .heads .build").evaluate_all(overlap)
    assert page.locator("#grid .body .label").first.get_attribute("title") == name


# --- keyboard


def test_everything_can_be_done_with_keys_alone(open_page: Opener, real_cases: Path) -> None:
    page = open_page(real_cases)
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "grid":
            break
    assert page.evaluate("document.activeElement.id") == "grid"

    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "End", "ArrowLeft"):
        page.keyboard.press(key)
    assert active(page) == "2.13.0: ok"
    outline = page.locator("#grid .active").evaluate("(cell) => getComputedStyle(cell).outlineStyle")
    assert outline == "solid"

    page.keyboard.press("Enter")
    assert page.locator("#detail-title").inner_text() == "compile_index_put_doubles_twice on 2.13.0"
    assert page.evaluate("document.activeElement.id") == "detail-title"
    page.keyboard.press("Tab")
    assert page.evaluate("document.getElementById('detail').contains(document.activeElement)")
    page.keyboard.press("Escape")
    assert page.locator("#detail").is_hidden()
    assert page.evaluate("document.activeElement.id") == "grid"
    assert active(page) == "2.13.0: ok"

    page.keyboard.press("Control+End")
    assert active(page) == "2.14.0: error"
    page.keyboard.press("Control+Home")
    assert active(page) == "as_strided_huge_offset"


def test_a_case_is_folded_with_arrows_on_its_name(open_page: Opener, large_index: Path) -> None:
    page = open_page(large_index)
    page.locator("#grid").focus()
    heading = page.locator("#grid .row.case .label").first
    assert heading.get_attribute("aria-expanded") == "true"

    page.keyboard.press("ArrowLeft")
    assert heading.get_attribute("aria-expanded") == "false"
    page.keyboard.press("ArrowRight")
    assert heading.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-expanded") == "false"


# --- looks

_CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ground = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!/rgba\\(.*, 0\\)|transparent/.test(colour)) return colour;
    }
  };
  const names = JSON.parse(document.getElementById("matrix-data").textContent).verdicts.map((each) => each.name);
  const list = document.getElementById("legend");
  for (const name of names) {
    const chip = document.createElement("span");
    chip.className = `cell v-${name}`;
    chip.textContent = name;
    list.append(chip);
  }
  const found = {};
  const spoken = "h1, h2, p, summary, button, a, label span, dt, dd, .kind, .cell, .label, .build, .faint, .number";
  for (const node of document.querySelectorAll(spoken)) {
    if (!node.innerText?.trim() || node.closest(".dim") || node.disabled) continue;
    const [a, b] = [light(getComputedStyle(node).color), light(ground(node))].sort((x, y) => y - x);
    const name = `${node.tagName}.${node.className}`;
    found[name] = Math.min(found[name] ?? 99, (a + 0.05) / (b + 0.05));
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(open_page: Opener, real_cases: Path, scheme: str) -> None:
    """A ratio of at least 4.5, as WCAG 2.2 asks for (success criterion 1.4.3); every verdict is looked at."""
    page = open_page(real_cases, scheme=scheme)
    page.get_by_role("gridcell").first.click()

    found = page.evaluate(_CONTRASTS)

    assert len([name for name in found if "v-" in name]) >= 13
    assert {name: round(ratio, 2) for name, ratio in found.items() if ratio < 4.5} == {}


def test_dark_follows_the_system_and_the_switch(open_page: Opener, real_cases: Path) -> None:
    def ground(of: Page) -> str:
        return str(of.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = ground(open_page(real_cases)), ground(open_page(real_cases, scheme="dark"))
    page = open_page(real_cases)
    switch = page.get_by_role("button", name=re.compile("Theme"))
    seen = []
    for _ in range(3):
        switch.click()
        seen.append((switch.inner_text(), ground(page)))

    assert light != dark
    assert seen == [("Theme: light", light), ("Theme: dark", dark), ("Theme: system", light)]


def test_a_phone_never_scrolls_the_page_sideways(open_page: Opener, real_cases: Path, large_index: Path) -> None:
    for path in (real_cases, large_index):
        page = open_page(path, size=PHONE)
        assert page.locator("#facets").is_hidden(), "filters are folded"

        page.locator("#filters > summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        page.locator("#filters > summary").click()
        page.locator("#grid .row:not(.case) .cell").first.click()
        detail = page.locator("#detail").bounding_box()
        assert detail is not None
        assert (detail["x"], detail["width"]) == (0, PHONE[0])
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        assert page.evaluate("document.getElementById('detail').scrollWidth") <= PHONE[0]
        page.get_by_role("button", name="Close").click()


def test_paper_has_every_row_and_every_finding_and_is_light(open_page: Opener, large_index: Path) -> None:
    page = open_page(large_index, scheme="dark")
    page.locator("#fold").click()
    page.locator("#unfold").click()

    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_selector("#grid.printing")

    assert len(rows(page)) == 144
    assert page.locator("#facets").is_hidden()
    cell = page.locator("#legend .v-ok").evaluate("(each) => getComputedStyle(each).backgroundColor")
    assert cell == "rgb(227, 241, 234)"
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="screen")
    page.wait_for_selector("#grid:not(.printing)")
    assert len(rows(page)) < 144, "only what is in sight is drawn again"


def test_findings_that_were_folded_are_printed(open_page: Opener, real_cases: Path) -> None:
    page = open_page(real_cases)
    assert page.locator("#findings > li:visible").count() == 8

    page.emulate_media(media="print")

    assert page.locator("#findings > li:visible").count() == 22

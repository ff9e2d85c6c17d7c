"""A page in a real browser: it must ask for nothing but itself and write no error to the console."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from bisect_torch.cli.judge import judged_again
from bisect_torch.report.findings import Findings
from bisect_torch.report.html import html
from bisect_torch.results import ResultsFile
from tests.support import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DATA = Path(__file__).parents[2] / "data"
DESKTOP, PHONE = (1440, 900), (390, 844)


class Opener(Protocol):
    def __call__(
        self, page: Path, size: tuple[int, int] = DESKTOP, scheme: str = "light", complains: bool = False
    ) -> Page: ...


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Closed after the last test of this folder: as long as playwright runs, no other test can have an event loop."""
    if reason := chromium.missing():
        pytest.skip(reason)
    with chromium.browser() as running:
        yield running


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Opener]:
    """Opens a page; at the end of the test it has asked for nothing and, unless it was to, complained of nothing."""
    complaints: list[str] = []
    requests: list[str] = []
    contexts = []

    def opened(page: Path, size: tuple[int, int] = DESKTOP, scheme: str = "light", complains: bool = False) -> Page:
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            has_touch=size == PHONE,
            reduced_motion="reduce",
        )
        contexts.append(context)
        made = context.new_page()
        made.set_default_timeout(60_000)  # a busy machine
        if not complains:
            made.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        made.on("pageerror", lambda error: complaints.append(str(error)))
        made.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        made.on("request", lambda request: requests.append(request.url))
        made.goto(page.as_uri())
        made.wait_for_selector("#grid .cell")
        made.wait_for_function("document.readyState === 'complete'")
        return made

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file://", "data:"))] == []


def write(folder: pytest.TempPathFactory, findings: Findings) -> Path:
    path = folder.mktemp("page") / "page.html"
    path.write_text(html(findings), encoding="utf-8")
    return path


def recorded(name: str) -> Findings:
    return judged_again(ResultsFile.open(DATA / f"{name}.parquet", must_exist=True), None)


@pytest.fixture(scope="session")
def real_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory, recorded("real_cases_matrix"))


@pytest.fixture(scope="session")
def large_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory, recorded("large_index_bmm"))


@pytest.fixture(scope="session")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two builds, and cases with several parameters."""
    return write(tmp_path_factory, recorded("large_index_neighbours"))

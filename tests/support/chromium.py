"""A real Chromium without a window, for the tests of the page and its benchmark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def program() -> str | None:
    """The browser's path; None where there is none."""
    return next((path for path in map(shutil.which, _NAMES) if path), None)


def missing() -> str | None:
    """Why no browser can be driven here, with what to do about it; None where one can."""
    if util.find_spec("playwright") is None:
        return "the Python package playwright is missing: pip install playwright"
    if program() is None:
        return "no chromium on PATH: install the system's package, such as apt-get install chromium"
    return None


@contextmanager
def browser() -> Iterator[Browser]:
    """The browser, closed at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            # Root has no sandbox, and the small /dev/shm of a container is no place for a page.
            executable_path=program(),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        try:
            yield running
        finally:
            running.close()

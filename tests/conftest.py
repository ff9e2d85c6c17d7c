"""What every test shares: isolation of the process's own state, and two real releases of torch."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import hypothesis
import pytest

from tests.support.tally import pytest_terminal_summary, tally

__all__ = ["pytest_terminal_summary", "tally"]

# A machine that runs tests side by side is slow at times: no example fails for that.
hypothesis.settings.register_profile("side by side", deadline=None)
hypothesis.settings.load_profile("side by side")

REAL_RELEASES = ("2.4.1", "2.14.0")
"""The oldest and the newest of the range that the tool is made for."""


def pytest_configure() -> None:
    """Signals as in a terminal: what a shell started in the background ignores, its children would ignore too."""
    for number, handler in {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(tryfirst=True)  # before marks are chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes the fixture below downloads 10 GB: it has the mark that says so, also where its author forgot it."""
    for item in items:
        if "real_torch" in getattr(item, "fixturenames", ()):
            item.add_marker("real_torch")


@pytest.fixture(autouse=True)
def process_state_is_left_alone() -> Iterator[None]:
    """A test that changes variables, the working directory or logging would make others depend on its order."""
    before = (dict(os.environ), os.getcwd(), list(logging.getLogger().handlers))
    yield
    after = (dict(os.environ), os.getcwd(), list(logging.getLogger().handlers))
    changed = {name for name in before[0].keys() | after[0].keys() if before[0].get(name) != after[0].get(name)}
    assert changed - {"PYTEST_CURRENT_TEST"} == set()
    assert before[1:] == after[1:]


@pytest.fixture(scope="session")
def real_torch() -> Mapping[str, Path]:
    """Version to interpreter, for two real releases.

    They are built by the tool in its own store (``BISECT_TORCH_STORE`` or the user's), so that a second run of the
    tests finds them there. ``BISECT_TORCH_TEST_PYTHONS="2.4.1=/path/to/python,…"`` names ready interpreters instead.
    """
    named = os.environ.get("BISECT_TORCH_TEST_PYTHONS")
    if named:
        return {version: Path(path) for version, _, path in (item.partition("=") for item in named.split(","))}
    from bisect_torch.environments import EnvironmentOptions, Store, ensure
    from bisect_torch.releases import IndexOptions, Selection, list_builds, select

    builds = select(list_builds(IndexOptions()), Selection(versions=REAL_RELEASES))
    options = EnvironmentOptions(store=Store.open())
    return {build.version: ensure(build, options)[0].python for build in builds}

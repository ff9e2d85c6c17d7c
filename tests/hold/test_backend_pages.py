"""The page of torch on an index that speaks HTML alone: PyTorch's own of a backend, that of nightly builds, and one
without hashes. Whatever is wrong with it, the build that is there goes on, and nothing is taken from elsewhere instead.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.hold.test_network import BODY, FAULTS, PADDING, Begun, check, why
from tests.support.index import FakeIndex
from tests.support.tally import Tally
from tests.support.tool import Tool
from tests.support.wheels import fake_numpy, fake_setuptools, fake_torch

WRONG = "def answer(): return 0"
"""What the torch of the same name on the default index answers: it must never be taken."""

NIGHTLIES = ("2.6.0.dev20241101", "2.6.0.dev20241102")

PAGES = {
    "releases of a backend": "/cpu/torch/",
    "nightly builds": "/nightly/cpu/torch/",
    "index without hashes": "/simple/torch/",
}
QUICK = {("500", "nightly builds"), ("404", "releases of a backend"), ("garbage page", "index without hashes")}
PAIRS = [
    pytest.param(fault, page, marks=() if (fault, page) in QUICK else pytest.mark.slow, id=f"{fault} at {page}")
    for page in PAGES
    for fault in FAULTS
    if fault != "other bytes"
]


def _index(page: str) -> FakeIndex:
    index = FakeIndex(hashes=page != "index without hashes")
    index.add(fake_numpy(upload_time="2024-08-05"), fake_setuptools(upload_time="2024-08-05"))
    right = BODY if page == "index without hashes" else WRONG
    for version, day in (("2.4.1", "2024-09-04"), ("2.5.0", "2024-10-14")):
        index.add(fake_torch(version, right, upload_time=day, padding=PADDING))
        index.add(fake_torch(f"{version}+cpu", BODY, padding=PADDING), shelf="cpu")
    for version in NIGHTLIES:
        index.add(fake_torch(f"{version}+cpu", BODY, padding=PADDING), shelf="nightly/cpu")
    return index


@pytest.fixture(scope="module")
def firsts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Begun]]:
    """Page to a folder in which the older of two builds has its environment and its result; made when asked for."""
    with ExitStack() as stack:

        class Firsts(dict[str, Begun]):
            def __missing__(self, page: str) -> Begun:
                index = stack.enter_context(_index(page))
                begun = Begun(Tool(tmp_path_factory.mktemp("first"), index))
                if page != "index without hashes":
                    begun.options = ("--torch-backend", "cpu")
                    begun.variables = {"BISECT_TORCH_BACKEND_INDEX": index.base}
                if page == "nightly builds":
                    begun.versions = NIGHTLIES
                begun.make_first()
                self[page] = begun
                return begun

        yield Firsts()


@pytest.mark.parametrize(("fault", "page"), PAIRS)
def test_a_page_of_torch_that_goes_wrong_is_never_torchs_fault(
    fault: str, page: str, firsts: dict[str, Begun], tmp_path: Path, tally: Tally
) -> None:
    begun = firsts[page].copied(tmp_path / "w")
    begun.index.fault(PAGES[page], dataclasses.replace(FAULTS[fault]))
    try:
        with tally("network: pages of backends"):
            started = time.monotonic()
            answer = begun.run()
            seconds = time.monotonic() - started
            asked = len(begun.index.asked(PAGES[page]))
            found = check(answer)
            row = (fault, page, found, f"{seconds:.0f} s", f"{asked} requests", why(answer)[:100])
            tally.row("network: pages of backends", row)
            assert found != "no list", "what needs no index did not go on"
            begun.check_goes_on()
    finally:
        begun.index.clear_faults()

"""A tool with a store of its own for each test, on an index of small fake torch wheels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.index import FakeIndex
from tests.support.tool import Tool
from tests.support.wheels import releases

MakeTool = Callable[[Mapping[str, str]], Tool]


@pytest.fixture
def make_tool(tmp_path: Path) -> Iterator[MakeTool]:
    """Version to the body of its fake torch, to a tool whose index serves these."""
    with ExitStack() as stack:

        def make(bodies: Mapping[str, str]) -> Tool:
            return Tool(tmp_path, stack.enter_context(FakeIndex(releases(bodies))))

        yield make

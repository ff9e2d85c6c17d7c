"""What was tried, what survived, what was lost and what was misjudged: added up over tests, printed at the end.

    def test_…(tally: Tally) -> None:
        with tally("stored data"):
            …                                    # one try; it survives if nothing is raised
        tally.add("stored data", tried=900, survived=900)
        tally.row("network", ("reset", "wheel body", "infra", "3.1 s", "3 times"))

The figures travel in the reports of the tests, so that they come through with several processes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

_FIGURE, _ROW = "tally", "tally row"


class Tally:
    """The figures of one test."""

    def __init__(self, properties: list[tuple[str, object]]) -> None:
        self._properties = properties

    @contextmanager
    def __call__(self, line: str) -> Iterator[None]:
        """One try."""
        survived = False
        try:
            yield
            survived = True
        finally:
            self.add(line, tried=1, survived=int(survived))

    def add(self, line: str, *, tried: int, survived: int, lost: int = 0, misjudged: int = 0) -> None:
        self._properties.append((_FIGURE, [line, tried, survived, lost, misjudged]))

    def row(self, table: str, words: Sequence[str]) -> None:
        self._properties.append((_ROW, [table, list(words)]))


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    return Tally(request.node.user_properties)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    figures: dict[str, list[int]] = {}
    rows: dict[str, list[list[str]]] = {}
    for report in (each for kind in ("passed", "failed") for each in terminalreporter.stats.get(kind, [])):
        for name, value in getattr(report, "user_properties", ()) if report.when == "call" else ():
            if name == _FIGURE:
                sums = figures.setdefault(value[0], [0, 0, 0, 0])
                figures[value[0]] = [one + more for one, more in zip(sums, value[1:], strict=True)]
            elif name == _ROW:
                rows.setdefault(value[0], []).append(value[1])
    for table, lines in sorted(rows.items()):
        terminalreporter.section(table)
        _write(terminalreporter, lines)
    if figures:
        terminalreporter.section("tried and survived")
        head = ["line", "tried", "survived", "lost", "misjudged"]
        _write(terminalreporter, [head, *([line, *map(str, sums)] for line, sums in sorted(figures.items()))])


def _write(reporter: Any, rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        reporter.write_line(" | ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())

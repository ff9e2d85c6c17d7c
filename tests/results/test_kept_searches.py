"""What searches on real releases did, as it was kept: boundaries of the full matrix, few builds; the page has them.

Made with the same scripts as the kept matrix, each search with an empty results file.
"""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from tests.matrix.searches import Record, most, table

DATA = Path(__file__).parent.parent / "data"
MATRIX = json.loads((DATA / "real_series.json").read_text())
BUILDS: list[str] = MATRIX["builds"]
RECORDS = [Record(**each) for each in json.loads((DATA / "real_searches.json").read_text())]
SCRIPTS = sorted(set(MATRIX) - {"builds", "transitions"})


def changes(name: str) -> set[tuple[str, str]]:
    """The boundaries of the full matrix, from its runs of outcomes such as ``ok 4``."""
    ends = list(accumulate(int(span.split()[1]) for span in MATRIX[name]))
    return {(BUILDS[end - 1], BUILDS[end]) for end, _ in pairwise(ends)}


@pytest.mark.parametrize("name", SCRIPTS)
def test_kept_searches_found_the_boundaries_of_the_full_matrix(name: str) -> None:
    records = [record for record in RECORDS if record.script == name]
    assert {(older, newer) for record in records for older, newer in record.boundaries} == changes(name)
    assert records
    for record in records:
        assert record.flaky or len(record.judged) <= most(record.builds, len(record.boundaries))


def test_the_page_of_findings_has_the_table_of_the_records() -> None:
    assert table(RECORDS) in (DATA / "findings.md").read_text(encoding="utf-8")

"""What searches on real releases did, as it was kept: boundaries of the full matrix, few builds; the page has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.matrix.searches import FLAKY, SEARCHES, SPANS, Record, changes, most, table

DATA = Path(__file__).parent.parent / "data"
RECORDS = [Record(**each) for each in json.loads((DATA / "real_searches.json").read_text())]


@pytest.mark.parametrize("name", sorted(SEARCHES))
def test_kept_searches_found_the_boundaries_of_the_full_matrix(name: str) -> None:
    records = [record for record in RECORDS if record.script == name]
    assert [record.words for record in records] == SEARCHES[name]
    found = {(older, newer) for record in records for older, newer in record.boundaries}
    assert found == (set() if name in FLAKY else changes(SPANS[name]))
    if name not in FLAKY:
        assert all(len(record.judged) <= most(record.builds, len(record.boundaries)) for record in records)


def test_the_page_of_findings_has_the_table_of_the_records() -> None:
    assert table(RECORDS) in (DATA / "findings.md").read_text(encoding="utf-8")

"""Searches for public bugs on real releases find boundaries of the full matrix, with as few builds as stated.

    pytest -m matrix tests/matrix/test_real_searches.py

Needs the environments of 15 releases, and half an hour. Set ``BISECT_TORCH_MATRIX_RESULTS`` to a folder to keep what
each search did (``searches.json``).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.matrix.searches import BUILDS, FLAKY, SCRIPTS, SEARCHES, SPANS, changes, in_range, keep, most, search

pytestmark = pytest.mark.matrix


def outcomes(name: str) -> dict[str, str]:
    """Build to what the full matrix has there."""
    return {
        build: outcome
        for first, last, outcome in SPANS[name]
        for build in BUILDS[BUILDS.index(first) : BUILDS.index(last) + 1]
    }


@pytest.mark.parametrize("name", sorted(set(SPANS) - FLAKY))
def test_a_search_finds_what_the_full_matrix_has(name: str, tmp_path: Path) -> None:
    found: set[tuple[str, str]] = set()
    expected = outcomes(name)
    for number, words in enumerate(SEARCHES[name]):
        folder = tmp_path / str(number)
        folder.mkdir()
        record, answer = search(SCRIPTS / f"{name}.py", words, folder)
        if kept := os.environ.get("BISECT_TORCH_MATRIX_RESULTS"):
            keep(record, Path(kept) / "searches.json")

        inside = {each for each in changes(SPANS[name]) if set(each) <= set(in_range(words))}
        assert set(record.boundaries) <= inside
        assert len(inside) != 1 or set(record.boundaries) == inside
        assert len(record.judged) <= most(record.builds, len(record.boundaries)), record.judged
        (row,) = answer["search"]["rows"]
        assert all(each["tight"] for each in row["boundaries"])
        for build, cell in answer["series"][0]["cells"].items():
            assert cell is None or cell["signature"] in expected[build].split("|"), build
        found |= set(record.boundaries)
    assert found == changes(SPANS[name])


@pytest.mark.parametrize("name", sorted(FLAKY))
def test_a_case_that_is_flaky_in_every_release_gets_no_boundary(name: str, tmp_path: Path) -> None:
    for words in SEARCHES[name]:
        record, answer = search(SCRIPTS / f"{name}.py", words, tmp_path)
        if kept := os.environ.get("BISECT_TORCH_MATRIX_RESULTS"):
            keep(record, Path(kept) / "searches.json")

        assert record.boundaries == []
        assert answer["search"]["rows"][0]["flaky"]["everywhere"] > 0.5


def test_every_public_bug_is_searched() -> None:
    assert set(SEARCHES) == set(SPANS)

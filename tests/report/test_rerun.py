"""The line that runs the releases between two ends: all that it needs, and nothing that goes without saying."""

from __future__ import annotations

import sys
from pathlib import PurePath

import pytest

from bisect_torch.report.rerun import range_line
from tests.report.histories import instance, observation

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
OTHER = f"{sys.version_info[0]}.{sys.version_info[1] + 1}"
LINE = "bisect-torch run cases.py"
ENDS = "--from 2.4.1 --to 2.6.0"


def line(results: str | None, *, python: str = OWN, timeout_s: float = 120.0, words: tuple[str, ...] = ()) -> str:
    seen = observation(instance("f", file="cases.py"), "2.6.0", python=f"{python}.7", backend="pypi")
    run = {"run_id": "run", "arguments": ["run", "cases.py", *words], "timeout_s": timeout_s}
    return range_line(seen, run, "2.4.1", "2.6.0", None if results is None else PurePath(results))


@pytest.mark.parametrize(
    ("results", "where"),
    [
        (None, ""),
        ("results.parquet", ""),
        ("<cwd>/results.parquet", ""),
        ("h.parquet", " -o h.parquet"),
        ("<cwd>/my h.parquet", " -o 'my h.parquet'"),
        ("/data/results.parquet", " -o /data/results.parquet"),
    ],
)
def test_it_writes_to_the_file_that_has_the_ends(results: str | None, where: str) -> None:
    assert line(results) == f"{LINE} {ENDS}{where}"


def test_what_a_run_takes_by_itself_is_not_named() -> None:
    assert line(None, timeout_s=60.0) == f"{LINE} --timeout=60 {ENDS}"
    assert line(None, python=OTHER) == f"{LINE} --python={OTHER} {ENDS}"


def test_the_words_of_a_command_stay_behind_it() -> None:
    assert line("h.parquet", words=("--", "python", "x.py")).endswith(f"{ENDS} -o h.parquet -- python x.py")

"""Reports of kept results, word for word: read them when they change.

``BISECT_TORCH_UPDATE_SNAPSHOTS=1`` writes them anew. The file of schema version 1 is one that every later tool opens.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from bisect_torch.cli.judge import judged_again
from bisect_torch.cli.report import made
from bisect_torch.report.findings import Findings
from bisect_torch.results import ResultsFile

DATA = Path(__file__).parents[1] / "data"
SUFFIXES = {"markdown": "md", "json": "json", "csv": "csv", "junit": "xml"}
REPORTS: dict[str, tuple[str, tuple[str, ...]]] = {
    # name: results file, instances (none for all)
    "version_1": ("results_version_1", ()),
    "one_case": ("real_cases_matrix", ("rms_norm_bf16_default_eps",)),
    "four_cases": (
        "real_cases_matrix",
        ("chebyshev_t_nan", "scan_closed_over_grad", "index_put_accumulate_float", "sum_bool_arange_half"),
    ),
}


def findings(name: str) -> Findings:
    file, instances = REPORTS[name]
    found = judged_again(ResultsFile.open(DATA / f"{file}.parquet"), None)
    chosen = found.only([each for each in found.series if each.instance in instances]) if instances else found
    return dataclasses.replace(chosen, results=None)  # where the checkout lies


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("form", SUFFIXES)
def test_a_report_is_as_it_was_read(name: str, form: str) -> None:
    page = DATA / "reports" / f"{name}.{SUFFIXES[form]}"
    content = made(form, findings(name))
    if os.environ.get("BISECT_TORCH_UPDATE_SNAPSHOTS"):
        page.parent.mkdir(exist_ok=True)
        page.write_bytes(content)
    assert content.decode() == page.read_bytes().decode()


def test_the_report_of_all_real_cases_is_below_the_limit_and_tells_each_that_is_not_ok_everywhere() -> None:
    found = judged_again(ResultsFile.open(DATA / "real_cases_matrix.parquet"), None)
    text = made("markdown", found).decode()

    assert len(text.encode()) < 65_536
    fine = {"sum_bool_arange_half", "cpp_extension_needs_setuptools"}
    told = {each.instance for each in found.series if f". `{each.instance}`" in text}
    assert told == {each.instance for each in found.series} - fine

"""A file that is no results file is called what it is, and the hint says what was probably meant."""

from __future__ import annotations

import gzip
import io
import pickle
import re
import shutil
import zipfile
from pathlib import Path

import pandas
import pytest

from bisect_torch.errors import UsageError
from bisect_torch.results import Journal, ResultsFile

KEPT = Path(__file__).parents[1] / "data" / "real_cases_matrix.parquet"


def _zipped() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    return held.getvalue()


FOREIGN: dict[str, tuple[bytes, str, str]] = {
    # name of the file: content, what the message says, what the hint says
    "empty.parquet": (b"", "but empty", "another"),
    "results.json": (b'{"series": []}\n', "but JSON", "made from"),
    "report.html": (b"<!doctype html><html></html>", "but a web page", "made from"),
    "junit.xml": (b"<?xml version='1.0'?>\n<testsuites/>", "but XML", "made from"),
    "cells.csv": (b"build,instance\n2.4.1,a\n", "but a table in text", "made from"),
    "repro.py": (b"import torch\n", "but Python code", "bisect-torch run .*repro.py"),
    "repro": (b"import torch\nprint(torch.ones(1))\n", "but Python code", "bisect-torch run"),
    "issue.md": (b"# It is broken\n", "but a text", "bisect-torch new .*issue.md"),
    "results.parquet.gz": (gzip.compress(b"x"), "but a gzip archive", "unpack"),
    "weights.pt": (_zipped(), "but a zip archive, or what torch.save", "results file"),
    "weights.pkl": (pickle.dumps([1]), "but a pickle", "another"),
    "matrix.png": (b"\x89PNG\r\n\x1a\n", "but a picture", "made from"),
    "cut.parquet": (KEPT.read_bytes()[:5000], "a damaged one", "cut off or damaged"),
    "noise.parquet": (bytes(range(1, 256)) * 4, "a damaged one", "another"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_it_is(tmp_path: Path, name: str) -> None:
    content, message, hint = FOREIGN[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        ResultsFile.open(path, must_exist=True)
    assert "is not a Parquet file" in refused.value.message
    assert message in refused.value.message
    assert re.search(hint, refused.value.hint or "")
    assert path.read_bytes() == content


def test_a_journal_leads_to_its_results(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet.journal"
    Journal(path).append({"v": 2, "run": {"run_id": "a"}})
    with pytest.raises(UsageError, match="but the journal of a results file") as refused:
        ResultsFile.open(path, must_exist=True)
    assert f"{tmp_path}/results.parquet," in (refused.value.hint or "")


def test_a_folder_leads_to_the_results_in_it(tmp_path: Path) -> None:
    shutil.copy(KEPT, tmp_path / "kept.parquet")
    with pytest.raises(UsageError, match="is no file") as refused:
        ResultsFile.open(tmp_path, must_exist=True)
    assert refused.value.hint == f"name a results file: {tmp_path}/kept.parquet perhaps"


def test_parquet_of_a_data_frame(tmp_path: Path) -> None:
    """pandas keeps its own metadata, and of ours nothing."""
    pandas.DataFrame({"build": ["2.4.1"]}).to_parquet(tmp_path / "frame.parquet")
    with pytest.raises(UsageError, match="no results file of bisect-torch: pandas has written it"):
        ResultsFile.open(tmp_path / "frame.parquet", must_exist=True)

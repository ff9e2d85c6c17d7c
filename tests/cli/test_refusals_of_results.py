"""attribute, recheck and new on what they cannot use: one clear line, the right exit code, nothing written."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bisect_torch.cli.main import main

KEPT = Path(__file__).parents[1] / "data" / "real_cases_matrix.parquet"
VERSION = b"bisect_torch.schema_version"

REPORT = "# It is broken\n\nNo code here, only `torch.add`.\n"
TWO_BLOCKS = "```python\nf(1)\n```\n\n```python\ng(2)\n```\n"

REFUSED: dict[str, tuple[list[str], str, str]] = {
    # what is wrong: words, what the first line must match, what the hint must match
    "attribute: no results": (
        ["attribute", "missing.parquet", "x"],
        "there are no results at .*missing",
        "run FILE -o .*missing.parquet` makes",
    ),
    "attribute: no Parquet": (["attribute", "text.parquet", "x"], "is not a Parquet file", "another"),
    "attribute: empty file": (["attribute", "empty.parquet", "x"], "is not a Parquet file", "another"),
    "attribute: somebody else's": (["attribute", "foreign.parquet", "x"], "no results file of bisect-torch", "another"),
    "attribute: of the future": (["attribute", "future.parquet", "x"], r"schema version 99; .* reads up to \d", ""),
    "attribute: no rows": (
        ["attribute", "none.parquet", "x"],
        "none.parquet holds no results yet",
        "run FILE -o .*none.parquet` makes them",
    ),
    "attribute: no such case": (["attribute", "kept.parquet", "sing_nan"], "holds no case 'sing_nan'", "sign_nan"),
    "attribute: not on that device": (
        ["attribute", "kept.parquet", "sign_nan", "--device", "mps"],
        "no case 'sign_nan' on mps",
        "",
    ),
    "attribute: no change": (
        ["attribute", "kept.parquet", "embedding_bag_f64_empty_offsets"],
        "embedding_bag_f64_empty_offsets does not change in kept.parquet",
        "a change between two builds",
    ),
    "attribute: several change": (
        ["attribute", "kept.parquet"],
        r"\d+ rows change in kept.parquet: ",
        "name one of them: bisect-torch attribute kept.parquet ",
    ),
    "attribute: the only one that changes is taken": (
        ["attribute", "kept.parquet", "--before", "2.8.0", "--after", "2.9.0"],
        "chebyshev_t_nan.py is not found here as it was when it ran",
        "",
    ),
    "attribute: no change there": (
        ["attribute", "kept.parquet", "chebyshev_t_nan", "--after", "2.4.1"],
        "chebyshev_t_nan does not change there",
        "it changes from 2.8.0 to 2.9.0; from 2.12.1 to 2.13.0",
    ),
    "attribute: the case file is gone": (
        ["attribute", "kept.parquet", "sign_nan"],
        "sign_nan.py is not found here as it was when it ran|sign_nan does not change",
        "",
    ),
    "recheck: no results": (
        ["recheck", "missing.parquet", "--versions", "2.4.1"],
        "there are no results",
        "run FILE -o .*missing.parquet` makes",
    ),
    "recheck: no Parquet": (["recheck", "text.parquet", "--versions", "2.4.1"], "is not a Parquet file", "another"),
    "recheck: of the future": (
        ["recheck", "future.parquet", "--versions", "2.4.1"],
        r"schema version 99; .* reads up to \d",
        "",
    ),
    "recheck: no rows": (
        ["recheck", "none.parquet", "--versions", "2.4.1"],
        "holds no results yet",
        "run FILE -o .*none.parquet` makes them",
    ),
    "recheck: case files are gone": (
        ["recheck", "kept.parquet", "--versions", "2.4.1"],
        r"each of the 11 case files \S+\.py, \S+\.py, \S+\.py and 8 more is gone$",
        "name the file after RESULTS",
    ),
    "new: no report": (["new", "missing.md"], "missing.md cannot be read: No such file", "stdin"),
    "new: a folder": (["new", "."], r"\. cannot be read: Is a directory", "stdin"),
    "new: no code": (["new", "report.md"], "no repro in Python", ""),
    "new: which block?": (["new", "two.md"], "2 blocks hold Python and none uses torch", "--block 1"),
    "new: no such block": (["new", "two.md", "--block", "7"], "7", ""),
    "new: block that is no number": (["new", "two.md", "--block", "x"], "'x' is not a list of numbers", "--help"),
    "new: over a file": (["new", "two.md", "--block", "1", "-o", "text.parquet"], "not overwritten", "-o"),
    "new: no such folder": (
        ["new", "two.md", "--block", "1", "-o", "no/x.py"],
        "-o no/x.py: the folder .*/no does not exist",
        "-o FILE",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "work"
    here.mkdir()
    shutil.copy(KEPT, here / "kept.parquet")
    table = pq.read_table(KEPT)
    metadata = dict(table.schema.metadata)
    pq.write_table(table.slice(0, 0), here / "none.parquet")
    pq.write_table(table.replace_schema_metadata({**metadata, VERSION: b"99"}), here / "future.parquet")
    pq.write_table(table.replace_schema_metadata({}), here / "foreign.parquet")
    (here / "text.parquet").write_text("not Parquet at all")
    (here / "empty.parquet").write_text("")
    (here / "report.md").write_text(REPORT)
    (here / "two.md").write_text(TWO_BLOCKS)
    monkeypatch.setenv("BISECT_TORCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(here)
    return here


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_line_and_nothing_is_written(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, message, hint = REFUSED[name]
    before = contents(folder.parent)

    assert main(words) == 2

    out, err = capsys.readouterr()
    error, *hints = err.splitlines()
    assert out == ""
    assert error.startswith("error: ")
    assert re.search(message, error)
    assert len(error) < 300
    assert len(hints) <= 1
    assert re.search(hint, "".join(hints))
    assert contents(folder.parent) == before

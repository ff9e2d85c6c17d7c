"""The digest of a results file is the value of its own metadata, not a mark in a text that it keeps."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bisect_torch import own_digest
from bisect_torch.errors import UsageError
from bisect_torch.results import ResultsFile
from tests.results.made import observation

LOCK = own_digest.filled(f"torch==2.9.1\n# {own_digest.BLANK}\n".encode()).decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A results file that holds a lock which was made on the fly, and so ends with a digest of its own."""
    results = ResultsFile.open(tmp_path / "r.parquet")
    results.add_lock("ab" * 32, LOCK)
    results.append(observation())
    results.finish()
    return tmp_path / "r.parquet"


def test_a_file_with_such_a_lock_is_read(path: Path) -> None:
    again = ResultsFile.open(path)
    assert dict(again.locks) == {"ab" * 32: LOCK}
    assert again.observations() == [observation()]


def test_one_that_another_program_wrote_without_a_digest_is_read_too(path: Path) -> None:
    table = pq.read_table(path)
    kept = {name: value for name, value in table.schema.metadata.items() if name != b"bisect_torch.digest"}
    pq.write_table(table.replace_schema_metadata(kept), path)
    again = ResultsFile.open(path)
    assert dict(again.locks) == {"ab" * 32: LOCK}
    assert again.observations() == [observation()]


def test_one_that_another_program_wrote_with_the_old_digest_is_refused(path: Path) -> None:
    pq.write_table(pq.read_table(path), path)
    with pytest.raises(UsageError, match="does not fit its digest"):
        ResultsFile.open(path)


@pytest.mark.parametrize("part", [b"bisect_torch.digest", b"bisect-torch-digest:"])
def test_a_digest_whose_name_or_mark_is_damaged_does_not_vouch_for_a_damaged_file(path: Path, part: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[data.rfind(part) + 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(UsageError, match="does not fit its digest"):
        ResultsFile.open(path)


@pytest.mark.parametrize("text", [LOCK, own_digest.BLANK + " and more"])
def test_a_json_file_without_a_digest_may_hold_a_text_that_has_one(text: str) -> None:
    document = own_digest.to_json({"text": text})
    assert own_digest.from_json(document) == {"text": text}
    without = b'{"text":' + document.partition(b'"text":')[2].partition(b',"digest"')[0] + b"}"
    assert own_digest.from_json(without, also_without=True) == {"text": text}
    with pytest.raises(ValueError, match="no digest"):
        own_digest.from_json(without)


def test_a_file_gets_its_digest_in_its_place(tmp_path: Path) -> None:
    data = b"lock " + own_digest.BLANK.encode() + b" of another\n" + own_digest.BLANK.encode() + b"end"
    path = tmp_path / "file"
    path.write_bytes(data)
    with open(path, "r+b") as file:
        own_digest.fill(file)
    assert path.read_bytes() == own_digest.filled(data) != data

"""Nothing private enters a results file, and what an older version wrote is redacted when it is opened."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bisect_torch.environments.lock_text import only_pins
from bisect_torch.redaction import Private
from bisect_torch.results import ResultsFile
from tests.results.made import observation

PRIVATE = Private(users=("caroline",), folders=(("/home/caroline", "<home>"),), secrets=("tok-0123456789",))
PLAIN = "import torch\n"
TELLING = "# by caroline\nimport torch\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def filled(path: Path, private: Private) -> ResultsFile:
    results = ResultsFile.open(path, private=private)
    results.begin({"run_id": "run-1", "arguments": ["run", "--store", "/home/caroline/s"], "builds": ["2.9.1"]})
    results.add_lock("l", "x @ https://me:pw@host/x.whl\n")
    results.add_sources({digest(PLAIN): PLAIN, digest(TELLING): TELLING})
    results.append(observation(0, message="no /home/caroline/x", stdout_tail="tok-0123456789"))
    results.extend([observation(1, message="by caroline"), observation(2, message="nothing")])
    return results


def test_journal_and_parquet_hold_nothing_private(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    results = filled(path, PRIVATE)
    journal = (tmp_path / "r.parquet.journal").read_text()
    results.finish({"run_id": "run-1", "arguments": ["run", "--store", "/home/caroline/s"], "builds": ["2.9.1"]})
    table = pq.read_table(path)
    for text in (journal, str(table.to_pylist()), str(table.schema.metadata)):
        assert not any(word in text for word in ("caroline", "tok-0123456789", "me:pw"))
    again = ResultsFile.open(path, private=PRIVATE)
    assert again.observations()[0].message == "no <home>/x"
    assert again.runs[0]["arguments"] == ["run", "--store", "<home>/s"]


def test_a_redacted_source_does_not_claim_its_hash(tmp_path: Path) -> None:
    results = filled(tmp_path / "r.parquet", PRIVATE)
    assert (results.is_whole(digest(PLAIN)), results.is_whole(digest(TELLING))) == (True, False)
    assert results.sources[digest(TELLING)] == "# by <user>\nimport torch\n"


@pytest.mark.parametrize("finished", [True, False])
def test_what_was_written_without_it_is_redacted_when_it_is_opened(tmp_path: Path, finished: bool) -> None:
    path = tmp_path / "r.parquet"
    results = filled(path, Private())
    if finished:
        results.finish()
        table = pq.read_table(path)
        own = (b"bisect_torch.redacted", b"bisect_torch.digest")
        kept = {key: value for key, value in table.schema.metadata.items() if key not in own}
        pq.write_table(table.replace_schema_metadata(kept), path)
    opened = ResultsFile.open(path, private=PRIVATE)
    row, together, _ = opened.observations()
    assert together.message == "by <user>"
    assert (row.message, row.stdout_tail) == ("no <home>/x", "<redacted>")
    assert "caroline" not in str((opened.runs, opened.locks, opened.sources))
    opened.finish()
    table = pq.read_table(path)
    assert "caroline" not in str(table.to_pylist()) + str(table.schema.metadata)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("torch==2.9.1 \\\n    --hash=sha256:" + "0a" * 32 + "\n", True),
        ("numpy==2.2.2 ; python_version < '3.11' \\\n    --hash=sha256:" + "0a" * 32 + "\n", True),
        ("torch==2.9.1\n", False),
        ("--index-url https://example.org/simple\ntorch==2.9.1 --hash=sha256:" + "0a" * 32 + "\n", False),
        ("evil @ https://example.org/evil.whl --hash=sha256:" + "0a" * 32 + "\n", False),
        ("-e /tmp/evil\n", False),
        ("", False),
    ],
)
def test_a_lock_of_a_stranger_holds_versions_and_hashes_only(text: str, plain: bool) -> None:
    assert only_pins(text) is plain

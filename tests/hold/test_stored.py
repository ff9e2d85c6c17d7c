"""What the tool reads back of its own writing: whole, or recovered to the last whole record, or refused in one line.

Never silently another value: every damaged copy is read as what was written, as a part of it with a problem told, or
not at all.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bisect_torch.errors import BisectTorchError, UsageError
from bisect_torch.results import ResultsFile
from bisect_torch.results.journal import Journal, encode
from bisect_torch.results.schema import SCHEMA_VERSION
from tests.results.made import observation
from tests.support.tally import Tally

ROOT = Path(__file__).parents[2]
MANIFEST = {"run_id": "run-1", "command": ["run", "cases/default.py"]}


def make_results(path: Path, *, finish: bool) -> ResultsFile:
    results = ResultsFile.open(path)
    results.begin(MANIFEST)
    results.add_lock("h", "torch==2.9.1\n")
    results.add_sources({"aa": "import torch\n"})
    for number in range(2):
        results.append(observation(number, rel_error=0.125 * number, elements=8, checks=1))
    if finish:
        results.finish(MANIFEST)
    results.close()
    return results


Content = tuple[list[object], list[object], dict[str, str], dict[str, str]]


def content(path: Path) -> tuple[Content, tuple[str, ...]]:
    with ResultsFile.open(path) as results:
        rows: list[object] = list(results.observations())
        return (rows, list(results.runs), dict(results.locks), dict(results.sources)), results.problems


def is_one_line(error: BisectTorchError) -> bool:
    assert "\n" not in error.message
    return True


def is_part(part: Content, whole: Content) -> bool:
    """Whether nothing stands in ``part`` that does not stand in ``whole``."""
    return (
        all(row in whole[0] for row in part[0])
        and all(run in whole[1] for run in part[1])
        and part[2].items() <= whole[2].items()
        and part[3].items() <= whole[3].items()
    )


# --- the journal


@pytest.fixture
def journal(tmp_path: Path) -> tuple[Path, bytes, Content]:
    path = tmp_path / "r.parquet"
    make_results(path, finish=False)
    place = path.with_name("r.parquet.journal")
    return path, place.read_bytes(), content(path)[0]


def test_every_prefix_of_a_journal_gives_its_whole_records(journal: tuple[Path, bytes, Content], tally: Tally) -> None:
    path, data, whole = journal
    place = path.with_name("r.parquet.journal")
    lines = data.splitlines(keepends=True)
    lost = 0
    for size in range(len(data) + 1):
        place.write_bytes(data[:size])
        found, problems = content(path)
        done = sum(sum(map(len, lines[: number + 1])) - 1 <= size for number in range(len(lines)))
        assert is_part(found, whole)
        lost += done - len(found[0]) - len(found[1]) - len(found[2]) - len(found[3])
        assert bool(problems) == (
            data[:size] != b"".join(lines[:done]) and data[:size] + b"\n" != b"".join(lines[:done])
        )
    assert lost == 0
    tally.add("stored data: prefixes of a journal", tried=len(data) + 1, survived=len(data) + 1, lost=lost)


def test_every_flipped_byte_of_a_journal_is_noticed(journal: tuple[Path, bytes, Content], tally: Tally) -> None:
    path, data, whole = journal
    place = path.with_name("r.parquet.journal")
    misjudged = 0
    for number in range(len(data)):
        damaged = bytearray(data)
        damaged[number] ^= 1 << number % 8
        place.write_bytes(damaged)
        found, problems = content(path)
        misjudged += not is_part(found, whole)
        assert problems or found == whole  # the last line feed alone says nothing
        assert len(found[0]) >= len(whole[0]) - 2  # a line feed that is gone joins two lines
    assert misjudged == 0
    tally.add("stored data: flipped bytes of a journal", tried=len(data), survived=len(data), misjudged=misjudged)


def test_what_is_not_used_of_a_journal_is_kept_aside(journal: tuple[Path, bytes, Content]) -> None:
    path, data, whole = journal
    place = path.with_name("r.parquet.journal")
    strange = [
        encode({"v": SCHEMA_VERSION, "weather": "fine"}),
        encode({"v": SCHEMA_VERSION, "observation": {"key": "k"}}),
        encode({"v": SCHEMA_VERSION, "observation": {**_values(), "elapsed_s": "soon"}}),
        encode({"v": SCHEMA_VERSION, "observation": {**_values(), "outcome": "perhaps"}}),
        encode({"v": SCHEMA_VERSION, "run": {"command": []}}),
        encode({"v": SCHEMA_VERSION, "lock": ["only a hash"]}),
    ]
    place.write_bytes(data + b"".join(strange))

    found, problems = content(path)
    assert found == whole
    assert problems == (f"{place}: {len(strange)} records of an unknown kind are not used",)
    ResultsFile.open(path).finish()

    assert content(path) == (whole, ())
    assert path.with_name("r.parquet.journal.damaged").read_bytes() == b"".join(strange)


def _values() -> dict[str, object]:
    names = ("key", "run_id", "build", "build_name", "build_kind", "case_file", "case_file_hash", "case", "instance")
    return {**dict.fromkeys(names, "x"), "device": "cpu", "repeat": 0, "outcome": "returned"}


def test_the_same_record_twice_counts_once(journal: tuple[Path, bytes, Content]) -> None:
    path, data, whole = journal
    path.with_name("r.parquet.journal").write_bytes(data + data)
    assert content(path) == (whole, ())


# --- the Parquet file


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.slow)])
def test_every_flipped_byte_of_a_results_file_is_noticed(step: int, tmp_path: Path, tally: Tally) -> None:
    path = tmp_path / "r.parquet"
    make_results(path, finish=True)
    data = path.read_bytes()
    whole = content(path)[0]
    misjudged = refused = 0
    places = range(0, len(data), step)
    for number in places:
        damaged = bytearray(data)
        damaged[number] ^= 1 << number % 8
        path.write_bytes(damaged)
        try:
            misjudged += content(path)[0] != whole
        except UsageError as error:
            refused += is_one_line(error)
    assert misjudged == 0
    assert refused >= len(places) - 40  # all but the mark of the digest itself
    tally.add(
        "stored data: flipped bytes of a Parquet file", tried=len(places), survived=len(places), misjudged=misjudged
    )


def test_pages_have_checksums_of_their_own(tmp_path: Path) -> None:
    """So that other programs notice a flipped bit too, and a file whose digest was taken out is still checked."""
    path = tmp_path / "r.parquet"
    make_results(path, finish=True)
    data = path.read_bytes()
    with pq.ParquetFile(path) as file:
        column = next(
            file.metadata.row_group(0).column(number)
            for number in range(file.metadata.num_columns)
            if file.metadata.row_group(0).column(number).path_in_schema == "key"
        )
        end = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size
    without = data.replace(b"bisect-torch-digest:", b"bisect-torch-nothing")
    damaged = bytearray(without.replace(b"bisect_torch.digest", b"bisect_torch.nothin"))
    damaged[end - 1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(UsageError, match=r"(?i)damaged one: .*(crc|checksum|corrupt)"):
        ResultsFile.open(path)


def test_every_truncation_of_a_results_file_is_refused(tmp_path: Path, tally: Tally) -> None:
    path = tmp_path / "r.parquet"
    make_results(path, finish=True)
    data = path.read_bytes()
    sizes = [*range(0, len(data), 97), *range(len(data) - 60, len(data))]
    for size in sizes:
        path.write_bytes(data[:size])
        with pytest.raises(UsageError):
            ResultsFile.open(path)
    tally.add("stored data: prefixes of a Parquet file", tried=len(sizes), survived=len(sizes))


def test_many_bytes_at_once_are_noticed_too(tmp_path: Path, tally: Tally) -> None:
    """A block of zeros, as a file system leaves after a power cut, and bytes of chance."""
    path = tmp_path / "r.parquet"
    make_results(path, finish=True)
    data = path.read_bytes()
    whole = content(path)[0]
    dice = random.Random(7)
    tries, refused = 300, 0
    for number in range(tries):
        size = dice.choice([2, 16, 512, 4096])
        start = dice.randrange(len(data))
        block = bytes(size) if number % 2 else dice.randbytes(size)
        path.write_bytes((data[:start] + block + data[start + size :])[: len(data)])
        try:
            assert content(path)[0] == whole
        except UsageError as error:
            refused += is_one_line(error)
    assert refused > tries // 2
    tally.add("stored data: damaged blocks of a Parquet file", tried=tries, survived=tries)


def _rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = change(pq.read_table(path))
    kept = {name: value for name, value in (table.schema.metadata or {}).items() if name != b"bisect_torch.digest"}
    pq.write_table(table.replace_schema_metadata(kept), path)


def _other_type(name: str, kind: pa.DataType, value: object) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index(name)
        return table.set_column(place, name, pa.array([value] * len(table), type=kind))

    return change


def _metadata(name: str, value: str) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        return table.replace_schema_metadata({**table.schema.metadata, f"bisect_torch.{name}".encode(): value.encode()})

    return change


FOREIGN: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a number in the place of text": (_other_type("key", pa.int64(), 5), "'key' holds int64"),
    "text in the place of a number": (_other_type("rel_error", pa.string(), "x"), "'rel_error' holds string"),
    "nothing where something must be": (_other_type("outcome", pa.string(), None), "'outcome' is missing"),
    "an unknown outcome": (_other_type("outcome", pa.string(), "perhaps"), "outcome 'perhaps' is unknown"),
    "a missing column": (lambda table: table.drop_columns(["key"]), "no column 'key'"),
    "a newer schema": (_metadata("schema_version", "99"), "schema version 99"),
    "a schema that is no number": (_metadata("schema_version", "new"), "no number"),
    "metadata that is no JSON": (_metadata("runs", "["), "metadata that cannot be read"),
    "metadata that is other JSON": (_metadata("locks", "[1]"), "metadata that cannot be read"),
    "a run without a name": (_metadata("runs", "[{}]"), "metadata that cannot be read"),
    "metadata that is nested deeply": (_metadata("sources", "[" * 100_000), "metadata that cannot be read"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_another_program_made_is_refused_in_one_line(name: str, tmp_path: Path, tally: Tally) -> None:
    change, said = FOREIGN[name]
    path = tmp_path / "r.parquet"
    make_results(path, finish=True)
    _rewritten(path, change)
    before = path.read_bytes()
    with tally("stored data: foreign and other schemas"):
        with pytest.raises(UsageError, match=said) as caught:
            ResultsFile.open(path)
        assert "\n" not in caught.value.message
        assert path.read_bytes() == before


def test_a_file_that_was_written_again_with_wider_types_is_read(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    make_results(path, finish=True)
    whole = content(path)[0]

    def wider(table: pa.Table) -> pa.Table:
        kinds = {pa.string(): pa.large_string(), pa.int32(): pa.int64()}
        fields = [field.with_type(kinds.get(field.type, field.type)) for field in table.schema]
        return table.cast(pa.schema(fields, metadata=table.schema.metadata))

    _rewritten(path, wider)
    assert content(path)[0] == whole


# --- places


NOBODY = 65534
READ = """
import sys
from pathlib import Path
from bisect_torch.errors import BisectTorchError
from bisect_torch.results import ResultsFile
import os
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    ResultsFile.open(Path(sys.argv[1]), must_exist=sys.argv[2] == "read")
except BisectTorchError as error:
    print(type(error).__name__, error.message)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("how", ["read", "write"])
@pytest.mark.parametrize("what", ["the file", "the journal", "the folder"])
def test_without_permission_it_is_refused_in_one_line(what: str, how: str, tally: Tally) -> None:
    """As another user: root may do everything."""
    with tempfile.TemporaryDirectory() as name, tally("stored data: no permission"):
        folder = Path(name) / "f"
        folder.mkdir()
        Path(name).chmod(0o755)
        folder.chmod(0o777)
        path = folder / "r.parquet"
        make_results(path, finish=what != "the journal")
        for each in folder.iterdir():
            each.chmod(0o666)
        chosen = {"the file": path, "the journal": path.with_name("r.parquet.journal"), "the folder": folder}[what]
        chosen.chmod(0o000)
        done = subprocess.run(
            [sys.executable, "-c", READ, str(path), how], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        assert done.stdout.startswith(("UsageError ", "InfrastructureError "))
        assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("name", ["x" * 300 + ".parquet", "a\0b", "loop.parquet"])
def test_a_name_that_cannot_be_is_refused(name: str, tmp_path: Path, tally: Tally) -> None:
    (tmp_path / "loop.parquet").symlink_to("loop.parquet")
    with tally("stored data: impossible places"), pytest.raises(UsageError):
        ResultsFile.open(tmp_path / name)


@pytest.mark.parametrize("what", ["r.parquet", "r.parquet.journal"])
def test_a_folder_in_its_place_is_refused(what: str, tmp_path: Path, tally: Tally) -> None:
    (tmp_path / what).mkdir()
    with tally("stored data: impossible places"), pytest.raises(UsageError, match="is no file"):
        ResultsFile.open(tmp_path / "r.parquet")


def test_a_journal_that_many_hands_damaged_never_stops_the_next_append(tmp_path: Path, tally: Tally) -> None:
    dice = random.Random(5)
    path = tmp_path / "j"
    tries = 200
    for number in range(tries):
        lines = [encode({"n": n}) for n in range(5)]
        data = bytearray(b"".join(lines))
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data[: dice.randrange(len(data) + 1)])
        journal = Journal(path)
        journal.append({"new": number})
        journal.close()
        found = journal.read()
        assert found.records[-1] == {"new": number}
        assert not found.torn
    tally.add("stored data: append to a damaged journal", tried=tries, survived=tries)

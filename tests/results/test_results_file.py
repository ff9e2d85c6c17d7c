"""A results file: what goes in comes out, in every reader, and no kill or foreign file does harm."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bisect_torch.errors import BisectTorchError, InfrastructureError, UsageError
from bisect_torch.model import Observation
from bisect_torch.results import COLUMNS, Journal, ResultsFile, arrow_schema, recorded, schema_table
from bisect_torch.results.held import Stored
from bisect_torch.results.journal import encode
from bisect_torch.results.schema import DEFAULTS, DERIVED, FIELDS, SCHEMA_VERSION, STORED
from tests.results.made import HINTS, full, observation, value_of

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"


def written(path: Path, observations: list[Observation], **manifest: object) -> Path:
    results = ResultsFile.open(path)
    for each in observations:
        results.append(each)
    results.finish({"run_id": "run-1", **manifest})
    return path


def journal_of(path: Path) -> Path:
    return path.with_name(path.name + ".journal")


def test_every_field_of_an_observation_has_a_column_and_every_column_a_meaning() -> None:
    assert set(STORED) == {field.name for field in dataclasses.fields(Observation)}
    assert len(COLUMNS) == len(STORED) + len(DERIVED) == len({column.name for column in COLUMNS})
    assert all(column.meaning for column in COLUMNS)
    kinds = {"string": str, "bool": bool, "int32": int, "int64": int, "double": float}
    for column in COLUMNS:
        if column.name not in DERIVED:
            hint = HINTS[column.name]
            assert kinds[column.type] in (getattr(hint, "__args__", None) or (hint,)), column.name
    assert schema_table().count("\n") == len(COLUMNS) + 2


@pytest.mark.parametrize("through", ["journal", "parquet"])
def test_every_field_comes_back_as_it_was(tmp_path: Path, through: str) -> None:
    observations = [full(0), full(1), observation(2)]
    path = tmp_path / "r.parquet"
    results = ResultsFile.open(path)
    for each in observations:
        results.append(each)
    if through == "parquet":
        results.finish()
    again = ResultsFile.open(path)
    assert again.observations() == observations
    assert again.lookup(full(0).key) == [full(0)]
    assert again.lookup("unknown") == []
    assert again.problems == ()


@given(st.sets(st.sampled_from(STORED)), st.integers(0, 5))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_mixture_of_known_and_unknown_fields_comes_back(tmp_path: Path, names: set[str], seed: int) -> None:
    changed = {name: value_of(name, seed) for name in names} | {"outcome": "raised"}
    each = dataclasses.replace(observation(), **changed)
    path = tmp_path / "r.parquet"
    path.unlink(missing_ok=True)
    assert ResultsFile.open(written(path, [each])).observations() == [each]


def test_numbers_that_are_not_finite_come_back(tmp_path: Path) -> None:
    each = observation(rel_error=math.nan, max_abs_error=math.inf, reference_max_abs=-math.inf)
    path = tmp_path / "r.parquet"
    for _ in range(2):
        results = ResultsFile.open(path)
        results.append(each)
        found = ResultsFile.open(path).observations()[0]
        assert math.isnan(found.rel_error or 0.0)
        assert (found.max_abs_error, found.reference_max_abs) == (math.inf, -math.inf)
        results.finish()


def test_output_that_is_no_utf_8_is_kept_escaped(tmp_path: Path) -> None:
    path = written(tmp_path / "r.parquet", [observation(stdout_tail="a\udcffb"), observation(1, stdout_tail="c")])
    assert [o.stdout_tail for o in ResultsFile.open(path).observations()] == ["a\\udcffb", "c"]


def test_derived_columns_say_what_the_judge_says(tmp_path: Path) -> None:
    observations = [
        observation(0),
        observation(1, outcome="raised", error_type="TypeError", root_type="TypeError", message="bad 3", frame="m:f"),
        observation(2, outcome="raised", error_type="AttributeError", absent_name="torch.x"),
        observation(3, elements=8, wrong_elements=2),
    ]
    table = pq.read_table(written(tmp_path / "r.parquet", observations))
    assert table.column("verdict").to_pylist() == ["ok", "error", "error", "wrong"]
    assert table.column("signature").to_pylist() == ["ok", "error:TypeError", "error:AttributeError", "wrong"]
    assert table.column("detail").to_pylist() == ["", "bad # in m:f", "", "values differ"]
    assert table.column("api_absent").to_pylist() == [False, False, True, False]
    assert table.column("wrong_fraction").to_pylist() == [None, None, None, 0.25]


def test_the_file_is_flat_and_typed_also_when_a_column_is_empty(tmp_path: Path) -> None:
    path = written(tmp_path / "r.parquet", [observation()])
    assert pq.read_schema(path).remove_metadata() == arrow_schema()
    assert not any(pa.types.is_nested(field.type) for field in arrow_schema())


def test_it_opens_in_pandas_polars_and_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_RJEM_MALLOC_CONF", "")  # polars sets it when imported; so it is restored
    duckdb = pytest.importorskip("duckdb")
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    path = written(tmp_path / "r.parquet", [full(0), observation(1)])
    names = [column.name for column in COLUMNS]
    assert list(pandas.read_parquet(path).columns) == names
    frame = polars.read_parquet(path)
    assert frame.columns == names
    assert frame.filter(polars.col("verdict") == "ok")["instance"].to_list() == ["bmm[batch=1]"]
    query = f"select instance from '{path}' where verdict = 'ok' and build = '2.9.1'"
    assert duckdb.sql(query).fetchall() == [("bmm[batch=1]",)]


def test_metadata_names_every_run_and_holds_the_locks(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    for run in ("a", "b"):
        results = ResultsFile.open(path)
        results.begin({"run_id": run, "done": False})
        results.add_lock(f"hash {run}", f"torch=={run}\n")
        results.append(observation(run_id=run))
        results.finish({"run_id": run, "done": True})
    again = ResultsFile.open(path)
    assert again.runs == ({"run_id": "a", "done": True}, {"run_id": "b", "done": True})
    assert again.locks == {"hash a": "torch==a\n", "hash b": "torch==b\n"}
    metadata = pq.read_schema(path).metadata
    assert metadata[b"bisect_torch.schema_version"] == b"%d" % SCHEMA_VERSION
    assert metadata[b"bisect_torch.tool_version"]


def test_a_killed_run_has_its_manifest_and_locks_in_the_journal(tmp_path: Path) -> None:
    results = ResultsFile.open(tmp_path / "r.parquet")
    results.begin({"run_id": "a"})
    results.add_lock("h", "text")
    again = ResultsFile.open(tmp_path / "r.parquet")
    assert again.runs == ({"run_id": "a"},)
    assert again.locks == {"h": "text"}


def test_the_same_repeat_of_the_same_run_is_kept_once_and_other_runs_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    results = ResultsFile.open(path)
    results.append(observation())
    shutil.copy(journal_of(path), tmp_path / "journal")
    results.finish()
    shutil.copy(tmp_path / "journal", journal_of(path))  # killed between the rename and the journal's removal
    results = ResultsFile.open(path)
    results.append(observation(run_id="run-2"))
    results.append(observation(repeat=1))
    assert [(o.repeat, o.run_id) for o in results.lookup(observation().key)] == [
        (0, "run-1"), (0, "run-2"), (1, "run-1")
    ]  # fmt: skip
    results.finish()
    assert len(ResultsFile.open(path).observations()) == 3


def test_two_runs_on_one_file_lose_nothing_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    one, two = ResultsFile.open(path), ResultsFile.open(path)
    one.append(observation(1, run_id="one"))
    two.append(observation(2, run_id="two"))
    one.finish({"run_id": "one"})
    two.append(observation(3, run_id="two"))
    assert len(ResultsFile.open(path).observations()) == 3
    two.finish({"run_id": "two"})
    again = ResultsFile.open(path)
    assert {o.instance for o in again.observations()} == {f"bmm[batch={number}]" for number in (1, 2, 3)}
    assert [run["run_id"] for run in again.runs] == ["one", "two"]
    assert list(tmp_path.iterdir()) == [path]


def test_finishing_with_nothing_new_keeps_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "r.parquet", [full(0)])
    ResultsFile.open(path).finish()
    assert ResultsFile.open(path).observations() == [full(0)]


def test_damaged_lines_are_told_not_used_and_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    results = ResultsFile.open(path)
    for number in range(3):
        results.append(observation(number))
    data = bytearray(journal_of(path).read_bytes())
    data[len(data) // 2] ^= 1
    journal_of(path).write_bytes(data)
    again = ResultsFile.open(path)
    assert len(again.observations()) == 2
    assert len(again.problems) == 1
    assert "1 damaged line" in again.problems[0]
    again.finish()
    assert len(ResultsFile.open(path).observations()) == 2
    assert (tmp_path / "r.parquet.journal.damaged").read_bytes().count(b"\n") == 1


def test_the_file_keeps_its_permissions_and_a_link_to_it_stays_a_link(tmp_path: Path) -> None:
    path = written(tmp_path / "r.parquet", [observation()])
    path.chmod(0o640)
    (tmp_path / "link.parquet").symlink_to(path)
    written(tmp_path / "link.parquet", [observation(1)])
    assert path.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "link.parquet").is_symlink()
    assert len(ResultsFile.open(path).observations()) == 2


# --- refusals


def refused(path: Path, words: str, **options: bool) -> None:
    """It cannot be opened, the message says why, and nothing changed."""
    before = {each: each.read_bytes() for each in path.parent.rglob("*") if each.is_file()}
    with pytest.raises(UsageError, match=words) as caught:
        ResultsFile.open(path, **options)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert {each: each.read_bytes() for each in path.parent.rglob("*") if each.is_file()} == before


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.parquet").mkdir()
    refused(tmp_path / "r.parquet", "no file")
    (tmp_path / "s.parquet.journal").mkdir()
    refused(tmp_path / "s.parquet", "no file")


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none" / "r.parquet", "does not exist")


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_text("precious")
    refused(tmp_path / "r.parquet", "not a Parquet file")
    (tmp_path / "r.parquet").write_bytes(b"")
    refused(tmp_path / "r.parquet", "not a Parquet file")


def test_a_damaged_results_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "r.parquet", [full(number) for number in range(20)])
    path.write_bytes(path.read_bytes()[:-100])
    refused(path, "damaged")


def test_a_parquet_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "r.parquet")
    refused(tmp_path / "r.parquet", "no results file")


def test_a_newer_schema_is_refused_in_file_and_journal(tmp_path: Path) -> None:
    path = written(tmp_path / "r.parquet", [observation()])
    table = pq.read_table(path)
    newer = {**table.schema.metadata, b"bisect_torch.schema_version": b"%d" % (SCHEMA_VERSION + 1)}
    del newer[b"bisect_torch.digest"]
    pq.write_table(table.replace_schema_metadata(newer), path)
    refused(path, f"schema version {SCHEMA_VERSION + 1}")
    other = ResultsFile.open(tmp_path / "s.parquet")
    other._journal.append({"v": SCHEMA_VERSION + 1, "observation": {}})
    refused(tmp_path / "s.parquet", f"schema version {SCHEMA_VERSION + 1}")


def test_what_may_not_be_written_is_refused_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the question to the system is answered here."""
    path = written(tmp_path / "r.parquet", [observation()])
    monkeypatch.setattr(os, "access", lambda *_: False)
    refused(path, "may not be")
    monkeypatch.setattr("bisect_torch.results.results_file.why_unwritable", lambda folder: "not yours")
    refused(tmp_path / "s.parquet", "nothing can be written in .*: not yours")


def test_results_that_must_exist_and_do_not_are_refused(tmp_path: Path) -> None:
    refused(tmp_path / "r.parquet", "no results at", must_exist=True)


def test_a_full_disk_at_the_end_keeps_file_and_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "r.parquet", [observation()])
    results = ResultsFile.open(path)
    results.append(observation(1))
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bisect_torch.results.parquet.write_table", fail)
    with pytest.raises(InfrastructureError, match="No space left"):
        results.finish()
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["r.parquet", "r.parquet.journal"]
    monkeypatch.undo()
    results.finish()
    assert len(ResultsFile.open(path).observations()) == 2


def test_what_a_full_disk_kept_from_the_journal_is_written_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = ResultsFile.open(tmp_path / "r.parquet")

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(BisectTorchError):
        results.append(observation())
    with pytest.raises(BisectTorchError):
        results.extend([observation(1), observation(2)])
    monkeypatch.undo()
    results.finish()
    assert ResultsFile.open(tmp_path / "r.parquet").observations() == [observation(number) for number in range(3)]


def test_observations_that_come_together_are_one_write_of_the_same_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [full(number) for number in range(5)] + [observation(9, rel_error=float("nan"))]
    alone, together = (ResultsFile.open(tmp_path / name) for name in ("alone.parquet", "together.parquet"))
    for each in made:
        alone.append(each)
    writes: list[bytes] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: writes.append(data) or write(fd, data))
    assert together.extend(iter(made))[:5] == made[:5]
    assert writes == [(tmp_path / "alone.parquet.journal").read_bytes()]
    assert (tmp_path / "together.parquet.journal").read_bytes() == writes[0]
    assert together.lookup(made[3].key) == [made[3]]
    assert together.extend([]) == []


def test_very_many_that_come_together_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bisect_torch.results.results_file._AT_ONCE", 2)
    results = ResultsFile.open(tmp_path / "r.parquet")
    write, calls = os.write, itertools.count()

    def full_at_the_second(fd: int, data: bytes) -> int:
        if next(calls) == 1:
            raise OSError(28, "No space left on device")
        return write(fd, data)

    monkeypatch.setattr(os, "write", full_at_the_second)
    with pytest.raises(InfrastructureError, match="No space left"):
        results.extend(observation(number) for number in range(5))
    assert ResultsFile.open(tmp_path / "r.parquet").observations() == [observation(0), observation(1)]
    results.finish()
    assert ResultsFile.open(tmp_path / "r.parquet").observations() == [observation(number) for number in range(5)]


# --- kills

WRITER = """
import sys
from pathlib import Path
from bisect_torch.results import ResultsFile
from tests.results.made import observation
path, start = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
number = start
while True:
    results = ResultsFile.open(path)
    for _ in range(5):
        results.append(observation(number))
        print(number, flush=True)
        number += 1
    results.finish({"run_id": "run-1"})
"""


def test_a_run_killed_at_any_moment_also_while_it_writes_the_file_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    dice = random.Random(11)
    told: set[int] = set()
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(max(told, default=-1) + 1)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            time.sleep(0.05 + dice.random() / 5)
            writer.send_signal(signal.SIGKILL)
            told |= {int(line) for line in writer.stdout if line.endswith("\n")}
        results = ResultsFile.open(path)
        kept = {int(o.key, 16) for o in results.observations()}
        assert told <= kept <= told | {max(told, default=-1) + 1}
        told = kept


# --- the golden files


ADDED_AFTER = {1: ("measurements",), 2: ()}
"""Version to the columns that a file of it lacks."""


def golden_observations(version: int) -> list[Observation]:
    """What the files hold; a later version reads the default where a column was not there yet."""
    written = [full(0), full(1), observation(2, elements=8, wrong_elements=2, worker="w", isolation="process")]
    absent = {name: DEFAULTS[name] for name in ADDED_AFTER[version]}
    return [dataclasses.replace(each, **absent) for each in written]  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_file_of_every_schema_version_can_be_read_for_ever(version: int) -> None:
    """Never write these files anew: a later version reads what this one wrote."""
    golden = DATA / f"results_version_{version}.parquet"
    results = ResultsFile.open(golden, must_exist=True)
    assert results.observations() == golden_observations(version)
    assert results.runs == ({"run_id": "run-1", "command": ["run", "cases/default.py"]},)
    assert results.locks == {"h": "torch==2.9.1\n"}
    missing = {column.name for column in COLUMNS} - set(pq.read_table(golden).column_names)
    assert missing == set(ADDED_AFTER[version])


def test_a_file_of_version_1_is_continued_as_one_of_this_version(tmp_path: Path) -> None:
    """What it holds stays, with nothing measured; what is added has its measurements."""
    path = tmp_path / "r.parquet"
    shutil.copy(DATA / "results_version_1.parquet", path)
    added = observation(7, measurements='{"compared":[[0,3]]}')
    again = ResultsFile.open(written(path, [added]))
    assert again.observations() == [*golden_observations(1), added]
    assert {each.measurements for each in again.observations()} == {"{}", added.measurements}
    assert pq.read_schema(path).metadata[b"bisect_torch.schema_version"] == b"%d" % SCHEMA_VERSION


def test_a_hundred_thousand_rows_load_in_about_a_second(tmp_path: Path) -> None:
    """Rows like those of a run, of which half of the columns are empty; the bound is for a busy machine."""
    number = 100_000
    usual = dataclasses.replace(full(0), **{name: value for name, value in DEFAULTS.items() if len(name) % 2})
    row = pq.read_table(written(tmp_path / "one.parquet", [usual]))
    columns = {
        name: pa.array([f"{n:064x}" for n in range(number)])
        if name == "key"
        else pa.repeat(row.column(name)[0], number)
        for name in row.column_names
    }
    path = tmp_path / "r.parquet"
    kept = {name: value for name, value in row.schema.metadata.items() if name != b"bisect_torch.digest"}
    pq.write_table(pa.table(columns, schema=row.schema.with_metadata(kept)), path, compression="zstd")
    started = time.process_time()
    assert ResultsFile.open(path).lookup(f"{number // 2:064x}")
    assert time.process_time() - started < 4


def test_the_golden_observations_are_what_json_can_hold() -> None:
    assert all(json.loads(each.to_json()) for each in golden_observations(SCHEMA_VERSION))


@pytest.mark.parametrize("finished", [False, True])
def test_what_ran_is_kept_under_its_hash_in_the_journal_and_in_the_file(tmp_path: Path, finished: bool) -> None:
    path = tmp_path / "r.parquet"
    results = ResultsFile.open(path)
    results.append(observation(0))
    results.add_sources({"aa": "import torch\n"})
    if finished:
        results.finish({"run_id": "run-1"})
        results.add_sources({"aa": "import torch\n", "bb": "x = 1\n"})
    assert ResultsFile.open(path).sources == {"aa": "import torch\n"} | ({"bb": "x = 1\n"} if finished else {})
    ResultsFile.open(path).finish({"run_id": "run-2"})
    assert "aa" in ResultsFile.open(path).sources


@pytest.mark.parametrize("version", [2])
def test_a_journal_of_every_version_can_be_read_for_ever(tmp_path: Path, version: int) -> None:
    """One observation is an object of names and values there, as a tool before this one wrote it. Never write it anew:
    the order of the values in the others is part of the version."""
    path = tmp_path / "r.parquet"
    shutil.copy(DATA / f"journal_version_{version}.journal", journal_of(path))
    results = ResultsFile.open(path, must_exist=True)
    assert results.observations() == golden_observations(version)
    assert results.problems == ()
    assert results.runs == ({"run_id": "run-1", "command": ["run", "cases/default.py"]},)
    assert results.locks == {"h": "torch==2.9.1\n"}


def test_a_row_of_values_that_holds_what_it_cannot_is_told_and_the_others_are_used(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    results = ResultsFile.open(path)
    results.append(observation(0))
    results.append(observation(1, elapsed_s=0.5))
    lines = journal_of(path).read_bytes().splitlines()
    record = json.loads(lines[1].partition(b" ")[2])
    for place, wrong in ((FIELDS.index("elapsed_s"), "soon"), (FIELDS.index("repeat"), True), (OUTCOME, "perhaps")):
        values = [wrong if at == place else value for at, value in enumerate(record["observation"])]
        journal_of(path).write_bytes(lines[0] + b"\n" + encode({**record, "observation": values}))
        again = ResultsFile.open(path)
        assert again.observations() == [observation(0)]
        assert again.problems == (f"{journal_of(path)}: 1 records of an unknown kind are not used",)


OUTCOME = FIELDS.index("outcome")


@pytest.mark.parametrize("number", [1, 9, 23])
def test_a_file_is_written_in_groups_of_rows_that_later_runs_fill_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(recorded, "ROWS_IN_A_BLOCK", 8)
    path = tmp_path / "r.parquet"
    made = [observation(each, rel_error=each / 2 if each % 3 else None) for each in range(number)]
    for start in range(0, number, 5):
        written(path, made[start : start + 5])
    again = ResultsFile.open(path)
    assert again.observations() == made
    groups = pq.read_metadata(path).num_row_groups
    assert -(-number // 8) <= groups <= number // 5 + 1
    assert groups == 1 or number > 8
    again.append(observation(0, elapsed_s=1.0))  # takes the place of the one that is there
    again.finish()
    assert ResultsFile.open(path).observations() == [observation(0, elapsed_s=1.0, rel_error=None), *made[1:]]


def test_only_columns_that_are_looked_at_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "r.parquet", [observation(number, reason="none") for number in range(3)])
    results = ResultsFile.open(path)
    decoded: list[str] = []
    column = Stored.column
    monkeypatch.setattr(Stored, "column", lambda self, name: decoded.append(name) or column(self, name))
    rows = results.observations()
    assert (len(rows), decoded) == (3, [])
    for _ in range(2):
        assert rows.distinct("build") == ["2.9.1"]
    assert decoded == ["build"]


def test_what_was_read_of_a_journal_is_not_read_again_unless_somebody_added_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.parquet"
    killed = ResultsFile.open(path)
    killed.append(observation(0))
    killed.close()
    reads: list[Journal] = []
    parts = Journal.parts
    monkeypatch.setattr(Journal, "parts", lambda self: reads.append(self) or parts(self))
    later, beside = ResultsFile.open(path), ResultsFile.open(path)
    later.append(observation(1))
    assert len(reads) == 2
    later.finish()
    assert len(reads) == 2
    beside.append(observation(2))
    beside.finish()
    assert ResultsFile.open(path).observations() == [observation(number) for number in range(3)]

    killed = ResultsFile.open(path)
    killed.append(observation(3))
    again = ResultsFile.open(path)
    killed.append(observation(4))
    killed.close()
    again.finish()
    assert ResultsFile.open(path).observations() == [observation(number) for number in range(5)]

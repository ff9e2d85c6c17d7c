"""``compare`` and ``merge`` as a user starts them: what they say is true, what cannot be used is refused in one line,
and no file is touched that is not the one after ``-o``."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from bisect_torch.cli.main import main
from bisect_torch.model import Observation
from bisect_torch.results import ResultsFile
from tests.analysis.made import observe
from tests.report.histories import environment
from tests.results.written import HOST, write

DATA = Path(__file__).parent.parent / "data"
VALUE = {"digest": "d1", "rel_error": 1e-7, "dtype": "float32", "seed": 0}


def seen(word: str, instance: str, build: str = "2.9.1", **fields: object) -> Observation:
    return observe(word, build, instance=instance, case=instance.partition("[")[0], started_at="2026-11-30", **fields)


def elsewhere(each: Observation, **fields: object) -> Observation:
    """The same cell, seen by another run."""
    return dataclasses.replace(each, run_id="other", key=f"{each.key} elsewhere", **fields)  # type: ignore[arg-type]


OURS = [
    seen("ok", "same[n=1]", **VALUE),
    seen("wrong", "same[n=2]", **VALUE),
    seen("ok", "bits", **VALUE),
    seen("ok", "worse", **VALUE),
    seen("ok", "breaks"),
    seen("error:RuntimeError", "raises"),
    seen("skip", "left_out"),
    seen("ok", "only_here"),
]
THEIRS = [
    *(elsewhere(each) for each in OURS[:2]),
    elsewhere(OURS[2], digest="d2", rel_error=2e-7),
    elsewhere(OURS[3], digest="d2", rel_error=3e-6),
    elsewhere(seen("crash:SIGSEGV", "breaks")),
    elsewhere(seen("error:IndexError", "raises")),
    elsewhere(OURS[6]),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def bytes_in(folder: Path) -> Mapping[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_comparison_says_what_differs_and_what_is_equal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "a.parquet", OURS)
    write(folder / "b.parquet", THEIRS, host={**HOST, "cores": 64})

    assert main(["compare", "a.parquet", "b.parquet"]) == 1
    assert capsys.readouterr().out == (
        "A: a.parquet\n"
        "B: b.parquet\n"
        "7 cells in both\n"
        "1 cell only in A: only_here, on 2.9.1\n"
        "\n"
        "1 cell of 6 differs in verdict:\n"
        "  breaks on 2.9.1: ok in A, crash:SIGSEGV in B\n"
        "1 cell of 6 differs in signature, not in verdict:\n"
        "  raises on 2.9.1: error:RuntimeError in A, error:IndexError in B\n"
        "2 of 4 results are equal to the bit, 1 wrong one included.\n"
        "2 cells with the same signature differ in bits:\n"
        "  bits on 2.9.1: largest errors differ by a factor of 2\n"
        "  worse on 2.9.1: largest errors differ by a factor of 30\n"
        "in 1 of these one largest error is more than 10 times the other:\n"
        "  worse on 2.9.1: 1e-07 in A, 3e-06 in B\n"
        "1 cell not judged on one side or both, and not compared: 1 skip in both.\n"
        "\n"
        "What else differs:\n"
        "  cores: 2 in A, 64 in B\n"
        "Environments of which one is not known: 2.9.1.\n"
        "The same in both: day 2026-11-30, CPU AMD EPYC, memory 8.0 GB, kernel 6.1, libc glibc 2.36, "
        "bisect-torch 0.1.0.\n"
    )


def test_what_only_one_has_stands_in_the_order_in_which_it_was_planned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = [["b.py", ["f", "n=2", "n=10"], ["e"]], ["a.py", ["g"]]]
    places = [
        ("a.py", "g", "2.10.0"),
        ("b.py", "e", "2.9.1"),
        ("b.py", "f[n=10]", "2.10.0"),
        ("b.py", "f[n=2]", "2.9.1"),
    ]
    only = [seen("ok", name, build, case_file=file) for file, name, build in places]
    write(folder / "a.parquet", OURS[:1])
    write(folder / "b.parquet", [elsewhere(each) for each in (*only, OURS[0])], rows=planned)

    main(["compare", "a.parquet", "b.parquet"])
    assert "4 cells only in B: f (2×), e and g, on 2.9.1 and 2.10.0\n" in capsys.readouterr().out
    main(["compare", "a.parquet", "b.parquet", "--json"])
    rows = [each["instance"] for each in json.loads(capsys.readouterr().out)["only_b"]]
    assert rows == ["f[n=2]", "f[n=10]", "e", "g"]


def test_the_same_as_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "a.parquet", OURS)
    write(folder / "b.parquet", THEIRS)

    assert main(["compare", "a.parquet", "b.parquet", "--json", "--factor", "50"]) == 1
    document = json.loads(capsys.readouterr().out)
    counts = {name: number for name, number in document["counts"].items() if number}
    assert counts == {
        "verdict": 1, "signature": 1, "bits": 2, "equal to the bit": 2, "not judged": 1,
        "bits_compared": 4, "bits_equal": 2, "wrong_and_equal": 1, "only_a": 1,
    }  # fmt: skip
    assert (document["format"], document["factor"], document["exit_code"]) == (1, 50.0, 1)
    cell = next(each for each in document["cells"] if each["instance"] == "worse")
    assert (cell["relation"], cell["error_a"], cell["error_b"]) == ("bits", 1e-07, 3e-06)
    assert cell["ratio"] == pytest.approx(30.0)


def test_files_that_agree_in_everything_end_with_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "a.parquet", OURS[:2])
    write(folder / "b.parquet", THEIRS[:2])
    assert main(["compare", "a.parquet", "b.parquet"]) == 0
    out = capsys.readouterr().out
    assert "Verdict and signature are the same in all 2 cells that were judged on both sides." in out
    assert "2 of 2 results are equal to the bit, 1 wrong one included." in out


def test_other_dependencies_of_the_same_builds_are_told_once_for_all_of_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builds = ("2.8.0", "2.9.1", "2.14.0")
    for name, numpy, run in (("a", "2.3.4", "run"), ("b", "2.4.1", "other")):
        described = [
            {**environment(each, numpy=numpy).describe(), "build": each, "lock_hash": f"{name} {each}"}
            for each in builds
        ]
        seen_there = [
            dataclasses.replace(seen("ok", "bmm", each, lock_hash=f"{name} {each}", **VALUE), run_id=run)
            for each in builds
        ]
        write(folder / f"{name}.parquet", seen_there, environments=described)

    assert main(["compare", "a.parquet", "b.parquet"]) == 0
    out = capsys.readouterr().out
    assert "What else differs:\n  environment of 2.8.0, 2.9.1 and 2.14.0: numpy 2.3.4 → 2.4.1\n" in out
    assert "environments." not in out


def test_names_that_would_act_on_a_terminal_do_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nasty = "x\x1b[31m\u202e"
    write(folder / "a.parquet", [seen("ok", nasty)])
    write(folder / "b.parquet", [elsewhere(seen("wrong", nasty))])
    assert main(["compare", "a.parquet", "b.parquet"]) == 1
    out = capsys.readouterr().out
    assert "x\\x1b[31m\\u202e on 2.9.1: ok in A, wrong in B" in out
    assert all(char.isprintable() or char == "\n" for char in out)


def test_devices_with_other_names_are_compared_when_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "a.parquet", [seen("ok", "bmm", device="cpu"), seen("ok", "bmm", device="cuda:1", key="k")])
    write(folder / "b.parquet", [elsewhere(seen("wrong", "bmm", device="cuda:0"))])
    assert main(["compare", "a.parquet", "b.parquet"]) == 3
    assert "A has cpu and cuda:1, B has cuda:0; --device A=B says which belong together" in capsys.readouterr().out
    assert main(["compare", "a.parquet", "b.parquet", "--device", "cuda:1=cuda:0"]) == 1
    out = capsys.readouterr().out
    assert "1 cell in both, cuda:1 in A against cuda:0 in B" in out
    assert "not compared: cpu of A" in out


def test_a_script_and_a_command_of_one_name_are_told_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twins = [dataclasses.replace(seen("ok", "plateau"), case_file=file, key=file) for file in ("plateau.py", ".")]
    write(folder / "a.parquet", [OURS[0], *twins])
    write(folder / "b.parquet", THEIRS[:1])

    assert main(["compare", "a.parquet", "b.parquet"]) == 0
    assert "only in A: plateau.py::plateau and commands::plateau, on" in capsys.readouterr().out


# --- merge ------------------------------------------------------------------------------------------------------


def test_shards_become_one_file_with_their_runs_and_the_shards_stay(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "a.parquet", OURS[:3])
    write(folder / "b.parquet", OURS[2:5])
    write(folder / "c.parquet", THEIRS[5:6], ended=False)
    before = bytes_in(folder)

    assert main(["merge", "a.parquet", "b.parquet", "c.parquet", "-o", "all.parquet"]) == 0
    out = capsys.readouterr().out
    assert "a.parquet: 3 observations of 1 run: 3 rows on 1 build\n" in out
    assert (
        "all.parquet: 6 observations of 2 runs: 6 rows on 1 build; 1 record was in more than one file, kept once\n"
        in out
    )
    assert out.endswith("the matrix of all of it: bisect-torch judge all.parquet\n")
    after = bytes_in(folder)
    assert {name: digest for name, digest in after.items() if "all.parquet" not in name} == before
    assert sorted(path.name for path in folder.iterdir()) == [
        "a.parquet", "all.parquet", "b.parquet", "c.parquet.journal"
    ]  # fmt: skip
    merged = ResultsFile.open(folder / "all.parquet", must_exist=True)
    assert merged.observations() == [*OURS[:5], THEIRS[5]]
    assert {run["run_id"] for run in merged.runs} == {"run", "other"}


def test_rows_that_should_not_be_there_are_left_out_of_a_new_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "all.parquet", OURS)
    before = bytes_in(folder)

    assert main(["merge", "all.parquet", "-k", "not same and not bits", "-o", "some.parquet"]) == 0

    assert capsys.readouterr().out == (
        "all.parquet: 5 observations of 1 run: 5 rows on 1 build\n"
        "left out: 3 observations of rows that -k does not choose\n"
        "some.parquet: 5 observations of 1 run: 5 rows on 1 build\n"
        "the matrix of all of it: bisect-torch judge some.parquet\n"
    )
    assert ResultsFile.open(folder / "some.parquet", must_exist=True).observations() == OURS[3:]
    assert {name: digest for name, digest in bytes_in(folder).items() if "some" not in name} == before


def test_an_expression_that_leaves_nothing_out_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "all.parquet", OURS)
    assert main(["merge", "all.parquet", "-k", "not nowhere", "-o", "some.parquet"]) == 0
    assert "\nnothing is left out: -k chooses every row\n" in capsys.readouterr().out
    assert main(["merge", "all.parquet", "-o", "copy.parquet"]) == 0
    assert "left out" not in capsys.readouterr().out


def test_k_never_takes_anything_out_of_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "all.parquet", OURS)
    before = bytes_in(folder)

    assert main(["merge", "all.parquet", "-k", "same", "-o", "all.parquet"]) == 2
    assert "-k takes nothing out of all.parquet" in capsys.readouterr().err
    assert main(["merge", "all.parquet", "-k", "softmax", "-o", "some.parquet"]) == 2
    assert "-k 'softmax' fits none of " in capsys.readouterr().err
    assert bytes_in(folder) == before


def test_adding_to_a_file_that_is_among_those_merged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "all.parquet", OURS[:2])
    write(folder / "new.parquet", OURS[2:4])
    os.symlink("all.parquet", folder / "link.parquet")
    assert main(["merge", "all.parquet", "new.parquet", "-o", "link.parquet"]) == 0
    assert ResultsFile.open(folder / "all.parquet").observations() == OURS[:4]
    assert (folder / "link.parquet").is_symlink()
    assert main(["merge", "all.parquet", "new.parquet", "-o", "all.parquet"]) == 0, "again: it adds nothing"
    assert ResultsFile.open(folder / "all.parquet").observations() == OURS[:4]


def test_conflicts_are_named_and_end_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "a.parquet", OURS[:1])
    write(folder / "b.parquet", [dataclasses.replace(OURS[0], elapsed_s=9.0), elsewhere(OURS[1])])
    assert main(["merge", "a.parquet", "b.parquet", "-o", "all.parquet"]) == 1
    out = capsys.readouterr().out
    assert "1 conflict: the same observation, and not the same facts:\n" in out
    assert "  same[n=1] on 2.9.1 (cpu), repeat 0: elapsed_s; that of a.parquet is kept, not that of b.parquet\n" in out
    assert ResultsFile.open(folder / "all.parquet").observations()[0] == OURS[0]


def test_what_a_file_holds_stays_as_it_is_when_others_are_added_to_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever it is named, and with a journal beside it that no Parquet file holds yet."""
    write(folder / "a.parquet", OURS[:1], ended=False)
    write(folder / "b.parquet", [dataclasses.replace(OURS[0], elapsed_s=9.0), elsewhere(OURS[1])])
    assert main(["merge", "b.parquet", "a.parquet", "-o", "a.parquet"]) == 1
    out = capsys.readouterr().out
    assert "a.parquet: 2 observations (1 of them added) of 1 run: 2 rows on 1 build; " in out
    assert "that of a.parquet is kept, not that of b.parquet\n" in out
    assert ResultsFile.open(folder / "a.parquet").observations() == [OURS[0], elsewhere(OURS[1])]
    assert not (folder / "a.parquet.journal").exists()


def test_a_cell_that_differs_between_the_files_is_named_and_no_conflict(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "a.parquet", OURS[:1])
    write(folder / "b.parquet", [dataclasses.replace(seen("wrong", "same[n=1]"), run_id="other")])
    assert main(["merge", "a.parquet", "b.parquet", "-o", "all.parquet"]) == 0
    out = capsys.readouterr().out
    assert "1 cell differs between the files, as a flaky one does; of the same repeat the newest run counts:\n" in out
    assert "  same[n=1] on 2.9.1 (cpu): ok in a.parquet and wrong in b.parquet\n" in out


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (1, "1 observation is kept, but no matrix shows it, since a newer one stands for the same"),
        (2, "2 observations are kept, but no matrix shows them, since newer ones stand for the same"),
    ],
)
def test_what_newer_observations_stand_for_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], number: int, told: str
) -> None:
    write(folder / "a.parquet", OURS[:number])
    write(folder / "b.parquet", [elsewhere(each, started_at="2026-12-01") for each in OURS[:number]])

    assert main(["merge", "a.parquet", "b.parquet", "-o", "all.parquet"]) == 0
    assert told in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_every_earlier_schema_are_welcome(folder: Path, version: int) -> None:
    shutil.copy(DATA / f"results_version_{version}.parquet", folder / "old.parquet")
    write(folder / "new.parquet", OURS[:1])
    old = ResultsFile.open(folder / "old.parquet").observations()
    assert main(["merge", "old.parquet", "new.parquet", "-o", "all.parquet"]) == 0
    assert set(ResultsFile.open(folder / "all.parquet").observations()) == {*old, OURS[0]}


# --- what cannot be used ----------------------------------------------------------------------------------------


@pytest.fixture
def odd(folder: Path) -> Path:
    """A folder with every kind of file that is no good, beside a good one."""
    write(folder / "good.parquet", OURS)
    write(folder / "disjoint.parquet", [elsewhere(seen("ok", "another", case_file="other.py", case_file_hash="x"))])
    write(folder / "empty.parquet", [])
    (folder / "zero.parquet").touch()
    (folder / "text.parquet").write_text("not Parquet at all")
    (folder / "folder").mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), folder / "foreign.parquet")
    table = pyarrow.parquet.read_table(folder / "good.parquet")
    newer = {**table.schema.metadata, b"bisect_torch.schema_version": b"99", b"bisect_torch.tool_version": b"9.9"}
    pyarrow.parquet.write_table(table.replace_schema_metadata(newer), folder / "newer.parquet")
    shutil.copy(folder / "good.parquet", folder / "copy.parquet")
    whole = (folder / "good.parquet").read_bytes()
    (folder / "torn.parquet").write_bytes(whole[: len(whole) // 2])
    os.symlink("good.parquet", folder / "link.parquet")
    return folder


BAD = {
    "missing.parquet": (2, "there are no results at"),
    "zero.parquet": (2, "is not a Parquet file, but empty"),
    "text.parquet": (2, "is not a Parquet file, but text"),
    "torn.parquet": (2, "is not a Parquet file, or a damaged one"),
    "foreign.parquet": (2, "is a Parquet file, but no results file of bisect-torch"),
    "newer.parquet": (2, "has schema version 99; this bisect-torch reads up to 2"),
    "folder": (2, "is no file, so there are no results in it"),
    "nowhere/a.parquet": (2, "does not exist"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", ["compare", "merge"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_file_that_cannot_be_used_is_refused_in_one_line_and_nothing_changes(
    odd: Path, capsys: pytest.CaptureFixture[str], command: str, name: str, place: int
) -> None:
    before = bytes_in(odd)
    files = ["good.parquet"]
    files.insert(place, name)
    code, message = BAD[name]

    assert main([command, *files, *(["-o", "out.parquet"] if command == "merge" else [])]) == code
    captured = capsys.readouterr()
    first, *rest = captured.err.splitlines()
    assert captured.out == ""
    assert first.startswith("error: ")
    assert message in first
    assert all(line.startswith("hint: ") for line in rest)
    assert len(rest) <= 1
    assert bytes_in(odd) == before


REFUSED = {
    "one that is empty": (["compare", "good.parquet", "empty.parquet"], 2, "empty.parquet holds no results yet"),
    "the same file twice": (["compare", "good.parquet", "link.parquet"], 2, "is named twice"),
    "a device that is not there": (
        ["compare", "good.parquet", "copy.parquet", "--device", "cpu=cuda:0"], 2, "holds no results on cuda:0"
    ),
    "no pair of devices": (["compare", "good.parquet", "copy.parquet", "--device", "cpu"], 2, "is not two devices"),
    "a factor that is none": (["compare", "good.parquet", "copy.parquet", "--factor", "0"], 2, "not a number above"),
    "one file only": (["compare", "good.parquet"], 2, "B is missing"),
    "merge into nothing": (["merge", "good.parquet"], 2, "-o/--output is missing"),
    "merge the same file twice": (
        ["merge", "good.parquet", "link.parquet", "-o", "out.parquet"], 2, "is the same file as good.parquet"
    ),
    "merge over another file": (
        ["merge", "good.parquet", "-o", "copy.parquet"], 2, "is there already, and is not among the files"
    ),
    "merge over a file of another kind": (
        ["merge", "good.parquet", "-o", "text.parquet"], 2, "is there already, and is not among the files"
    ),
    "merge into a folder": (["merge", "good.parquet", "-o", "folder"], 2, "is there already"),
    "merge into a folder that is not there": (
        ["merge", "good.parquet", "-o", "nowhere/out.parquet"], 2, "does not exist"
    ),
    "merge nothing": (["merge", "empty.parquet", "-o", "out.parquet"], 2, "empty.parquet holds no results"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_line_that_makes_no_sense_is_refused_and_nothing_changes(
    odd: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = bytes_in(odd)
    words, code, message = REFUSED[name]
    assert main(words) == code
    assert message in capsys.readouterr().err.splitlines()[0]
    assert bytes_in(odd) == before


def test_cells_that_do_not_overlap_leave_nothing_to_compare(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "good.parquet", "disjoint.parquet"]) == 3
    out = capsys.readouterr().out
    assert "0 cells in both\n" in out
    assert "Nothing could be compared: no case of the same file name and instance has run on the same build" in out


def test_a_copy_is_no_second_witness(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "good.parquet", "copy.parquet"]) == 3
    assert "8 cells not compared: one and the same observation stands in both files." in capsys.readouterr().out


def test_an_empty_file_adds_nothing_to_a_merged_one(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", "good.parquet", "empty.parquet", "-o", "out.parquet"]) == 0
    assert "note: empty.parquet holds no results\n" in capsys.readouterr().err
    assert ResultsFile.open(odd / "out.parquet").observations() == OURS


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
@pytest.mark.parametrize("command", ["compare", "merge"])
def test_a_file_that_may_not_be_read_is_an_infrastructure_error(
    odd: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (odd / "copy.parquet").chmod(0)
    words = [command, "good.parquet", "copy.parquet", *(["-o", "out.parquet"] if command == "merge" else [])]
    assert main(words) == 3
    assert "cannot read" in capsys.readouterr().err
    assert not (odd / "out.parquet").exists()


def test_a_disk_that_fails_leaves_no_half_written_file(
    odd: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bisect_torch.results.parquet.write_table", full)
    before = bytes_in(odd)
    assert main(["merge", "good.parquet", "disjoint.parquet", "-o", "good.parquet"]) == 3
    assert "No space left on device" in capsys.readouterr().err
    assert {name: digest for name, digest in bytes_in(odd).items() if not name.endswith(".journal")} == before

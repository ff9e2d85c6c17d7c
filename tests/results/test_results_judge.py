"""``judge``: other tolerances over stored numbers, through the command line."""

from __future__ import annotations

import datetime
import json
import shlex
from pathlib import Path

import pytest

from bisect_torch.cli.main import main
from bisect_torch.cli.parser import parse
from bisect_torch.model import Build, BuildKind, Observation
from bisect_torch.results import ResultsFile
from bisect_torch.results.recalled import recalled_builds, recalled_environments
from tests.results.made import observation

ERRORS = {"2.9.1": 1e-6, "2.10.0": 1.5e-3, "2.11.0": 0.3}


def seen(build: str, **fields: object) -> Observation:
    return observation(build=build, build_name=build, key=f"key {build}", instance="mm", case="mm", **fields)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """One row over three builds: |reference| in [1, 2), errors as in :data:`ERRORS`; ok under the criterion of then."""
    path = tmp_path / "r.parquet"
    file = ResultsFile.open(path)
    for build, error in ERRORS.items():
        bins = json.dumps([[0, 8, error]])
        file.append(seen(build, checks=1, criterion="normwise", elements=8, wrong_elements=0, error_bins=bins))
    file.finish({"run_id": "run-1", "builds": ["2.9.1", "2.10.0", "2.11.0", "2.12.0"]})
    return path


def judge(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> tuple[int, dict[str, str | None]]:
    """The exit code, and build to signature."""
    code = main(["judge", str(path), "--json", *words])
    (row,) = json.loads(capsys.readouterr().out)["series"]
    return code, {build: cell and cell["signature"] for build, cell in row["cells"].items()}


def test_other_tolerances_give_another_matrix(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    as_then = {"2.9.1": "ok", "2.10.0": "ok", "2.11.0": "ok", "2.12.0": None}
    assert judge(capsys, results) == (3, as_then)
    assert judge(capsys, results, "--rtol", "2e-3") == (3, {**as_then, "2.11.0": "wrong"})
    strict = {**as_then, "2.10.0": "undecidable", "2.11.0": "wrong"}
    assert judge(capsys, results, "--rtol", "1e-3") == (3, strict)
    assert judge(capsys, results, "--atol", "1e-3") == (3, {**as_then, "2.10.0": "wrong", "2.11.0": "wrong"})


def test_the_new_transition_is_told_and_nothing_is_written(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in results.parent.iterdir()}
    main(["judge", str(results), "--rtol", "2e-3"])
    told = capsys.readouterr().out
    assert "2.11.0" in told
    assert "rtol=0.002" in told
    main(["judge", str(results), "--rtol", "2e-3", "--json"])
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["kind"], found["before"], found["after"]) == ("broke", "2.10.0", "2.11.0")
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in results.parent.iterdir()} == before


def test_what_tolerances_leave_open_has_a_line_that_runs_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kept results.parquet"
    file = ResultsFile.open(path)
    for case, errors in {"mm": [1e-6, 1.5e-3], "bmm": [1.5e-3, 1e-6], "dot": [1e-6, 1e-6]}.items():
        for build, error in zip(("2.9.1", "2.10.0"), errors, strict=True):
            numbers = {"checks": 1, "criterion": "normwise", "elements": 8, "wrong_elements": 0}
            bins = json.dumps([[0, 8, error]])
            row = {"case": case, "instance": f"{case}[n=2]", "case_file": "a b/cases.py", "python": "3.11.7"}
            file.append(observation(key=case + build, build_name=build, error_bins=bins, **numbers, **row))
    words = ["run", "a b", "--from", "2.9.1", "-o", "kept results.parquet", "--seed=3"]
    file.finish({"run_id": "run-1", "builds": ["2.9.1", "2.10.0"], "arguments": words, "timeout_s": 60})

    main(["judge", str(path), "--rtol", "1e-3"])
    told = capsys.readouterr().out
    assert "2 cells undecidable in 2.9.1 and 2.10.0" in told
    (line,) = [line.strip() for line in told.splitlines() if line.strip().startswith("bisect-torch run")]
    assert "once check() has rtol=0.001, atol=0 there:" in told
    assert shlex.split(line) == [
        "bisect-torch", "run", "a b/cases.py", "-k", "mm or bmm", "--versions", "2.9.1,2.10.0", "--python=3.11",
        "--timeout=60", "--seed=3", "-o", str(path),
    ]  # fmt: skip
    parse(shlex.split(line)[1:])
    main(["judge", str(path), "--rtol", "1e-2"])
    assert "once check() has" not in capsys.readouterr().out


def test_rows_that_tolerances_cannot_judge_are_named_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ResultsFile.open(tmp_path / "r.parquet")
    bins = json.dumps([[0, 8, 1e-6]])
    rows: dict[str, dict[str, object]] = {
        "measured": {"checks": 1, "criterion": "normwise", "error_bins": bins},
        "asserted": {"outcome": "raised", "error_type": "AssertionError", "frame_origin": "case"},
        "ran": {},
        "shape": {"checks": 1, "mismatch": "shape (2,) instead of (3,)"},
        "raises": {"outcome": "raised", "error_type": "RuntimeError", "checks": 1, "error_bins": bins},
        "skipped": {"outcome": "skipped", "reason": "no such device"},
    }
    for name, facts in rows.items():
        for build in ("2.9.1", "2.10.0"):
            fields: dict[str, object] = {"instance": name, "case": name, "key": f"{name} {build}", **facts}
            file.append(observation(build=build, build_name=build, **fields))

    for from_journal in (True, False):  # rows, then columns
        if not from_journal:
            file.finish({"run_id": "run-1", "builds": ["2.9.1", "2.10.0"]})
        main(["judge", str(tmp_path / "r.parquet"), "--rtol", "1e-3", "--json"])
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert notes[-4:] == [
            "judged with rtol=0.001 and atol=0, and nothing was run; with atol=0 an element whose reference is 0 must "
            "be exactly 0, unlike by check()'s default; numbers of wrong elements are those that the run counted, by "
            "its own criterion",
            "not judged again, 2 rows (asserted and ran): no check() stored numbers there, and what a case asserts or "
            "returns itself has no tolerance",
            "not judged again, 1 row (shape): another shape, dtype or structure, a NaN or an infinity is wrong at any "
            "tolerance",
            "not judged again, 1 row (raises): there is no value to judge: an exception, a crash or a time limit ended "
            "them",
        ]
        main(["judge", str(tmp_path / "r.parquet"), "--json"])
        assert "not judged again" not in capsys.readouterr().out
        main(["judge", str(tmp_path / "r.parquet"), "ran", "raises", "-k", "ra", "--rtol", "1e-3", "--json"])
        document = json.loads(capsys.readouterr().out)
        assert [row["instance"] for row in document["series"]] == ["ran", "raises"]
        assert [note.partition(":")[0] for note in document["notes"] if note.startswith("not judged again")] == [
            "not judged again, 1 row (ran)", "not judged again, 1 row (raises)",
        ]  # fmt: skip


def test_each_row_has_a_line_where_that_is_asked_for(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    file = ResultsFile.open(results)
    for number in range(4):
        answer = {"returned_false": number in (1, 2)}
        row: dict[str, object] = {"instance": f"f[n={number}]", "case": "f", "key": f"{number}", **answer}
        file.append(observation(build="2.9.1", build_name="2.9.1", **row))
    main(["judge", str(results), "-k", "f["])
    folded = capsys.readouterr().out
    assert "1 and 1 other " in folded
    assert f"a line for each row: bisect-torch judge {results} --unfold" in " ".join(folded.split())
    main(["judge", str(results), "-k", "f[", "--unfold"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:5]] == [[f"f[n={n}]", "W" if n in (1, 2) else "·"] for n in range(4)]


def test_a_killed_run_can_be_judged_from_its_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ResultsFile.open(tmp_path / "r.parquet").append(seen("2.9.1"))
    assert judge(capsys, tmp_path / "r.parquet") == (0, {"2.9.1": "ok"})


@pytest.mark.parametrize("words", [["--rtol", "-1"], ["--atol", "nan"], ["--rtol", "x"], ["--rtol", "inf"]])
def test_a_tolerance_is_a_number_from_zero_up(
    results: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(results), *words]) == 2
    assert "number from zero up" in capsys.readouterr().err


def test_results_that_do_not_exist_or_are_empty_are_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(tmp_path / "none.parquet")]) == 2
    ResultsFile.open(tmp_path / "r.parquet").finish({"run_id": "r"})
    assert main(["judge", str(tmp_path / "r.parquet")]) == 2
    assert "no results" in capsys.readouterr().err


def test_builds_come_back_in_release_order_with_what_is_known_of_them() -> None:
    named = ["/opt/b/bin/python", "2.16.0.dev20261128", "2.9.1", "/opt/a/bin/python", "2.10.0"]
    described = {
        "build": "2.9.1", "kind": "release", "version": "2.9.1", "day": "2025-11-12", "python": "3.11.7",
        "lock_hash": "h", "packages": {"numpy": "2.3.4"}, "torch_version": "2.9.1+cu128", "git_commit": "abc",
        "cuda": "12.8", "backend": "pypi",
    }  # fmt: skip
    runs = [{"run_id": "a", "builds": named, "environments": [described]}]
    environments = recalled_environments(runs)
    local = observation(build="2.9.0", build_name=named[0], build_kind="local", git_commit="def")
    builds = recalled_builds([local], environments, runs)
    nightly = Build(BuildKind.NIGHTLY, named[1], named[1], day=datetime.date(2026, 11, 28))
    assert [build.name for build in builds] == ["2.9.1", "2.10.0", nightly.name, named[0], named[3]]
    assert builds[0].git_commit == "abc"
    assert builds[2] == nightly
    assert builds[3].git_commit == "def"
    assert environments["2.9.1"].packages == {"numpy": "2.3.4"}

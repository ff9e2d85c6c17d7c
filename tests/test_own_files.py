"""Which files are the tool's own, and which may be a test's data all the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bisect_torch import own_digest
from bisect_torch.cases import read_suite
from bisect_torch.engine.other_state import describe_suite, what_differs
from bisect_torch.environments import project_at
from bisect_torch.own_files import OwnFiles, own_files, remember, untracked_reports
from bisect_torch.report.profile.spans import Profile
from bisect_torch.report.profile.trace import trace_text
from tests.support.project import commit_all, editable_project

REPORTS = Path(__file__).parent / "data" / "reports"
MARKED = ("real_cases_matrix.html", "real_cases_matrix.svg", "real_cases_matrix.png", "one_case.xml", "one_case.csv",
          "four_cases.md")  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return editable_project(tmp_path / "mine")


def redirected(folder: Path) -> OwnFiles:
    """Whose stdout is ``out.txt``."""
    path = folder / "out.txt"
    path.write_text("")
    return OwnFiles(places={path: (path.stat().st_dev, path.stat().st_ino)})


@pytest.mark.parametrize("name", MARKED)
def test_a_report_is_no_part_of_a_project_unless_git_tracks_it_or_it_lies_deeper(folder: Path, name: str) -> None:
    commit_all(folder)
    clean = project_at(folder), read_suite([], folder).file.sha256
    shutil.copy(REPORTS / name, folder / name)
    assert untracked_reports(folder) == {folder / name}
    assert (project_at(folder), read_suite([], folder).file.sha256) == clean
    (folder / "data").mkdir()
    shutil.copy(REPORTS / name, folder / "data" / name)
    assert project_at(folder) != clean[0]
    assert read_suite([], folder).file.sha256 != clean[1]
    commit_all(folder)
    assert untracked_reports(folder) == set()


def test_a_profile_is_no_part_of_a_project(folder: Path) -> None:
    commit_all(folder)
    (folder / "trace.json").write_text(trace_text(Profile(0, 1, 1, ())))
    assert untracked_reports(folder) == {folder / "trace.json"}


def test_other_files_with_the_ending_of_a_report_count(folder: Path) -> None:
    commit_all(folder)
    for name in MARKED:
        (folder / name).write_text("bisect-torch")
    assert untracked_reports(folder) == set()
    assert len(project_at(folder).differing) == len(MARKED)


@pytest.mark.parametrize("tracked", [True, False])
def test_where_stdout_goes_is_no_part_of_it(folder: Path, tracked: bool) -> None:
    own = redirected(folder)
    before = project_at(folder, own).state if not tracked else f"mine {commit_all(folder)}"
    suite = read_suite([], folder, own).file.sha256
    (folder / "out.txt").write_text("said")
    assert project_at(folder, own).state == before
    assert read_suite([], folder, own).file.sha256 == suite
    (folder / "data.txt").write_text("")
    assert project_at(folder, own).state != before
    assert read_suite([], folder, own).file.sha256 != suite


def test_what_was_written_is_remembered_until_another_file_has_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    own, ledger = redirected(folder), tmp_path / "ledger.json"
    remember(own, ledger)
    later = own_files([folder / "state.json"], ledger)
    assert folder / "out.txt" in later
    assert folder / "state.json" in later
    (folder / "new.txt").write_text("data")
    os.replace(folder / "new.txt", folder / "out.txt")
    assert folder / "out.txt" not in later


def test_output_that_was_committed_is_a_part_of_the_project(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    ledger = tmp_path / "ledger.json"
    remember(redirected(folder), ledger)
    assert folder / "out.txt" in own_files([], ledger)
    commit_all(folder)
    assert folder / "out.txt" not in own_files([], ledger)


def test_a_changed_helper_of_a_suite_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "helper.py").write_text("one = 1\n")
    before = read_suite([], folder)
    own_digest.write_kept(tmp_path / f"files-{before.file.sha256}.json", {"files": before.covered})
    run: dict[str, object] = {"projects": [], "suite": describe_suite([before])}
    assert what_differs(run, [before], [], tmp_path) is None
    of_older_version: dict[str, object] = {"projects": [], "case_files": [before.file.sha256]}
    assert what_differs(of_older_version, [before], [], tmp_path) is None
    (folder / "helper.py").write_text("one = 2\n")
    after = read_suite([], folder)
    assert what_differs(run, [after], [], tmp_path) == (
        "what lies beside the tests is not as it was: helper.py has changed"
    )
    assert what_differs(run, [after], [], tmp_path / "other") == "what lies beside the tests is not as it was"

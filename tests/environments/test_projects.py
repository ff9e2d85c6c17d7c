"""Which state of an editable project a result belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisect_torch.environments import project_at
from bisect_torch.environments.projects import build_digest
from tests.support.project import commit_all, editable_project


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return editable_project(tmp_path / "mine")


def test_a_commit_identifies_a_clean_project(folder: Path) -> None:
    commit = commit_all(folder)
    project = project_at(folder)
    assert (project.commit, project.dirty, project.files) == (commit, False, "")
    assert project.state == f"mine {commit}"
    assert str(project) == f"mine at {commit[:12]}"


@pytest.mark.parametrize("name", ["backend.py", "new.py"])
def test_what_differs_from_the_commit_is_told_by_its_content(folder: Path, name: str) -> None:
    commit_all(folder)
    states = [project_at(folder).state]
    for text in ("one", "two"):
        (folder / name).write_text(text)
        states.append(project_at(folder).state)
    assert len(set(states)) == 3
    assert project_at(folder).dirty
    assert "with uncommitted changes" in str(project_at(folder))


def test_results_and_what_builds_leave_are_no_change(folder: Path) -> None:
    commit_all(folder)
    clean = project_at(folder)
    for name in ("results.parquet", "results.parquet.journal", "mine.egg-info/PKG-INFO", "build/x.py", "x.pyc"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    assert project_at(folder) == clean


def test_without_git_all_files_tell(folder: Path) -> None:
    before = project_at(folder)
    assert (before.commit, before.dirty, str(before)) == (None, False, "mine (in no git repository)")
    (folder / "results.parquet").write_text("")
    assert project_at(folder) == before
    (folder / "mine.py").write_text("")
    assert project_at(folder).state != before.state


def test_what_a_project_needs_is_read_anew_when_its_build_files_change(folder: Path) -> None:
    before = build_digest(folder)
    (folder / "mine.py").write_text("")
    assert build_digest(folder) == before
    (folder / "setup.py").write_text("")
    assert build_digest(folder) != before

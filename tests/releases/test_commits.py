"""What the commit inside a build is: by its kind alone, and with a source checkout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bisect_torch.errors import UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.commits import check_source, origin_of, origins

MAIN = "ab" * 20


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit of a branch of nightlies, and one tagged as a release candidate."""
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "commit", "-q", "--allow-empty", "-m", f"2026-11-12 nightly release ({MAIN})")
    _git(tmp_path, "commit", "-q", "--allow-empty", "-m", "Release only change")
    _git(tmp_path, "tag", "v2.16.0-rc3")
    return tmp_path


def _git(folder: Path, *words: str) -> str:
    own = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    variables = {**os.environ, **own, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", "-C", folder, *words], env=variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def build(kind: BuildKind, version: str = "2.16.0") -> Build:
    return Build(kind, version, version)


@pytest.mark.parametrize(
    ("kind", "where", "resolved"),
    [
        (BuildKind.RELEASE, "v2.16.0", True),
        (BuildKind.NIGHTLY, "nightly branch", True),
        (BuildKind.CANDIDATE, "release branch", True),
        (BuildKind.LOCAL, "", False),
    ],
)
def test_the_kind_alone_tells_where_a_commit_is(kind: BuildKind, where: str, resolved: bool) -> None:
    origin = origin_of(build(kind), "12" * 20)
    assert origin is not None
    assert (origin.where, origin.resolved, origin.main, origin.point) == (where, resolved, None, "12" * 20)


def test_what_is_no_full_commit_is_never_resolved() -> None:
    assert origin_of(build(BuildKind.NIGHTLY), None) is None
    for text in ("unknown", "12" * 6, "12" * 20 + "-dirty"):
        origin = origin_of(build(BuildKind.NIGHTLY), text)
        assert origin is not None
        assert not origin.resolved


def test_a_checkout_gives_the_commit_of_main_and_the_tag(checkout: Path) -> None:
    nightly, candidate, elsewhere = (build(kind) for kind in (BuildKind.NIGHTLY, BuildKind.CANDIDATE, BuildKind.LOCAL))
    named = [Build(each.kind, each.version, str(number)) for number, each in enumerate((nightly, candidate, elsewhere))]
    commits = {"0": _git(checkout, "rev-parse", "HEAD~1"), "1": _git(checkout, "rev-parse", "HEAD"), "2": "34" * 20}

    found = origins(named, commits, check_source(checkout))

    assert (found["0"].main, found["0"].point, found["0"].where) == (MAIN, MAIN, "nightly branch")
    assert str(found["0"]) == f"nightly branch {commits['0'][:12]} (main {MAIN[:12]})"
    assert (found["1"].where, found["1"].main, found["1"].point) == ("v2.16.0-rc3", None, commits["1"])
    assert not found["2"].resolved


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match="no git checkout there"):
            check_source(folder)

"""The nightly index in HTML without times and sizes: what it lists, what is remembered, what is read out of wheels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases import nightly_index
from bisect_torch.releases.choosing import choose_builds
from bisect_torch.releases.index import IndexOptions
from bisect_torch.releases.nightly_index import nightly_backend
from bisect_torch.releases.nightly_ledger import NightlyLedger, remembered_sizes
from bisect_torch.releases.nightly_words import nightly_word
from bisect_torch.releases.platforms import this_python
from bisect_torch.releases.selection import Selection
from tests.support import nightlies
from tests.support.index import FakeIndex, Fault
from tests.support.nightlies import nightly_index as served
from tests.support.wheels import fake_torch


@dataclass
class Asking:
    """Choices on the index of sixty nightlies, with what was said."""

    index: FakeIndex
    ledger: Path
    installed: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    options: IndexOptions = field(default_factory=IndexOptions)

    def builds(self, selection: Selection, backend: str = "cpu") -> tuple[Build, ...]:
        self.notes.clear()
        return choose_builds(
            selection,
            self.options,
            python=this_python(),
            backend=backend,
            ledger=self.ledger,
            installed=lambda build: build.version in self.installed,
            note=self.notes.append,
        )

    def names(self, *words: str, **selected: object) -> list[str]:
        chosen = Selection(nightly=tuple(nightly_word(word) for word in words), **selected)  # type: ignore[arg-type]
        return [build.name for build in self.builds(chosen)]

    def rows(self) -> list[dict[str, object]]:
        rows = json.loads(self.ledger.read_text())["wheels"]
        assert isinstance(rows, list)
        return rows


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    with served() as index:
        monkeypatch.setenv("BISECT_TORCH_BACKEND_INDEX", index.base)
        yield Asking(index, tmp_path / "nightlies" / "ledger.json", options=IndexOptions(index.url))


def test_a_nightly_has_its_day_its_commit_and_its_size_without_a_download(asking: Asking) -> None:
    (build,) = asking.builds(Selection(nightly=(nightly_word("2026-11-20"),)))
    wheel = nightlies.torch_of(build.day)  # type: ignore[arg-type]
    assert build.kind is BuildKind.NIGHTLY
    assert (build.name, build.version, build.index) == ("2.16.0.dev20261120", "2.16.0.dev20261120", "nightly/cpu")
    assert (str(build.day), build.git_commit) == ("2026-11-20", nightlies.commit(build.day))  # type: ignore[arg-type]
    assert (build.download_bytes, build.wheels, build.gone) == (len(wheel.content), (wheel.sha256,), False)
    asked = asking.index.requested("/files/*.whl")
    assert asked
    assert all(request.status == 206 for request in asked)
    assert {request.path for request in asked} == {f"/files/{wheel.filename.replace('+', '%2B')}"}


def test_every_wheel_is_remembered_at_first_sight_and_read_once(asking: Asking) -> None:
    asking.names("latest")
    rows = {row["filename"]: row for row in asking.rows()}
    assert len(rows) == 60
    last = rows[nightlies.torch_of(nightlies.LAST).filename]
    assert last["git_commit"] == nightlies.commit(nightlies.LAST)
    assert last["url"] == asking.index.file_url(nightlies.torch_of(nightlies.LAST))
    assert (last["day"], last["index"]) == ("2026-11-28", "nightly/cpu")
    assert [size.bytes for size in remembered_sizes(asking.ledger).values()] == [last["bytes"]]
    before = len(asking.index.requested("/files/*.whl"))
    asking.names("latest")
    assert len(asking.index.requested("/files/*.whl")) == before


def test_missing_days_are_said_and_the_nearest_is_used(asking: Asking) -> None:
    assert asking.names("2026-11-06", "2026-11-15") == ["2.16.0.dev20261107", "2.16.0.dev20261114"]
    assert asking.notes == [
        "nightly/cpu has no nightly of 2026-11-06; the nearest, of 2026-11-07, is used",
        "nightly/cpu has no nightly of 2026-11-15 (withdrawn); the nearest, of 2026-11-14, is used",
    ]
    assert asking.names(versions=("2.16.0.dev20261115",)) == ["2.16.0.dev20261115"]


def test_a_range_goes_over_the_change_of_version_in_order(asking: Asking) -> None:
    names = asking.names("2026-10-10..2026-10-13")
    assert names == [
        "2.15.0.dev20261010",
        "2.15.0.dev20261011",
        "2.16.0.dev20261012",
        "2.16.0.dev20261013",
    ]


def test_nightlies_join_releases_in_release_order(asking: Asking) -> None:
    assert asking.names("latest", "2026-10-01", first="2.14.0") == [
        "2.14.0", "2.15.0.dev20261001", "2.15.0", "2.16.0.dev20261128",
    ]  # fmt: skip
    assert asking.names(versions=("2.15.0", "nightly")) == ["2.15.0", "2.16.0.dev20261128"]
    assert asking.names("test", versions=("2.15.0",)) == ["2.15.0", "2.16.0 (test)"]


def test_a_range_may_end_at_a_nightly_and_then_has_all_between(asking: Asking) -> None:
    names = asking.names(first="2.15.0", last="2026-10-14", exclude=("2026-10-13",))
    assert names == ["2.15.0", "2.16.0.dev20261012", "2.16.0.dev20261014"]
    assert asking.names(first="2026-11-26", last="nightly")[::2] == ["2.16.0.dev20261126", "2.16.0.dev20261128"]
    with pytest.raises(UsageError, match="ends no range"):
        asking.names(first="2.15.0", last="test")


def test_a_release_candidate_is_of_the_channel_of_tests(asking: Asking) -> None:
    (build,) = asking.builds(Selection(nightly=(nightly_word("test"),)))
    assert (build.kind, build.version, build.index) == (BuildKind.CANDIDATE, "2.16.0", "test/cpu")
    replaced = fake_torch("2.16.0+cpu", "def answer(): return 43", git_commit="ee" * 20)
    asking.index.add(replaced, shelf="test/cpu")
    (again,) = asking.builds(Selection(nightly=(nightly_word("test"),)))
    assert again.wheels == (replaced.sha256,) != build.wheels
    assert again.git_commit == "ee" * 20


def test_a_nightly_that_left_the_index_is_known_and_says_so(asking: Asking) -> None:
    asking.names("2026-09-26..2026-09-28")
    old = nightlies.torch_of(nightlies.FIRST)
    asking.index.remove(old, shelf="nightly/cpu")
    assert asking.names("2026-09-26") == ["2.15.0.dev20260927"]
    assert "2026-09-26 (it has left the index)" in asking.notes[0]
    (named,) = asking.builds(Selection(versions=("2.15.0.dev20260926",)))
    assert (named.gone, named.git_commit) == (True, nightlies.commit(nightlies.FIRST))
    asking.installed.add("2.15.0.dev20260926")
    assert asking.names("2026-09-26") == ["2.15.0.dev20260926"]
    assert asking.notes == []


def test_an_index_that_is_down_is_done_without_where_what_is_asked_for_is_installed(asking: Asking) -> None:
    asking.names("2026-11-20", "2026-11-22")
    asking.index.fault("/nightly/cpu/*", Fault(status=500))
    asking.installed.add("2.16.0.dev20261120")
    kept = asking.ledger.read_bytes()
    assert asking.names("2026-11-20") == ["2.16.0.dev20261120"]
    assert "using the environments of nightly builds that are there" in asking.notes[0]
    assert asking.names(versions=("2.16.0.dev20261120",)) == ["2.16.0.dev20261120"]
    for selected in ({"nightly": (nightly_word("latest"),)}, {"versions": ("2.16.0.dev20261122",)}):
        with pytest.raises(InfrastructureError, match=r"/nightly/cpu answers status 500 for torch"):
            asking.builds(Selection(**selected))  # type: ignore[arg-type]
    assert asking.ledger.read_bytes() == kept
    asking.options = replace(asking.options, offline=True)
    assert asking.names("2026-11-20") == ["2.16.0.dev20261120"]
    with pytest.raises(InfrastructureError, match="offline"):
        asking.names("latest")


def test_a_wheel_that_cannot_be_read_leaves_its_commit_unknown_and_says_so(asking: Asking) -> None:
    asking.index.fault("/files/torch-2.16.0.dev20261128*", Fault(truncate_to=100))
    (build,) = asking.builds(Selection(nightly=(nightly_word("latest"),)))
    assert (build.git_commit, build.download_bytes) == (None, None)
    assert len(asking.notes) == 1
    assert "are not known before it is installed" in asking.notes[0]


def test_a_backend_without_nightlies_is_said(asking: Asking) -> None:
    with pytest.raises(InfrastructureError, match=r"/nightly/xpu has no torch"):
        asking.builds(Selection(nightly=(nightly_word("latest"),)), backend="xpu")


def test_the_default_backend_names_the_folder_that_it_means(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nightly_backend("cu128") == ("cu128", None)
    monkeypatch.setattr(nightly_index, "this_platform", lambda: "linux-x86_64")
    name, note = nightly_backend("pypi")
    assert name.startswith("cu1")
    assert name in str(note)
    monkeypatch.setattr(nightly_index, "this_platform", lambda: "linux-aarch64")
    assert nightly_backend("pypi")[0] == "cpu"


def test_a_damaged_ledger_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    for text in ("not json", '{"schema": 99, "wheels": []}', '{"schema": 1, "wheels": [{"index": 1}]}'):
        path.write_text(text)
        with pytest.raises(InfrastructureError, match="ledger of nightly builds cannot be read"):
            NightlyLedger(path).wheels()
        assert path.read_text() == text

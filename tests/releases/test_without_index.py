"""An index that cannot be asked when builds are chosen: what is known without it goes on, the rest is named."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.model import Build
from bisect_torch.releases import IndexOptions, Selection, choose_builds, served
from bisect_torch.releases.nightly_words import nightly_word
from tests.support.index import FakeIndex, Fault
from tests.support.wheels import fake_torch, releases

FAULTS = {
    "500": Fault(status=500),
    "403": Fault(status=403),
    "404": Fault(status=404),
    "garbage": Fault(body=b"<html><body>down for maintenance</body></html>", content_type="text/html"),
    "reset": Fault(truncate_to=10, reset=True),
    "redirects": Fault(redirect_to_itself=True),
}


@dataclass
class Choosing:
    """Choices against one index, with what was told on the way."""

    index: FakeIndex
    cache: Path
    notes: list[str] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)

    def choose(self, selection: Selection, *, strict: bool = False, offline: bool = False, **more: str) -> list[str]:
        self.notes.clear()
        self.unknown.clear()
        builds = choose_builds(
            selection,
            IndexOptions(self.index.url, offline=offline),
            cache_dir=self.cache,
            note=self.notes.append,
            unknown=None if strict else self._left_out,
            **more,  # type: ignore[arg-type]
        )
        return [build.version for build in builds]

    def _left_out(self, name: str, error: InfrastructureError) -> None:
        self.unknown[name] = error.message

    def hours_pass(self, hours: float) -> None:
        then = time.time() - 3600 * hours
        for path in self.cache.iterdir():
            os.utime(path, (then, then))


@pytest.fixture
def choosing(tmp_path: Path) -> Iterator[Choosing]:
    (tmp_path / "cache").mkdir()
    with FakeIndex(releases({"2.4.1": "", "2.5.0": "", "2.6.0": ""})) as index:
        yield Choosing(index, tmp_path / "cache")


@pytest.mark.parametrize("name", FAULTS)
def test_what_an_index_answered_before_stands_in_and_that_is_said(choosing: Choosing, name: str) -> None:
    sound = choosing.choose(Selection())
    choosing.hours_pass(3)
    choosing.index.fault("/simple/torch/", FAULTS[name])
    assert choosing.choose(Selection()) == sound == ["2.4.1", "2.5.0", "2.6.0"]
    (note,) = choosing.notes
    assert note.endswith("; using what it answered 3 hours ago, whose newest release is 2.6.0")
    assert choosing.unknown == {}
    # The builds are the very same: day, hashes and so lock and environment.
    choosing.index.clear_faults()
    choosing.hours_pass(30)
    choosing.index.fault("/simple/torch/", FAULTS[name])
    assert choosing.choose(Selection(versions=("2.5.0",)), strict=True) == ["2.5.0"]
    assert "using what it answered 1 day ago" in choosing.notes[0]


def test_what_only_the_index_could_tell_of_is_named_and_the_rest_goes_on(choosing: Choosing) -> None:
    choosing.choose(Selection())
    choosing.hours_pass(1)
    choosing.index.fault("/simple/torch/", Fault(status=500))
    assert choosing.choose(Selection(versions=("2.5.0", "2.99.0"))) == ["2.5.0"]
    assert list(choosing.unknown) == ["2.99.0"]
    assert choosing.unknown["2.99.0"].endswith("answers status 500 for torch")
    assert choosing.choose(Selection(first="2.5.0", last="2.99.0", exclude=("2.98.0",))) == ["2.5.0", "2.6.0"]
    assert list(choosing.unknown) == ["2.99.0"]
    # Nothing is left, or the caller cannot do with a part.
    for selection in (Selection(versions=("2.99.0",)), Selection(first="2.98.0")):
        with pytest.raises(InfrastructureError, match="answers status 500 for torch"):
            choosing.choose(selection)
    with pytest.raises(InfrastructureError, match=r"torch 2\.99\.0 is not known: .* answers status 500"):
        choosing.choose(Selection(versions=("2.5.0", "2.99.0")), strict=True)
    # A slip of the finger is one, whatever the index does.
    with pytest.raises(UsageError, match=r"torch 2\.5\.9 does not exist here"):
        choosing.choose(Selection(versions=("2.5.9",)))


def test_an_index_that_never_answered_has_no_stand_in_unless_it_is_the_default_one(
    choosing: Choosing, monkeypatch: pytest.MonkeyPatch
) -> None:
    choosing.index.fault("/simple/torch/", Fault(status=500))
    with pytest.raises(InfrastructureError, match="answers status 500"):
        choosing.choose(Selection(versions=("2.5.0",)))
    monkeypatch.setattr(served, "PYPI_SIMPLE_ENDPOINT", choosing.index.url)
    left_out: dict[str, str] = {}
    builds = choose_builds(
        Selection(versions=("2.5.0", "2.99.0")),
        IndexOptions(),
        note=choosing.notes.append,
        unknown=lambda name, error: left_out.update({name: error.message}),
    )
    assert [build.version for build in builds] == ["2.5.0"]
    assert builds[0].lock is not None
    assert list(left_out) == ["2.99.0"]
    assert choosing.notes[-1].endswith("using the catalogue that ships with the tool")


def test_for_pytorchs_own_index_the_catalogue_stands_in_without_the_default_index_s_files(
    choosing: Choosing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BISECT_TORCH_BACKEND_INDEX", choosing.index.base)
    choosing.index.add(fake_torch("2.5.0+cpu", ""), shelf="cpu")
    sound = choosing.choose(Selection(versions=("2.5.0",)), backend="cpu")
    for path in choosing.cache.iterdir():
        path.unlink()
    choosing.index.fault("/cpu/torch/", Fault(status=503))
    kept: list[Build] = []

    def select(selection: Selection) -> list[str]:
        kept[:] = choose_builds(selection, IndexOptions(choosing.index.url), backend="cpu", note=choosing.notes.append)
        return [build.version for build in kept]

    assert select(Selection(versions=("2.5.0",))) == sound == ["2.5.0"]
    assert (kept[0].lock, kept[0].git_commit) == (None, None)
    assert "using the catalogue" in choosing.notes[-1]


def test_offline_what_an_index_answered_is_known_and_nobody_is_asked(choosing: Choosing) -> None:
    choosing.choose(Selection())
    choosing.hours_pass(1000)
    choosing.index.requests.clear()
    assert choosing.choose(Selection(versions=("2.5.0", "2.99.0")), offline=True) == ["2.5.0"]
    assert choosing.unknown == {"2.99.0": "offline: no index is asked"}
    assert choosing.notes == []
    assert choosing.index.requests == []


@pytest.mark.parametrize("offline", [False, True])
def test_a_nightly_that_cannot_be_known_is_left_out(
    choosing: Choosing, monkeypatch: pytest.MonkeyPatch, offline: bool
) -> None:
    monkeypatch.setenv("BISECT_TORCH_BACKEND_INDEX", choosing.index.base)
    for version in ("2.5.0", "2.6.0"):
        choosing.index.add(fake_torch(f"{version}+cpu", ""), shelf="cpu")
    choosing.choose(Selection(first="2.5.0"), backend="cpu")
    choosing.index.fault("/nightly/*", Fault(status=503))
    because = "offline: the index nightly/cpu is not asked" if offline else "answers status 503 for torch"

    for selection, name in (
        (Selection(versions=("2.5.0", "nightly")), "nightly"),
        (Selection(versions=("2.5.0",), nightly=(nightly_word("latest"),)), "nightly"),
        (Selection(versions=("2.5.0",), nightly=(nightly_word("2024-11-01"),)), "2024-11-01"),
        (Selection(versions=("2.5.0", "2.7.0.dev20241101")), "2.7.0.dev20241101"),
    ):
        assert choosing.choose(selection, offline=offline, backend="cpu") == ["2.5.0"], selection
        assert list(choosing.unknown) == [name]
        assert because in choosing.unknown[name]
    # A range that ends with it goes as far as there are releases.
    found = choosing.choose(Selection(first="2.5.0", last="nightly"), offline=offline, backend="cpu")
    assert found[:1] == ["2.5.0"]
    assert "2.6.0" in found
    assert list(choosing.unknown) == ["nightly"]
    for selection in (Selection(nightly=(nightly_word("latest"),)), Selection(versions=("nightly",))):
        with pytest.raises(InfrastructureError, match="nightly/cpu"):
            choosing.choose(selection, offline=offline, backend="cpu")

"""A store and a package index for each test: real uv, small fake wheels."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bisect_torch.environments import EnvironmentOptions, Store, ensure
from bisect_torch.model import Build, BuildProgress, Environment
from bisect_torch.releases.index import IndexOptions, list_builds
from tests.support.index import FakeIndex
from tests.support.wheels import Wheel, releases


@dataclass
class Workshop:
    """A store with its index, and the words in which a test asks for environments."""

    index: FakeIndex
    options: EnvironmentOptions
    events: list[BuildProgress] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return self.options.store

    def serve(self, *wheels: Wheel) -> None:
        self.index.add(*wheels)

    def build(self, version: str) -> Build:
        builds = list_builds(replace(self.options.index, offline=False))
        return next(build for build in builds if build.version == version)

    def ensure(self, build: Build | str, *, cancel: threading.Event | None = None) -> tuple[Environment, bool]:
        wanted = self.build(build) if isinstance(build, str) else build
        return ensure(wanted, self.options, progress=self.events.append, cancel=cancel)

    @property
    def phases(self) -> list[str]:
        return [event.phase for event in self.events]

    @property
    def messages(self) -> list[str]:
        return [event.message for event in self.events if event.message]

    def left_behind(self) -> list[str]:
        """Whatever lies where only unfinished or condemned things lie."""
        folders = [*self.store.tmp.iterdir(), *self.store.quarantine.iterdir(), *self.store.uv_cache.glob(".tmp*")]
        return sorted(folder.name for folder in folders)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    for name in [name for name in os.environ if name.startswith("UV_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with FakeIndex(releases({"2.4.1": "", "2.5.0": "", "2.6.0": ""})) as index:
        store = Store.open(tmp_path / "store")
        yield Workshop(index, EnvironmentOptions(store, python=sys.executable, index=IndexOptions(index.url)))


def site_packages(environment: Environment) -> Path:
    return next(environment.root.glob("lib/python*/site-packages"))

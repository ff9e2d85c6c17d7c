"""The nightly builds and release candidates on PyTorch's own indexes, with what the ledger remembers of them."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import requests
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from bisect_torch.errors import InfrastructureError
from bisect_torch.model import CANDIDATE_SUFFIX, Build, BuildKind
from bisect_torch.releases.catalogue import load_catalogue
from bisect_torch.releases.index import best_file, builds_of, own_index_url
from bisect_torch.releases.index_file import IndexFile, shown_url
from bisect_torch.releases.nightly_ledger import NightlyLedger, SeenWheel, seen_wheel
from bisect_torch.releases.nightly_words import TEST, day_of
from bisect_torch.releases.pages import index_files
from bisect_torch.releases.platforms import LINUX_X86_64, this_platform
from bisect_torch.threads import map_in_threads

_CONNECTIONS = 8


@dataclass(frozen=True)
class NightlyIndex:
    """One of PyTorch's own indexes of builds that are no releases.

    Args:
        index: ``nightly/cpu``, ``test/cu128``.
        ledger: What is remembered.
        python: Minor version whose wheel's facts are wanted; by default the newest that a build has.
        cache_dir: Where answers are kept for ten minutes.
    """

    index: str
    ledger: NightlyLedger
    python: str | None = None
    cache_dir: Path | None = None

    def listed(self) -> tuple[Build, ...]:
        """The builds that the index has or once had, in release order; those that have left it are marked.

        Every wheel is remembered at first sight.

        Raises:
            InfrastructureError: The index cannot be read, has no torch, or the ledger cannot be read.
        """
        url = own_index_url(self.index)
        files = index_files("torch", url, cache_dir=self.cache_dir)
        if not files:
            raise InfrastructureError(f"the index {shown_url(url)} has no torch", hint="choose another --torch-backend")
        known = [file for file in files if _version(file.filename) is not None]
        self.ledger.add(seen_wheel(self.index, file, _day(file.filename)) for file in known)
        there = {(file.filename, file.sha256) for file in known}
        return self._builds(there)

    def remembered(self) -> tuple[Build, ...]:
        """The builds that the ledger knows of, all as if they had left the index: it was not asked.

        Raises:
            InfrastructureError: The ledger cannot be read.
        """
        return self._builds(set())

    def with_facts(
        self, builds: Sequence[Build], note: Callable[[str], None], *, ask: bool = True
    ) -> tuple[Build, ...]:
        """The builds with commit and size, read out of their wheels where the ledger does not know them.

        Without ``ask`` nothing is read. Nothing but a few kilobytes of each is asked for. What cannot be read is noted,
        and stays unknown until the build is installed.

        Raises:
            InfrastructureError: The ledger cannot be read.
        """
        wheels = self._wheels_by_version()
        wanted = [(build, self._wheel_of(build, wheels)) for build in builds]
        unknown = [
            wheel
            for build, wheel in wanted
            if ask and wheel is not None and not build.gone and (wheel.git_commit is None or wheel.bytes is None)
        ]
        learnt = {wheel.key: wheel for wheel in self._read_facts(unknown, note)}
        if learnt:
            self.ledger.add(learnt.values())
        return tuple(_with(build, wheel and learnt.get(wheel.key, wheel)) for build, wheel in wanted)

    def _builds(self, there: set[tuple[str, str | None]]) -> tuple[Build, ...]:
        wheels = self._wheels_by_version()
        builds = []
        for version, group in wheels.items():
            present = [wheel for wheel in group if (wheel.filename, wheel.sha256) in there]
            # A release candidate's file may be replaced under its own name: the last that was seen counts.
            files = [wheel.file for wheel in present or {wheel.filename: wheel for wheel in group}.values()]
            found = builds_of(files, {}, self.python)
            builds += [self._build(build, files, gone=not present) for build in found if build.version == version]
        return tuple(sorted(builds, key=lambda build: Version(build.version)))

    def _build(self, build: Build, files: Sequence[IndexFile], *, gone: bool) -> Build:
        candidate = self.index.startswith(f"{TEST}/")
        return replace(
            build,
            kind=BuildKind.CANDIDATE if candidate else BuildKind.NIGHTLY,
            name=f"{build.version}{CANDIDATE_SUFFIX}" if candidate else build.version,
            day=day_of(build.version),
            git_commit=None,
            lock=None,
            index=self.index,
            wheels=tuple(file.sha256 for file in files if file.sha256 is not None),
            gone=gone,
        )

    def _wheels_by_version(self) -> dict[str, list[SeenWheel]]:
        grouped: dict[str, list[SeenWheel]] = {}
        for wheel in self.ledger.wheels(self.index):
            version = _version(wheel.filename)
            if version is not None:
                grouped.setdefault(version.public, []).append(wheel)
        return grouped

    def _wheel_of(self, build: Build, wheels: Mapping[str, Sequence[SeenWheel]]) -> SeenWheel | None:
        """The wheel that an installer chooses."""
        own = [wheel for wheel in wheels.get(build.version, ()) if wheel.sha256 in build.wheels or not build.wheels]
        best = best_file([wheel.file for wheel in own], self.python or build.pythons[-1])
        return next((wheel for wheel in own if best is not None and wheel.file == best), None)

    def _read_facts(self, wheels: Sequence[SeenWheel], note: Callable[[str], None]) -> list[SeenWheel]:
        served = [wheel for wheel in wheels if wheel.url.startswith(("http://", "https://"))]
        if not served:
            return []
        from bisect_torch.releases.remote_wheel import torch_wheel_facts
        from bisect_torch.releases.served import web_session

        def read(wheel: SeenWheel, session: requests.Session) -> SeenWheel | str:
            try:
                facts = torch_wheel_facts(wheel.url, session)
            except InfrastructureError as error:
                return f"commit and size of {wheel.filename} are not known before it is installed: {error.message}"
            return replace(wheel, git_commit=facts.git_commit, bytes=facts.download_bytes)

        with web_session(own_index_url(self.index)) as session:
            answers = map_in_threads(lambda wheel: read(wheel, session), served, threads=_CONNECTIONS)
        for answer in answers:
            if isinstance(answer, str):
                note(answer)
        return [answer for answer in answers if isinstance(answer, SeenWheel)]


def nightly_backend(backend: str) -> tuple[str, str | None]:
    """The folder below ``nightly/`` that a backend means, and a note where the choice left it open.

    What ``pip install torch`` gives is on no index of nightly builds: it is the CUDA of the newest release on Linux
    x86_64, and the one for CPUs elsewhere.
    """
    if backend != "pypi":
        return backend, None
    cuda = next((release.cuda for release in reversed(load_catalogue()) if release.cuda), None)
    if this_platform() == LINUX_X86_64 and cuda is not None:
        name = f"cu{cuda.replace('.', '')}"
        return name, f"builds that are no releases come from {name}, the CUDA of the newest release; cpu is smaller"
    return "cpu", None if sys.platform == "darwin" else "builds that are no releases come from cpu"


def _with(build: Build, wheel: SeenWheel | None) -> Build:
    if wheel is None:
        return build
    return replace(build, git_commit=wheel.git_commit, download_bytes=wheel.bytes)


def _version(filename: str) -> Version | None:
    """The version of a wheel of torch."""
    try:
        return parse_wheel_filename(filename)[1]
    except (InvalidWheelFilename, InvalidVersion):
        return None


def _day(filename: str) -> datetime.date | None:
    version = _version(filename)
    return None if version is None else day_of(str(version))

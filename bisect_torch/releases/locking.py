"""Makes the folder of locks: resolves releases, reads their commits out of the wheels, writes catalogue and sizes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import requests
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.releases.catalogue import OLDEST_RELEASE, Release, load_catalogue, write_catalogue
from bisect_torch.releases.index import IndexOptions, effective_options, uv_index_arguments
from bisect_torch.releases.index_file import IndexFile
from bisect_torch.releases.locks import check_lock, lock_path, make_lock, parse_lock, read_lock
from bisect_torch.releases.pages import find_links_files, index_files
from bisect_torch.releases.platforms import LINUX_X86_64, LOCKED_PLATFORMS, Target, named_pythons, sorted_pythons
from bisect_torch.releases.remote_wheel import torch_wheel_facts, unpacked_bytes
from bisect_torch.releases.served import web_session
from bisect_torch.releases.sizes import KnownWheel, known_wheels, write_wheels

_CONNECTIONS = 8


@dataclass
class IndexReader:
    """Asks the indexes for each project once.

    Args:
        options: Which indexes.
    """

    options: IndexOptions
    _files: dict[str, tuple[IndexFile, ...]] = field(default_factory=dict)

    def files(self, project: str) -> tuple[IndexFile, ...]:
        """Every wheel of a project, on all indexes.

        Raises:
            InfrastructureError: An index cannot be read.
        """
        if project not in self._files:
            options = effective_options(self.options)
            found = [file for place in options.find_links for file in find_links_files(project, place)]
            for url in (*options.extra_index_urls, options.index_url):
                found += index_files(project, url) or ()
            self._files[project] = tuple(found)
        return self._files[project]

    def torch_releases(self) -> Mapping[str, tuple[IndexFile, ...]]:
        """The files of every final release that is not yanked and not older than the first that gets a lock."""
        grouped: dict[str, list[IndexFile]] = {}
        for file in self.files("torch"):
            try:
                _, version, _, _ = parse_wheel_filename(file.filename)
            except (InvalidWheelFilename, InvalidVersion):
                continue
            final = not version.is_prerelease and version.local is None
            if final and file.yanked is None and version >= Version(OLDEST_RELEASE):
                grouped.setdefault(str(version), []).append(file)
        return {version: tuple(grouped[version]) for version in sorted(grouped, key=Version)}


def lock_releases(
    versions: Sequence[str], options: IndexOptions, folder: Path, note: Callable[[str], None]
) -> tuple[str, ...]:
    """Make the locks of releases, and write catalogue and table of sizes anew.

    Args:
        versions: Those to make, also when they have a lock; empty for all on the index that have none yet.
        folder: Of the locks.
        note: Called with one line for each step.

    Returns:
        The releases that were locked.

    Raises:
        UsageError: A version is not on the index.
        InfrastructureError: The index, a wheel or uv fails; what was made until then is kept.
    """
    reader = IndexReader(options)
    on_index = reader.torch_releases()
    unknown = [version for version in versions if version not in on_index]
    if unknown:
        raise UsageError(f"no release {unknown[0]} on the index", hint=f"it has {', '.join(on_index)}")
    wanted = versions or [version for version in on_index if lock_path(version, folder) is None]
    folder.mkdir(parents=True, exist_ok=True)
    for version in wanted:
        release = _lock_one(version, on_index[version], options, folder)
        note(f"locked {version}: {release.day}, {release.git_commit[:10]}, Python {', '.join(release.pythons)}")
    _write_sizes(reader, folder, note)
    return tuple(wanted)


def check_locks(
    versions: Sequence[str], options: IndexOptions, folder: Path
) -> Iterator[tuple[str, tuple[Target, ...], list[str]]]:
    """Check committed locks against the index, one after another.

    Args:
        versions: Those to check; empty for the whole catalogue.

    Yields:
        Version, the targets that it was checked for, and what is wrong in words.

    Raises:
        UsageError: A version has no lock.
        InfrastructureError: The index or uv fails.
    """
    reader = IndexReader(options)
    arguments = uv_index_arguments(options)
    for version in versions or [release.version for release in load_catalogue(folder)]:
        path = lock_path(version, folder)
        if path is None:
            raise UsageError(f"{version} has no lock", hint=f"make it with: bisect-torch envs lock {version}")
        text = read_lock(path)
        targets = tuple(_edge_targets(reader.torch_releases().get(version, ())))
        problems = check_lock(version, text, targets, reader.files, uv_arguments=arguments)
        missing = {platform for platform in LOCKED_PLATFORMS} - {target.platform for target in targets}
        problems += [f"the index has no wheel of torch {version} for {platform}" for platform in sorted(missing)]
        yield version, targets, problems


def _lock_one(version: str, files: Sequence[IndexFile], options: IndexOptions, folder: Path) -> Release:
    days = [file.uploaded.astimezone(datetime.timezone.utc).date() for file in files if file.uploaded is not None]
    if not days:
        raise InfrastructureError(
            f"the index gives no upload time for torch {version}", hint="make locks from an index that has them"
        )
    pythons = _pythons(files, LINUX_X86_64)
    if not pythons:
        raise InfrastructureError(
            f"the index has no wheel of torch {version} for Linux x86_64",
            hint="name another index with --index-url, or a version that it has",
        )
    # A universal lock covers the Pythons of every platform, so the oldest of all of them counts.
    oldest = sorted_pythons(name for platform in LOCKED_PLATFORMS for name in _pythons(files, platform))[0]
    text = make_lock(version, day=min(days), oldest_python=oldest, uv_arguments=uv_index_arguments(options))
    locked = {value for pin in parse_lock(text) if pin.project == "torch" for value in pin.hashes}
    first = Target(pythons[0], LINUX_X86_64)
    wheel = next(file for file in files if file.sha256 in locked and first.fits(file.filename))
    effective = effective_options(options)
    with web_session(effective.index_url, *effective.extra_index_urls) as session:
        facts = torch_wheel_facts(wheel.url, session)
    if Version(facts.version).public != version or facts.git_commit is None:
        raise InfrastructureError(
            f"{wheel.filename} says that it is {facts.version}, commit {facts.git_commit}",
            hint="the index serves another file under this name: name another with --index-url",
        )
    before = {release.version: release for release in _catalogue_if_any(folder)}
    notes = before[version].notes if version in before else ""
    release = Release(version, min(days), facts.git_commit, pythons, facts.cuda, facts.unpacked_bytes, notes)
    (folder / f"{version}.lock").write_text(text, encoding="utf-8")
    write_catalogue({**before, version: release}.values(), folder)
    return release


def _write_sizes(reader: IndexReader, folder: Path, note: Callable[[str], None]) -> None:
    """Write the sizes of every wheel that a lock names for one of the platforms."""
    pins = [
        pin for release in load_catalogue(folder) for pin in parse_lock(read_lock(folder / f"{release.version}.lock"))
    ]
    hashes = {value for pin in pins for value in pin.hashes}
    files = {
        file.sha256: file
        for project in sorted({pin.project for pin in pins})
        for file in reader.files(project)
        if file.sha256 in hashes and file.sha256 is not None and file.bytes is not None and _may_install(file)
    }
    before = known_wheels(folder) if (folder / "wheels.json").is_file() else {}
    options = effective_options(reader.options)
    known_to = (options.index_url, *options.extra_index_urls)
    with web_session(*known_to) as session, ThreadPoolExecutor(_CONNECTIONS) as pool:
        sizes = pool.map(lambda file: _unpacked(file, before, session), files.values())
        wheels = [_wheel(file, unpacked) for file, unpacked in zip(files.values(), sizes, strict=True)]
    write_wheels(wheels, folder)
    note(f"sizes of {len(wheels)} wheels")


def _may_install(file: IndexFile) -> bool:
    """Whether some Python on one of the platforms takes this file."""
    pythons = named_pythons(file.filename) or frozenset({"3.8", "3.11"})
    return any(Target(python, name).fits(file.filename) for name in LOCKED_PLATFORMS for python in pythons)


def _unpacked(file: IndexFile, before: Mapping[str, KnownWheel], session: requests.Session) -> int | None:
    known = before.get(file.sha256 or "")
    if known is not None and known.unpacked_bytes is not None:
        return known.unpacked_bytes
    return unpacked_bytes(file.url, session)


def _wheel(file: IndexFile, unpacked: int | None) -> KnownWheel:
    assert file.sha256 is not None
    assert file.bytes is not None
    name, version, _, _ = parse_wheel_filename(file.filename)
    return KnownWheel(name, version.public, file.filename, file.sha256, file.bytes, unpacked)


def _pythons(files: Iterable[IndexFile], platform: str) -> tuple[str, ...]:
    """Minor Pythons that have a wheel on a platform; free-threaded ones do not count."""
    return sorted_pythons(
        python
        for file in files
        for python in named_pythons(file.filename)
        if Target(python, platform).fits(file.filename)
    )


def _edge_targets(files: Iterable[IndexFile]) -> Iterator[Target]:
    """The oldest and the newest Python on each platform."""
    files = tuple(files)
    for platform in LOCKED_PLATFORMS:
        pythons = _pythons(files, platform)
        for python in dict.fromkeys((pythons[0], pythons[-1]) if pythons else ()):
            yield Target(python, platform)


def _catalogue_if_any(folder: Path) -> tuple[Release, ...]:
    return load_catalogue(folder) if (folder / "catalogue.toml").is_file() else ()

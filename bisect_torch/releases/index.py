"""Which torch builds a set of package indexes and find-links folders offers for this platform."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename
from packaging.version import InvalidVersion, Version

from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.catalogue import Release, load_catalogue
from bisect_torch.releases.index_file import IndexFile, shown_url
from bisect_torch.releases.locks import lock_path, read_lock
from bisect_torch.releases.pages import Outdated, find_links_files, index_files, kept_files, local_path
from bisect_torch.releases.platforms import (
    Target,
    fits_others,
    named_platforms,
    named_pythons,
    parsed_filename,
    platforms_here,
    shown_platforms,
    sorted_pythons,
    this_python,
)
from bisect_torch.releases.uv_settings import read_uv_settings

BACKEND_INDEX_BASE = "https://download.pytorch.org/whl"
"""PyTorch's own indexes stand below this address, one per backend. No other module names it."""

BACKEND_INDEX_VARIABLE = "BISECT_TORCH_BACKEND_INDEX"
"""Environment variable with another base address, for mirrors and tests."""


_HASH_DIGITS = 64


@dataclass(frozen=True)
class IndexOptions:
    """Where builds come from.

    Args:
        index_url: The main index; None takes that of uv's variables or settings, then the public default.
        extra_index_urls: More indexes; those of uv's variables and settings are added.
        find_links: Folders of wheels or pages of links; those of uv's variables and settings are added.
        offline: Ask no server: the catalogue, local folders, and what servers have answered before.
    """

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    offline: bool = False


def effective_options(options: IndexOptions, environment: Mapping[str, str] | None = None) -> IndexOptions:
    """The options with what uv's environment variables and settings add, in uv's order: options, variables, settings.

    ``index_url`` stays None where nothing names an index: the public default is then meant.

    Raises:
        UsageError: uv's settings are not valid.
    """
    variables = os.environ if environment is None else environment
    settings = read_uv_settings(variables)
    named = (options.index_url, variables.get("UV_DEFAULT_INDEX"), variables.get("UV_INDEX_URL"), settings.index_url)
    main = next((url for url in named if url), None)
    extra = [
        *options.extra_index_urls,
        *variables.get("UV_INDEX", "").split(),
        *variables.get("UV_EXTRA_INDEX_URL", "").split(),
        *settings.extra_index_urls,
    ]
    links = [
        *options.find_links,
        *(part for part in variables.get("UV_FIND_LINKS", "").split(",") if part),
        *settings.find_links,
    ]
    return replace(
        options,
        index_url=_without_name(main) if main else None,
        extra_index_urls=tuple(dict.fromkeys(_without_name(url) for url in extra)),
        find_links=tuple(dict.fromkeys(links)),
        offline=options.offline or variables.get("UV_OFFLINE", "").lower() in ("1", "true", "yes"),
    )


def uv_index_arguments(options: IndexOptions) -> list[str]:
    """The same places as arguments of ``uv pip``, so that what was listed is what gets installed.

    With several indexes uv stops at the first that has a package; a build that only the second has is then not found,
    so the strategy is named unless the user has chosen one.
    """
    options = effective_options(options)
    words: list[str] = []
    if options.index_url is not None:
        words += ["--default-index", options.index_url]
    for url in options.extra_index_urls:
        words += ["--index", url]
    for place in options.find_links:
        words += ["--find-links", place]
    if options.extra_index_urls and not _chosen_strategy():
        words += ["--index-strategy", "unsafe-best-match"]
    return [*words, "--offline"] if options.offline else words


def backend_index_url(backend: str) -> str | None:
    """PyTorch's own index for a backend (``cpu``, ``cu128``, ``rocm6.4``, ``xpu``); None for ``pypi``.

    Raises:
        UsageError: The backend does not name one index.
    """
    if backend == "pypi":
        return None
    if backend in ("auto", "rocm", "cuda", "cu") or not backend.replace(".", "").isalnum():
        hint = "name one index: cpu, xpu, or with its version as in cu128 and rocm6.4"
        raise UsageError(f"the torch backend {backend!r} does not say which index is meant", hint=hint)
    return own_index_url(backend)


def own_index_url(index: str) -> str:
    """The address of one of PyTorch's own indexes, below the address of the environment variable or PyTorch's own.

    Args:
        index: Path below it: ``cpu``, ``nightly/cpu``, ``test/cu128``.
    """
    return f"{(os.environ.get(BACKEND_INDEX_VARIABLE) or BACKEND_INDEX_BASE).rstrip('/')}/{index}"


def list_builds(
    options: IndexOptions,
    *,
    python: str | None = None,
    backend: str = "pypi",
    cache_dir: Path | None = None,
    timeout_s: float = 20.0,
    outdated: Outdated | None = None,
) -> tuple[Build, ...]:
    """The torch builds with a wheel for this platform, in release order; yanked ones and pre-releases too.

    Day, commit and lock come from the catalogue where the hash of a wheel shows that it is that release. An index that
    gives no hashes has no such proof; there the day alone is taken from the catalogue when the index gives none.

    Args:
        python: Minor version whose wheel's size is wanted; by default the newest that the build has.
        backend: ``pypi`` for the indexes of the options; another one for PyTorch's own index of that name.
        cache_dir: Where answers of indexes are kept for ten minutes.
        timeout_s: Longest silence of a server, in seconds.
        outdated: As for :func:`~bisect_torch.releases.pages.index_files`.

    Raises:
        InfrastructureError: An index cannot be read, or none of them has torch.
        UsageError: A find-links folder does not exist, or the backend is not understood.
    """
    options = effective_options(options)
    catalogue = {release.version: release for release in load_catalogue()}
    own_index = backend_index_url(backend)
    files = _torch_files(options, own_index, cache_dir, timeout_s, outdated)
    if options.offline:
        return _sorted([*builds_of(files, catalogue, python), *_catalogue_builds(catalogue.values(), python)])
    if not files:
        where = own_index or options.index_url
        raise InfrastructureError(
            f"the package index {shown_url(where)} has no torch" if where else "the default package index has no torch",
            hint="check the address, or add an index that has it with --extra-index-url",
        )
    return _sorted(builds_of(files, catalogue, python))


def catalogue_builds(python: str | None = None) -> tuple[Build, ...]:
    """The releases that can be known without asking an index."""
    return _sorted(_catalogue_builds(load_catalogue(), python))


def known_pythons() -> tuple[str, ...]:
    """Minor Pythons that take part: those of the catalogue and the one that runs the tool."""
    return sorted_pythons([this_python(), *(python for release in load_catalogue() for python in release.pythons)])


def _torch_files(
    options: IndexOptions,
    own_index: str | None,
    cache_dir: Path | None,
    timeout_s: float,
    outdated: Outdated | None,
) -> list[IndexFile]:
    files = [file for place in options.find_links if _usable(place, options) for file in _links(place, timeout_s)]
    if own_index is not None:
        indexes: list[str | None] = [own_index]
    else:
        indexes = [*options.extra_index_urls, options.index_url]
    for url in indexes:
        if options.offline and (url is None or not is_local(url)):
            found = kept_files("torch", url, cache_dir)
        else:
            found = index_files("torch", url, cache_dir=cache_dir, timeout_s=timeout_s, outdated=outdated) or ()
        files += found
        if found and _chosen_strategy() == "first-index":
            break
    return files


def _chosen_strategy() -> str | None:
    """How the user told uv to treat several indexes; None for not at all."""
    return os.environ.get("UV_INDEX_STRATEGY") or read_uv_settings(os.environ).index_strategy


def _links(place: str, timeout_s: float) -> tuple[IndexFile, ...]:
    return find_links_files("torch", place, timeout_s=timeout_s)


def _usable(place: str, options: IndexOptions) -> bool:
    return not options.offline or is_local(place)


def is_local(place: str) -> bool:
    """Whether a place is a folder, not an address that must be asked."""
    return "://" not in place or place.startswith("file:")


def _without_name(index: str) -> str:
    """``https://…`` for ``name=https://…``, as uv lets an index be named."""
    name, equals, url = index.partition("=")
    named = bool(equals) and "/" not in name and ":" not in name
    url = url if named else index
    return str(local_path(url)) if is_local(url) and not url.startswith("file:") else url


# --- from files to builds


def builds_of(files: Iterable[IndexFile], catalogue: Mapping[str, Release], python: str | None) -> list[Build]:
    """The builds that files of torch make up, in no order; without those that have no wheel for this platform.

    Only wheels for this platform count: most are not, and are told by how their names end.
    """
    grouped: dict[str, list[IndexFile]] = {}
    for file in files:
        if platforms_here().isdisjoint(shown_platforms(file.filename)):
            continue
        try:
            _, version, _, _ = parsed_filename(file.filename)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        grouped.setdefault(version.public, []).append(file)
    names = [file.filename for group in grouped.values() for file in group]
    candidates = sorted_pythons([*chain(*map(named_pythons, names)), *known_pythons()])
    here = platforms_here().intersection(chain(*map(named_platforms, names)))
    builds = (
        _build(version, group, catalogue.get(version), candidates, python, here) for version, group in grouped.items()
    )
    return [build for build in builds if build is not None]


def _build(
    version: str,
    files: list[IndexFile],
    release: Release | None,
    candidates: Iterable[str],
    python: str | None,
    here: frozenset[str] | None = None,
) -> Build | None:
    """The build, None when no wheel fits this platform.

    Args:
        files: For this platform.
        here: The platform tags of this machine that wheels name; all of them when None.
    """
    here = platforms_here() if here is None else here
    if not any(fits_others(file.filename) for file in files):
        candidates = set(candidates).intersection(chain(*(named_pythons(file.filename) for file in files)))
    pythons = tuple(name for name in sorted_pythons(candidates) if best_file(files, name, here) is not None)
    if not pythons:
        return None
    shown = best_file(files, python or pythons[-1], here)
    same = release is not None and _is_release(version, files)
    first = min((file.uploaded for file in files if file.uploaded is not None), default=None)
    catalogued = release.day if release is not None else None
    day = catalogued if first is None else first.astimezone(datetime.timezone.utc).date()
    return Build(
        kind=BuildKind.NIGHTLY if Version(version).is_devrelease else BuildKind.RELEASE,
        version=version,
        name=version,
        day=release.day if release is not None and same else day,
        git_commit=release.git_commit if release is not None and same else None,
        pythons=pythons,
        download_bytes=shown.bytes if shown is not None else None,
        yanked=all(file.yanked is not None for file in files),
        lock=lock_path(version) if same else None,
    )


def _is_release(version: str, files: Iterable[IndexFile]) -> bool:
    """Whether these are the files that the committed lock names."""
    path = lock_path(version)
    if path is None:
        return False
    text = read_lock(path)
    # No need to parse it: no other project's file has the hash of a file of torch.
    return any(f"--hash=sha256:{file.sha256}" in text for file in files if len(file.sha256 or "") == _HASH_DIGITS)


def best_file(files: Iterable[IndexFile], python: str, tags: frozenset[str] | None = None) -> IndexFile | None:
    """The file that an installer would choose for this Python here.

    Args:
        tags: See :class:`~bisect_torch.releases.platforms.Target`.
    """
    target = Target(python, tags=tags)
    ranked = []
    for file in files:
        rank = target.rank(file.filename)
        if rank is not None and _allows(file.requires_python, python):
            ranked.append((parsed_filename(file.filename)[1], rank, file))
    if not ranked:
        return None
    # A later local part is preferred, as installers do.
    newest = max(version for version, _, _ in ranked)
    return min(((rank, file) for version, rank, file in ranked if version == newest), key=lambda pair: pair[0])[1]


@lru_cache(maxsize=1024)
def _allows(requires_python: str | None, python: str) -> bool:
    if not requires_python:
        return True
    try:
        return SpecifierSet(requires_python).contains(f"{python}.99", prereleases=True)
    except InvalidSpecifier:
        return True


def _catalogue_builds(releases: Iterable[Release], python: str | None) -> list[Build]:
    from bisect_torch.releases.sizes import known_wheels

    torch = (wheel for wheel in known_wheels().values() if wheel.project == "torch")
    wheels = [wheel for wheel in torch if not platforms_here().isdisjoint(shown_platforms(wheel.filename))]
    builds = []
    for release in releases:
        files = [
            IndexFile(wheel.filename, "", sha256=wheel.sha256, bytes=wheel.bytes)
            for wheel in wheels
            if wheel.version == release.version
        ]
        build = _build(release.version, files, release, release.pythons, python)
        if build is not None:
            builds.append(replace(build, lock=lock_path(release.version), git_commit=release.git_commit))
    return builds


def _sorted(builds: Iterable[Build]) -> tuple[Build, ...]:
    """In release order; of two with the same version the first counts."""
    unique: dict[str, Build] = {}
    for build in builds:
        unique.setdefault(build.version, build)
    return tuple(sorted(unique.values(), key=lambda build: Version(build.version)))

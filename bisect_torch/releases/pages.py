"""A project's files on one package index or in one find-links place. What servers say is read in :mod:`served`."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from bisect_torch import own_digest
from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.parsed import record
from bisect_torch.releases.index_file import IndexFile

_CACHE_SECONDS = 600
_CACHE_SCHEMA = 2
_TIMEOUT_S = 20.0

Outdated = Callable[[InfrastructureError, str], None]
"""Told why an index could not be asked, and how old the answer is that is taken instead: ``3 hours``."""


def index_files(
    project: str,
    index_url: str | None,
    *,
    cache_dir: Path | None = None,
    timeout_s: float = _TIMEOUT_S,
    outdated: Outdated | None = None,
) -> tuple[IndexFile, ...] | None:
    """The wheels of a project on one index.

    Args:
        index_url: None for the public default.
        cache_dir: Where answers are kept; those of the last ten minutes are used without asking.
        timeout_s: Longest silence of the server, in seconds.
        outdated: Where the index fails, or has no such files any more, its last answer is taken, however old, and this
            is told. None takes no such answer.

    Returns:
        None when the index answers that it does not have the project.

    Raises:
        InfrastructureError: The index cannot be reached, refuses, or does not speak the Simple API.
    """
    cached = cache_dir / f"{_digest(project, index_url)}.json" if cache_dir is not None else None
    kept = _read_cache(cached) if cached is not None else None
    if kept is not None and kept.age_s < _CACHE_SECONDS:
        return kept.files
    # Only now: loading the libraries for it takes longer than all else that a run does to find its releases.
    from bisect_torch.releases import served

    if index_url is not None and urlsplit(index_url).scheme in ("", "file"):
        return _folder_index(project, index_url)
    try:
        files = served.index_page(project, index_url, timeout_s=timeout_s)
        if not files and kept is not None and outdated is not None:
            raise served.lost_project(project, index_url)
    except InfrastructureError as error:
        if kept is None or outdated is None:
            raise
        outdated(error, kept.age)
        return kept.files
    if files is None:
        return None
    # A page without files is more often an error page with a good status than an index without this project.
    if cached is not None and files:
        _write_cache(cached, files)
    return files


def kept_files(project: str, index_url: str | None, cache_dir: Path | None) -> tuple[IndexFile, ...]:
    """What an index answered last, however long ago; nothing is asked. Nothing where no answer is kept."""
    kept = None if cache_dir is None else _read_cache(cache_dir / f"{_digest(project, index_url)}.json")
    return () if kept is None else kept.files


def find_links_files(project: str, place: str, *, timeout_s: float = _TIMEOUT_S) -> tuple[IndexFile, ...]:
    """The wheels of a project in a find-links folder or on a page of links.

    Raises:
        UsageError: The folder does not exist.
        InfrastructureError: The page cannot be read.
    """
    if urlsplit(place).scheme in ("http", "https"):
        from bisect_torch.releases import served

        files = served.links_page(project, place, timeout_s=timeout_s)
        return tuple(file for file in files if _is_of(project, file.filename))
    folder = local_path(place)
    if not folder.is_dir():
        raise UsageError(f"the find-links folder {folder} does not exist", hint="check the path after --find-links")
    wheels = sorted(path for path in folder.glob("*.whl") if _is_of(project, path.name))
    return tuple(IndexFile(path.name, str(path), bytes=path.stat().st_size) for path in wheels)


def local_path(place: str) -> Path:
    """The path of a folder given as a path or as a ``file:`` address."""
    parts = urlsplit(place)
    return Path(unquote(parts.path)) if parts.scheme == "file" else Path(os.path.expanduser(place))


def _folder_index(project: str, place: str) -> tuple[IndexFile, ...] | None:
    """An index that is a folder with one sub-folder per project, each with an index.html."""
    root = local_path(place)
    if not root.is_dir():
        raise UsageError(
            f"the index folder {root} does not exist", hint="an address begins with https://; a folder must be there"
        )
    page = root / project / "index.html"
    if not page.is_file():
        return None
    base = urljoin(page.resolve().as_uri(), ".")
    from bisect_torch.releases import served

    return served.read_html(project, page.read_bytes(), base)


def _is_of(project: str, filename: str) -> bool:
    return filename.partition("-")[0].lower().replace("_", "-") == project


# --- cache


def _digest(project: str, index_url: str | None) -> str:
    return hashlib.sha256(f"{_CACHE_SCHEMA} {project} {index_url or ''}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class _Kept:
    """An answer of an index, and how old it is; one from the future is as old as can be."""

    files: tuple[IndexFile, ...]
    age_s: float

    @property
    def age(self) -> str:
        for unit, seconds in (("day", 86400), ("hour", 3600), ("minute", 60)):
            number = int(self.age_s // seconds) if self.age_s < float("inf") else 0
            if number:
                return f"{number} {unit}{'s' if number > 1 else ''}"
        return "some time"


def _read_cache(path: Path) -> _Kept | None:
    """What was kept; None when there is nothing, or nothing readable."""
    try:
        age = time.time() - path.stat().st_mtime
        rows = own_digest.from_json(path.read_bytes())["files"]
        files = tuple(
            record(IndexFile, {**row, "uploaded": row["uploaded"] and datetime.datetime.fromisoformat(row["uploaded"])})
            for row in rows
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return _Kept(files, age if age >= 0 else float("inf"))


def _write_cache(path: Path, files: Iterable[IndexFile]) -> None:
    rows = [{**asdict(file), "uploaded": file.uploaded and file.uploaded.isoformat()} for file in files]
    # A full or read-only disk costs the cache, not the answer.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        own_digest.write_json(path, {"files": rows})

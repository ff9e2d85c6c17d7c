"""Reads a project's files from one package index or one find-links place. Parsing is pypi-simple's."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import requests
from pypi_simple import (
    DistributionPackage,
    NoSuchProjectError,
    ProjectPage,
    PyPISimple,
    UnsupportedContentTypeError,
    UnsupportedRepoVersionError,
)
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from bisect_torch.errors import InfrastructureError, UsageError

_CACHE_SECONDS = 600
_CACHE_SCHEMA = 1
_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class IndexFile:
    """A wheel that an index or folder offers.

    Args:
        url: Where it can be downloaded; a path for a local folder.
        sha256: Hexadecimal, where the index gives it.
        bytes: Size, where the index gives it.
        uploaded: When, where the index gives it.
        yanked: The reason, possibly empty; None when it is not yanked.
    """

    filename: str
    url: str
    sha256: str | None = None
    bytes: int | None = None
    uploaded: datetime.datetime | None = None
    yanked: str | None = None
    requires_python: str | None = None


def web_session() -> requests.Session:
    """A session that asks three times where a connection is refused or a server overloaded, and waits just once."""
    session = requests.Session()
    retry = Retry(total=2, read=False, backoff_factor=0.2, status_forcelist=(429, 502, 503, 504), raise_on_status=False)
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    certificates = os.environ.get("SSL_CERT_FILE")  # the name that uv knows
    if certificates and not os.environ.get("REQUESTS_CA_BUNDLE"):
        session.verify = certificates
    return session


def shown_url(url: str) -> str:
    """The address without user name, password, query and fragment, fit for a message."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def index_files(
    project: str, index_url: str, *, cache_dir: Path | None = None, timeout_s: float = _TIMEOUT_S
) -> tuple[IndexFile, ...] | None:
    """The wheels of a project on one index.

    Args:
        cache_dir: Where answers of the last ten minutes are kept.
        timeout_s: Longest silence of the server, in seconds.

    Returns:
        None when the index answers that it does not have the project.

    Raises:
        InfrastructureError: The index cannot be reached, refuses, or does not speak the Simple API.
    """
    cached = cache_dir / f"{_digest(project, index_url)}.json" if cache_dir is not None else None
    if cached is not None:
        kept = _read_cache(cached)
        if kept is not None:
            return kept
    if urlsplit(index_url).scheme in ("", "file"):
        return _folder_index(project, index_url)
    try:
        # Leaving the client closes its session.
        with PyPISimple(index_url, session=web_session()) as client:
            page = client.get_project_page(project, timeout=timeout_s)
    except NoSuchProjectError:
        return None
    except (requests.RequestException, UnsupportedContentTypeError, UnsupportedRepoVersionError, ValueError) as error:
        raise _index_failed(index_url, project, error) from error
    files = _wheels(page)
    if cached is not None:
        _write_cache(cached, files)
    return files


def find_links_files(project: str, place: str, *, timeout_s: float = _TIMEOUT_S) -> tuple[IndexFile, ...]:
    """The wheels of a project in a find-links folder or on a page of links.

    Raises:
        UsageError: The folder does not exist.
        InfrastructureError: The page cannot be read.
    """
    if urlsplit(place).scheme in ("http", "https"):
        try:
            with web_session() as session:
                answer = session.get(place, timeout=timeout_s)
                answer.raise_for_status()
                page = ProjectPage.from_html(project, answer.content, base_url=answer.url)
        except (requests.RequestException, ValueError) as error:
            raise _index_failed(place, project, error) from error
        return tuple(file for file in _wheels(page) if _is_of(project, file.filename))
    folder = local_path(place)
    if not folder.is_dir():
        raise UsageError(f"the find-links folder {folder} does not exist")
    wheels = sorted(path for path in folder.glob("*.whl") if _is_of(project, path.name))
    return tuple(IndexFile(path.name, str(path), bytes=path.stat().st_size) for path in wheels)


def local_path(place: str) -> Path:
    """The path of a folder given as a path or as a ``file:`` address."""
    parts = urlsplit(place)
    return Path(unquote(parts.path)) if parts.scheme == "file" else Path(place).expanduser()


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
    return _wheels(ProjectPage.from_html(project, page.read_bytes(), base_url=base))


def _wheels(page: ProjectPage) -> tuple[IndexFile, ...]:
    return tuple(_file(package) for package in page.packages if package.filename.endswith(".whl"))


def _file(package: DistributionPackage) -> IndexFile:
    return IndexFile(
        filename=package.filename,
        url=package.url,
        sha256=(package.digests or {}).get("sha256"),
        bytes=package.size,
        uploaded=package.upload_time,
        yanked=(package.yanked_reason or "") if package.is_yanked else None,
        requires_python=package.requires_python,
    )


def _is_of(project: str, filename: str) -> bool:
    return filename.partition("-")[0].lower().replace("_", "-") == project


def _index_failed(url: str, project: str, error: Exception) -> InfrastructureError:
    where = shown_url(url)
    if isinstance(error, requests.HTTPError) and error.response is not None:
        status = error.response.status_code
        hint = "check user name and password" if status in (401, 403) else "try again later"
        if status == requests.codes.not_found:
            hint = "check the address"
        return InfrastructureError(f"the package index {where} answers status {status} for {project}", hint=hint)
    offline = "check the network and the address, or use --offline with what is in the catalogue"
    if isinstance(error, requests.Timeout):
        return InfrastructureError(f"the package index {where} does not answer in time", hint=offline)
    if isinstance(error, requests.RequestException) and not isinstance(error, ValueError):
        return InfrastructureError(f"the package index {where} cannot be reached: {_root_cause(error)}", hint=offline)
    return InfrastructureError(
        f"{where} does not answer like a package index: {type(error).__name__}",
        hint="the address must be that of a Simple API, often one that ends in /simple/",
    )


def _root_cause(error: BaseException) -> str:
    """The innermost reason: requests wraps urllib3, which wraps the system's error."""
    reason: object = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    return re.sub(r"^\w+\(host=[^)]*\): ", "", str(reason)) or type(error).__name__


# --- cache


def _digest(project: str, index_url: str) -> str:
    return hashlib.sha256(f"{_CACHE_SCHEMA} {project} {index_url}".encode()).hexdigest()[:32]


def _read_cache(path: Path) -> tuple[IndexFile, ...] | None:
    """What was kept, None when it is too old or not readable: then the index is asked again."""
    try:
        age = time.time() - path.stat().st_mtime
        if not 0 <= age < _CACHE_SECONDS:
            return None
        rows = json.loads(path.read_text(encoding="utf-8"))
        return tuple(
            IndexFile(**{**row, "uploaded": row["uploaded"] and datetime.datetime.fromisoformat(row["uploaded"])})
            for row in rows
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write_cache(path: Path, files: Iterable[IndexFile]) -> None:
    rows = [{**asdict(file), "uploaded": file.uploaded and file.uploaded.isoformat()} for file in files]
    # A full or read-only disk costs the cache, not the answer.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(rows, stream)
        os.replace(name, path)

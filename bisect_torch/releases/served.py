"""Asks package indexes and reads their answers. Parsing is pypi-simple's, whose own default index is used.

Loaded only when something must be asked or parsed.
"""

from __future__ import annotations

import datetime
import email.utils
import os
import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
from bs4.builder import ParserRejectedMarkup
from pypi_simple import (
    ACCEPT_ANY,
    PYPI_SIMPLE_ENDPOINT,
    DistributionPackage,
    NoSuchProjectError,
    ProjectPage,
    PyPISimple,
    UnsupportedContentTypeError,
    UnsupportedRepoVersionError,
)
from requests.auth import HTTPBasicAuth

from bisect_torch.errors import InfrastructureError
from bisect_torch.releases.index_file import IndexFile, shown_url
from bisect_torch.releases.patience import patiently

_NO_ANSWER = (
    requests.RequestException, UnsupportedContentTypeError, UnsupportedRepoVersionError, ValueError, KeyError,
    TypeError, AttributeError, RecursionError, ParserRejectedMarkup,
)  # fmt: skip
"""What asking raises, and what parsing raises for an answer that is no page of an index."""


_BEGINNING = 65536
"""Bytes of a page in which the first of its files is named."""


def index_page(project: str, index_url: str | None, *, timeout_s: float) -> tuple[IndexFile, ...] | None:
    """The wheels of a project on a served index; None when it does not have the project.

    Args:
        index_url: None for the public default.
        timeout_s: Longest silence of the server, in seconds.

    Raises:
        InfrastructureError: The index cannot be reached, refuses, or does not speak the Simple API.
    """
    url = index_url or PYPI_SIMPLE_ENDPOINT
    try:
        # Leaving the client closes its session.
        with PyPISimple(url, session=web_session()) as client:
            return _wheels(patiently(lambda: client.get_project_page(project, timeout=timeout_s)))
    except NoSuchProjectError:
        return None
    except _NO_ANSWER as error:
        raise _index_failed(url, project, error) from error


def reach(project: str, index_url: str | None, *, timeout_s: float) -> datetime.datetime | None:
    """Ask an index for the first bytes of a project's page, to see that it answers and has the project.

    Args:
        index_url: None for the public default.
        timeout_s: Longest silence of the server, in seconds; twice this for the whole answer.

    Returns:
        When it answered, by its own clock; None where it does not say.

    Raises:
        InfrastructureError: The index cannot be reached, refuses, does not have the project, or is no package index.
    """
    url = index_url or PYPI_SIMPLE_ENDPOINT

    def ask() -> tuple[bytes, str]:
        with web_session(url) as session:
            page = f"{url.rstrip('/')}/{project}/"
            with session.get(page, headers={"Accept": ACCEPT_ANY}, timeout=timeout_s, stream=True) as answer:
                answer.raise_for_status()
                return next(answer.iter_content(_BEGINNING), b""), answer.headers.get("Date", "")

    try:
        beginning, date = patiently(ask, total_s=2 * timeout_s)
        if f"{project}-".encode() not in beginning:
            raise ValueError(f"its page has no file of {project}")
    except _NO_ANSWER as error:
        raise _index_failed(url, project, error) from error
    try:
        return email.utils.parsedate_to_datetime(date).astimezone(datetime.timezone.utc)
    except ValueError:
        return None


def lost_project(project: str, index_url: str | None) -> InfrastructureError:
    """An index that had files of a project has none of them now."""
    where = shown_url(index_url or PYPI_SIMPLE_ENDPOINT)
    return InfrastructureError(f"the package index {where} has no {project} any more", hint="check the address")


def links_page(project: str, place: str, *, timeout_s: float) -> tuple[IndexFile, ...]:
    """All wheels that a page links to.

    Raises:
        InfrastructureError: The page cannot be read.
    """
    try:
        with web_session() as session:

            def ask() -> requests.Response:
                answer = session.get(place, timeout=timeout_s)
                answer.raise_for_status()
                return answer

            answer = patiently(ask)
            return read_html(project, answer.content, answer.url)
    except _NO_ANSWER as error:
        raise _index_failed(place, project, error) from error


def read_html(project: str, content: bytes, base_url: str) -> tuple[IndexFile, ...]:
    """The wheels of a project's page in HTML form."""
    return _wheels(ProjectPage.from_html(project, content, base_url=base_url))


def _without_user(url: str) -> str:
    """What is kept of wheels lies in files; :func:`web_session` knows name and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class _OnlyThere(requests.auth.AuthBase):
    """Names and passwords of indexes, each told to its own server alone: wheels may lie on another."""

    def __init__(self, index_urls: Iterable[str]) -> None:
        self._known = {
            _server(url): HTTPBasicAuth(unquote(parts.username or ""), unquote(parts.password or ""))
            for url in index_urls
            if "@" in (parts := urlsplit(url)).netloc
        }

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        answer = self._known.get(_server(request.url or ""))
        return request if answer is None else answer(request)


def _server(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]


def web_session(*index_urls: str | None) -> requests.Session:
    """A session that knows the certificates that uv is given. It asks once: see :func:`patiently`.

    Args:
        index_urls: Indexes whose names and passwords, where they have them, are told to their servers.
    """
    session = requests.Session()
    named = [url for url in index_urls if url is not None and "@" in urlsplit(url).netloc]
    if named:
        session.auth = _OnlyThere(named)
    certificates = os.environ.get("SSL_CERT_FILE")  # the name that uv knows
    if certificates and not os.environ.get("REQUESTS_CA_BUNDLE"):
        session.verify = certificates
    return session


def _wheels(page: ProjectPage) -> tuple[IndexFile, ...]:
    return tuple(_file(package) for package in page.packages if package.filename.endswith(".whl"))


def _file(package: DistributionPackage) -> IndexFile:
    return IndexFile(
        filename=package.filename,
        url=_without_user(package.url),
        sha256=(package.digests or {}).get("sha256"),
        bytes=package.size,
        uploaded=package.upload_time,
        yanked=(package.yanked_reason or "") if package.is_yanked else None,
        requires_python=package.requires_python,
    )


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

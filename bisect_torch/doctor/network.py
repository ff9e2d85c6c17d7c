"""The package indexes that a run asks, and the clock, which the first answer tells."""

from __future__ import annotations

import datetime
import os
import urllib.request
from collections.abc import Iterator

from bisect_torch.doctor.check import Asked, Check, Status
from bisect_torch.errors import BisectTorchError
from bisect_torch.releases import load_catalogue
from bisect_torch.releases.index import backend_index_url, effective_options, is_local
from bisect_torch.releases.index_file import shown_url
from bisect_torch.releases.pages import find_links_files, index_files

TIMEOUT_S = 5.0
"""Longest silence of an index; twice this for its whole answer."""

MOST_DRIFT_S = 300.0
"""Between this clock and that of an index: certificates and days of uploads bear some minutes."""


def indexes(asked: Asked) -> Iterator[Check]:
    """Each index by one small request, unless nothing may be asked."""
    index = effective_options(asked.index)
    if index.offline:
        yield Check("index", Status.OK, "not asked: offline", "a run with --offline takes what the store's cache has")
        yield from clock(None)
        return
    own = backend_index_url(asked.backend) if asked.backend not in ("auto", "rocm") else None
    urls = [own] if own is not None else [*index.extra_index_urls, index.index_url]
    answers: list[datetime.datetime | None] = []
    for url in urls:
        yield _ask(url, answers)
    for place in index.find_links:
        yield _links(place)
    yield from _proxies()
    yield from clock(next((answer for answer in answers if answer is not None), None))


def _ask(url: str | None, answers: list[datetime.datetime | None]) -> Check:
    name = "the default index" if url is None else shown_url(url)
    try:
        if url is not None and is_local(url):
            if index_files("torch", url) is None:
                return Check("index", Status.FAULT, f"{name} has no torch", "no release can be listed", _INDEX_FIX)
        else:
            from bisect_torch.releases import served

            answers.append(served.reach("torch", url, timeout_s=TIMEOUT_S))
    except BisectTorchError as error:
        means = "releases cannot be listed, and nothing can be downloaded"
        return Check("index", Status.FAULT, error.message, means, error.hint or _INDEX_FIX)
    return Check("index", Status.OK, f"{name} answers and has torch")


_INDEX_FIX = "bisect-torch doctor --index-url URL"


def _links(place: str) -> Check:
    try:
        count = len(find_links_files("torch", place, timeout_s=TIMEOUT_S))
    except BisectTorchError as error:
        return Check("index", Status.FAULT, error.message, "uv refuses it too", error.hint or "check --find-links")
    return Check("index", Status.OK, f"{shown_url(place) if '://' in place else place} has {count} wheels of torch")


def _proxies() -> Iterator[Check]:
    """Addresses without name and password."""
    found = {kind: shown_url(url) for kind, url in urllib.request.getproxies().items() if kind != "no"}
    if found:
        shown = ", ".join(f"{kind}: {url}" for kind, url in sorted(found.items()))
        yield Check("proxy", Status.OK, shown, "the tool and uv go through it; cells do where it holds no password")


def clock(served: datetime.datetime | None) -> Iterator[Check]:
    """This machine's clock against an index's, or at least against the newest release that the tool knows.

    Args:
        served: When an index answered, by its own clock.
    """
    now = datetime.datetime.now(datetime.timezone.utc)
    newest = max(release.day for release in load_catalogue())
    shown = now.strftime("%Y-%m-%d %H:%M UTC")
    means = "certificates count as expired or not yet valid, and locks of the wrong day are made"
    fix = "sudo timedatectl set-ntp true" if os.path.exists("/run/systemd/system") else "set the clock"
    if served is not None and abs((now - served).total_seconds()) > MOST_DRIFT_S:
        told = served.strftime("%Y-%m-%d %H:%M UTC")
        yield Check("clock", Status.WARNING, f"{shown}; the index says {told}", means, fix)
    elif now.date() < newest:
        yield Check("clock", Status.WARNING, f"{shown}, before the newest release, of {newest}", means, fix)
    else:
        yield Check("clock", Status.OK, shown)

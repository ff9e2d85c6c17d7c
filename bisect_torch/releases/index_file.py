"""A wheel as an index offers it, and its address as it may be shown."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit


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


def shown_url(url: str) -> str:
    """The address without user name, password, query and fragment, fit for a message."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

"""The committed catalogue: what is known about each release without asking an index."""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from bisect_torch.errors import InfrastructureError
from bisect_torch.parsed import record
from bisect_torch.shipped import shipped

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

OLDEST_RELEASE = "2.4.1"
"""The first release that has a lock, and where a range without a beginning begins."""

_HEADER = (
    "# Releases of torch that have a lock in this folder. Made by `bisect-torch envs lock`, which keeps the notes.\n"
    "# day: of the first upload. cuda: of the Linux x86_64 wheels of the default index. pythons: on Linux x86_64.\n"
    "# unpacked_bytes: of the torch wheel for the oldest Python on Linux x86_64, without its dependencies.\n"
)


@dataclass(frozen=True)
class Release:
    """A row of the catalogue.

    Args:
        version: ``2.9.1``.
        day: Day of its first upload (UTC).
        git_commit: ``torch.version.git_version``: full hash.
        pythons: Minor Pythons with a Linux x86_64 wheel, ascending.
        cuda: CUDA version of the Linux x86_64 wheels of the default index: ``12.8``.
        unpacked_bytes: Size of the unpacked torch wheel on Linux x86_64 for the oldest Python, without dependencies.
        notes: What a reader of a report should know about this release.
    """

    version: str
    day: datetime.date
    git_commit: str
    pythons: tuple[str, ...]
    cuda: str | None
    unpacked_bytes: int | None = None
    notes: str = ""


def load_catalogue(folder: Path | None = None) -> tuple[Release, ...]:
    """All rows in release order.

    Args:
        folder: Where ``catalogue.toml`` lies; by default the folder that ships with the tool.

    Raises:
        InfrastructureError: The file is missing or damaged.
    """
    return _load((folder or envs_folder()) / "catalogue.toml")


def envs_folder() -> Path:
    """The folder of the catalogue and the locks.

    Raises:
        InfrastructureError: The installation is incomplete.
    """
    try:
        return shipped("envs")
    except FileNotFoundError as error:
        raise InfrastructureError(str(error), hint="install bisect-torch again") from None


@lru_cache(maxsize=4)
def _load(path: Path) -> tuple[Release, ...]:
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["release"]
        releases = [_release(row) for row in rows]
        return tuple(sorted(releases, key=lambda release: Version(release.version)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InfrastructureError(
            f"the catalogue of releases cannot be read: {path}: {error}", hint="install bisect-torch again"
        ) from None


def _release(row: dict[str, Any]) -> Release:
    pythons = row["pythons"]
    if not all(re.fullmatch(r"\d+\.\d+", python) for python in pythons):
        raise ValueError(f"pythons = {pythons!r:.60}")
    return record(Release, {"cuda": None, **row, "pythons": tuple(pythons)})


def write_catalogue(releases: Iterable[Release], folder: Path) -> None:
    """Write the rows, in release order, as the file that :func:`load_catalogue` reads."""
    rows = []
    for release in sorted(releases, key=lambda release: Version(release.version)):
        lines = [
            "[[release]]",
            f"version = {json.dumps(release.version)}",
            f"day = {release.day.isoformat()}",
            f"git_commit = {json.dumps(release.git_commit)}",
            f"pythons = {json.dumps(list(release.pythons))}",
        ]
        if release.cuda is not None:
            lines.append(f"cuda = {json.dumps(release.cuda)}")
        if release.unpacked_bytes is not None:
            lines.append(f"unpacked_bytes = {release.unpacked_bytes}")
        if release.notes:
            lines.append(f"notes = {json.dumps(release.notes)}")
        rows.append("\n".join(lines))
    (folder / "catalogue.toml").write_text("\n".join([_HEADER, "\n\n".join(rows), ""]), encoding="utf-8")
    _load.cache_clear()

"""What is remembered of nightly wheels: they leave their index after about two months, and HTML says little of them."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from packaging.utils import parse_wheel_filename

from bisect_torch import own_digest
from bisect_torch.errors import InfrastructureError
from bisect_torch.locked_file import locked
from bisect_torch.parsed import record
from bisect_torch.releases.pages import IndexFile
from bisect_torch.releases.sizes import KnownWheel

_SCHEMA = 1


@dataclass(frozen=True)
class SeenWheel:
    """One wheel of torch, as it was seen on one of PyTorch's own indexes.

    Args:
        index: ``nightly/cpu``.
        url: Where it could be downloaded.
        sha256: Hexadecimal; None where the index gave none.
        bytes: Size, where it is known.
        day: ISO day in its version; None for a release candidate.
        git_commit: ``torch.version.git_version`` inside, once it was read.
        first_seen: ISO day of the first sight.
        yanked: The reason, possibly empty; None when it was not withdrawn when it was last seen.
    """

    index: str
    filename: str
    url: str
    sha256: str | None
    bytes: int | None
    day: str | None
    git_commit: str | None
    first_seen: str
    yanked: str | None = None
    requires_python: str | None = None

    @property
    def key(self) -> tuple[str, str, str | None]:
        """An index may replace a release candidate's file by another under the same name."""
        return self.index, self.filename, self.sha256

    @property
    def file(self) -> IndexFile:
        return IndexFile(
            self.filename,
            self.url,
            sha256=self.sha256,
            bytes=self.bytes,
            yanked=self.yanked,
            requires_python=self.requires_python,
        )


class NightlyLedger:
    """The file in the store. What it holds is only ever added to.

    Args:
        path: Of the file; None keeps nothing beyond this process.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kept: dict[tuple[str, str, str | None], SeenWheel] = {}

    def wheels(self, index: str | None = None) -> tuple[SeenWheel, ...]:
        """All that is remembered, in the order of first sight; of one index where it is named.

        Raises:
            InfrastructureError: The file cannot be read.
        """
        kept = self._read()
        return tuple(wheel for wheel in kept.values() if index is None or wheel.index == index)

    def add(self, seen: Iterable[SeenWheel]) -> None:
        """Remember wheels; what was known of one and is not known now stays.

        Raises:
            InfrastructureError: The file cannot be read or written.
        """
        seen = tuple(seen)
        with self._guard():
            kept = self._read()
            added = {wheel.key: _joined(kept.get(wheel.key), wheel) for wheel in seen}
            if all(kept.get(key) == wheel for key, wheel in added.items()):
                return
            self._write({**kept, **added})

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        if self._path is None:
            yield
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self._path.with_name(f"{self._path.name}.lock")):
                yield
        except OSError as error:
            raise self._failed("written", error) from error

    def _read(self) -> dict[tuple[str, str, str | None], SeenWheel]:
        if self._path is None:
            return self._kept
        try:
            table = own_digest.from_json(self._path.read_bytes(), also_without=True)
            if table["schema"] != _SCHEMA:
                raise ValueError(f"schema {table['schema']} is not {_SCHEMA}")
            wheels = [record(SeenWheel, row) for row in table["wheels"]]
            for wheel in wheels:
                parse_wheel_filename(wheel.filename)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._failed("read", error) from None
        return {wheel.key: wheel for wheel in wheels}

    def _write(self, wheels: Mapping[tuple[str, str, str | None], SeenWheel]) -> None:
        if self._path is None:
            self._kept = dict(wheels)
            return
        own_digest.write_json(self._path, {"schema": _SCHEMA, "wheels": [asdict(wheel) for wheel in wheels.values()]})

    def _failed(self, what: str, error: Exception) -> InfrastructureError:
        return InfrastructureError(
            f"the ledger of nightly builds cannot be {what}: {self._path}: {error}",
            hint="nothing in it was changed; move it away to begin a new one",
        )


def seen_wheel(index: str, file: IndexFile, day: datetime.date | None) -> SeenWheel:
    """A wheel that an index offers today."""
    return SeenWheel(
        index=index,
        filename=file.filename,
        url=file.url.partition("#")[0],
        sha256=file.sha256,
        bytes=file.bytes,
        day=None if day is None else day.isoformat(),
        git_commit=None,
        first_seen=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        yanked=file.yanked,
        requires_python=file.requires_python,
    )


def remembered_sizes(path: Path) -> dict[str, KnownWheel]:
    """SHA-256 to wheel, for those whose size is known, for :func:`~bisect_torch.releases.sizes.locked_wheels`.

    Raises:
        InfrastructureError: The file cannot be read.
    """
    return {
        wheel.sha256: KnownWheel(
            "torch", parse_wheel_filename(wheel.filename)[1].public, wheel.filename, wheel.sha256, wheel.bytes
        )
        for wheel in NightlyLedger(path).wheels()
        if wheel.sha256 is not None and wheel.bytes is not None
    }


def _joined(before: SeenWheel | None, now: SeenWheel) -> SeenWheel:
    if before is None:
        return now
    return replace(
        now,
        bytes=now.bytes if now.bytes is not None else before.bytes,
        git_commit=now.git_commit or before.git_commit,
        first_seen=before.first_seen,
    )

"""What is remembered of nightly wheels: they leave their index after about two months, and HTML says little of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from packaging.utils import parse_wheel_filename

from bisect_torch import own_digest
from bisect_torch.errors import InfrastructureError
from bisect_torch.parsed import record
from bisect_torch.releases.index_file import IndexFile
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
        """As an index lists it."""
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

    Where it cannot be written, what is added is known to this object alone, and :attr:`unkept` says why: the run goes
    on, and another one will have to ask again.

    Args:
        path: Of the file; None keeps nothing beyond this process.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._own: dict[tuple[str, str, str | None], SeenWheel] = {}
        self.unkept: str | None = None

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
            InfrastructureError: The file cannot be read.
        """
        seen = tuple(seen)
        if self._path is None:
            self._own.update(_added(self._own, seen))
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            import filelock  # as slow to load as all the rest of a run that installs nothing

            with filelock.FileLock(self._path.with_name(f"{self._path.name}.lock")):
                kept = self._read()
                added = _added(kept, seen)
                if not all(kept.get(key) == wheel for key, wheel in added.items()):
                    rows = [asdict(wheel) for wheel in {**kept, **added}.values()]
                    own_digest.write_json(self._path, {"schema": _SCHEMA, "wheels": rows})
        except OSError as error:
            self.unkept = error.strerror or str(error)
            self._own.update(_added(self._read(), seen))

    def _read(self) -> dict[tuple[str, str, str | None], SeenWheel]:
        return {**self._of_file(), **self._own}

    def _of_file(self) -> dict[tuple[str, str, str | None], SeenWheel]:
        if self._path is None:
            return {}
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
            raise InfrastructureError(
                f"the ledger of nightly builds cannot be read: {self._path}: {error}",
                hint="nothing in it was changed; move it away to begin a new one",
            ) from None
        return {wheel.key: wheel for wheel in wheels}


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


def _added(
    kept: Mapping[tuple[str, str, str | None], SeenWheel], seen: Iterable[SeenWheel]
) -> dict[tuple[str, str, str | None], SeenWheel]:
    return {wheel.key: _joined(kept.get(wheel.key), wheel) for wheel in seen}


def _joined(before: SeenWheel | None, now: SeenWheel) -> SeenWheel:
    if before is None:
        return now
    return replace(
        now,
        bytes=now.bytes if now.bytes is not None else before.bytes,
        git_commit=now.git_commit or before.git_commit,
        first_seen=before.first_seen,
    )

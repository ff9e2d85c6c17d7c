"""How much a lock downloads and unpacks on a platform. ``envs/wheels.json`` has the sizes of the locked wheels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from bisect_torch.errors import InfrastructureError
from bisect_torch.parsed import record
from bisect_torch.releases.catalogue import envs_folder
from bisect_torch.releases.index_file import IndexFile
from bisect_torch.releases.locks import Pin
from bisect_torch.releases.platforms import Target

_SCHEMA = 1
_UNPACKED_RATIO = 3.0
"""Unpacked bytes per downloaded byte, for a wheel whose unpacked size is not known."""


@dataclass(frozen=True)
class KnownWheel:
    """A wheel whose size is known.

    Args:
        project: Normalised name.
        version: Without the local part.
        sha256: Hexadecimal.
        bytes: To download.
        unpacked_bytes: On disk, where known.
    """

    project: str
    version: str
    filename: str
    sha256: str
    bytes: int
    unpacked_bytes: int | None = None


@dataclass(frozen=True)
class LockedWheel:
    """The wheel that a pin of a lock installs on a target; ``wheel`` is None when no known wheel fits."""

    pin: Pin
    wheel: KnownWheel | None


@dataclass(frozen=True)
class LockSize:
    """What a lock needs on a target.

    Args:
        download_bytes: Of all wheels whose size is known.
        unpacked_bytes: The same on disk; estimated for wheels where only the download is known.
        unknown: Names of packages of unknown size.
    """

    download_bytes: int
    unpacked_bytes: int
    unknown: tuple[str, ...] = ()


def known_wheels(folder: Path | None = None) -> Mapping[str, KnownWheel]:
    """The committed table: SHA-256 to wheel, for the platforms that the locks are checked for.

    Raises:
        InfrastructureError: The table is missing or damaged.
    """
    return _load((folder or envs_folder()) / "wheels.json")


@lru_cache(maxsize=4)
def _load(path: Path) -> Mapping[str, KnownWheel]:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["schema"] != _SCHEMA:
            raise ValueError(f"schema {table['schema']} is not {_SCHEMA}")
        return {
            sha256: record(KnownWheel, vars(_known(str(filename), sha256, size, unpacked)))
            for sha256, (filename, size, unpacked) in table["wheels"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InfrastructureError(
            f"the table of wheel sizes cannot be read: {path}: {error}", hint="install bisect-torch again"
        ) from None


def write_wheels(wheels: Iterable[KnownWheel], folder: Path) -> None:
    """Write the table that :func:`known_wheels` reads, one wheel a line, sorted."""
    rows = [
        f"{json.dumps(wheel.sha256)}: {json.dumps([wheel.filename, wheel.bytes, wheel.unpacked_bytes])}"
        for wheel in sorted(wheels, key=lambda wheel: (wheel.filename, wheel.sha256))
    ]
    inside = ",\n".join(rows)
    (folder / "wheels.json").write_text(f'{{"schema": {_SCHEMA}, "wheels": {{\n{inside}\n}}}}\n', encoding="utf-8")
    _load.cache_clear()


def wheels_of_index(files: Iterable[IndexFile]) -> Mapping[str, KnownWheel]:
    """The same kind of table from the answer of an index, for locks made on the fly."""
    return {
        file.sha256: _known(file.filename, file.sha256, file.bytes, None)
        for file in files
        if file.sha256 is not None and file.bytes is not None
    }


def locked_wheels(pins: Iterable[Pin], target: Target, known: Mapping[str, KnownWheel]) -> tuple[LockedWheel, ...]:
    """For each pin that applies on the target, the wheel that an installer chooses.

    Args:
        known: From :func:`known_wheels`, :func:`wheels_of_index`, or both together.
    """
    return tuple(LockedWheel(pin, _chosen(pin, target, known)) for pin in pins if pin.applies(target))


def lock_size(wheels: Iterable[LockedWheel], present: frozenset[str] = frozenset()) -> LockSize:
    """Sum over wheels, each counted once however many locks have it.

    Args:
        wheels: Of one lock or of many.
        present: SHA-256 of wheels that need not be downloaded again.
    """
    needed = {locked.wheel.sha256: locked.wheel for locked in wheels if locked.wheel is not None}
    missing = [wheel for sha256, wheel in needed.items() if sha256 not in present]
    return LockSize(
        download_bytes=sum(wheel.bytes for wheel in missing),
        unpacked_bytes=sum(_unpacked(wheel) for wheel in missing),
        unknown=tuple(sorted({locked.pin.project for locked in wheels if locked.wheel is None})),
    )


def _unpacked(wheel: KnownWheel) -> int:
    return wheel.unpacked_bytes if wheel.unpacked_bytes is not None else int(wheel.bytes * _UNPACKED_RATIO)


def _chosen(pin: Pin, target: Target, known: Mapping[str, KnownWheel]) -> KnownWheel | None:
    ranked = []
    for sha256 in pin.hashes:
        wheel = known.get(sha256)
        rank = target.rank(wheel.filename) if wheel is not None else None
        if wheel is not None and rank is not None:
            ranked.append((rank, wheel))
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _known(filename: str, sha256: str, size: int, unpacked: int | None) -> KnownWheel:
    name, version, _, _ = parse_wheel_filename(filename)
    return KnownWheel(canonicalize_name(name), version.public, filename, sha256, size, unpacked)

"""Files that carry the digest of their own bytes, so that a single changed bit is noticed when they are read back.

The digest stands in the file after a mark. It is that of all bytes of the file, with zeros in the digest's own place.
A file without the mark has no digest: it was written by an older version, or by another program.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from bisect_torch import temporary

_MARK = "bisect-torch-digest:"
_DIGITS = 32
BLANK = _MARK + "0" * _DIGITS
"""What stands where the digest will be: the last mark of the file."""

_KEY = "digest"


def filled(data: bytes) -> bytes:
    """The bytes of a file that holds :data:`BLANK`, with the digest in its place.

    Raises:
        ValueError: It does not hold it.
    """
    start, digest = _digest_for(data)
    return data[:start] + digest + data[start + _DIGITS :]


def _digest_for(data: bytes | mmap.mmap) -> tuple[int, bytes]:
    place = data.rfind(BLANK.encode())
    if place < 0:
        raise ValueError("there is no place for the digest")
    start = place + len(_MARK)
    return start, _digest(data, start)


def fill(file: BinaryIO) -> None:
    """As :func:`filled`, of a file that is open for reading and writing, in its place.

    Raises:
        ValueError: It does not hold :data:`BLANK`.
        OSError: It cannot be read or written.
    """
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start, digest = _digest_for(data)
    file.seek(start)
    file.write(digest)


def last_mark(data: bytes) -> bytes | None:
    """The last mark in a text, with its digest; of a text that ends with its own digest, that. None without a mark."""
    place = data.rfind(_MARK.encode())
    return None if place < 0 else data[place : place + len(BLANK)]


def fits(data: bytes, carried: bytes | None) -> bool | None:
    """Whether the bytes of a file fit the digest that it carries; None when it carries none.

    Args:
        carried: What stands in its place for the digest, with the mark. Any other mark in the file is none of its own:
            a results file holds the texts of locks, which may have theirs.
    """
    if carried is None:
        return None
    place = data.rfind(carried)
    if len(carried) != len(BLANK) or not carried.startswith(_MARK.encode()) or place < 0:
        return False
    start = place + len(_MARK)
    return data[start : start + _DIGITS] == _digest(data, start)


def _digest(data: bytes | mmap.mmap, start: int) -> bytes:
    state = hashlib.blake2b(digest_size=_DIGITS // 2)
    with memoryview(data) as whole, whole[:start] as before, whole[start + _DIGITS :] as after:
        for part in (before, b"0" * _DIGITS, after):
            state.update(part)
    return state.hexdigest().encode()


def to_json(values: Mapping[str, Any]) -> bytes:
    """A JSON object that carries its digest, as its last value."""
    return filled(json.dumps({**values, _KEY: BLANK}, separators=(",", ":")).encode() + b"\n")


def from_json(data: bytes, *, also_without: bool = False) -> dict[str, Any]:
    """The object, without the digest.

    Args:
        also_without: One without a digest is read too: an older version wrote it.

    Raises:
        ValueError: It is no JSON object, has no digest, or does not fit it.
    """
    try:
        values = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    marks = (text for text in values.values() if isinstance(text, str) and last_mark(text.encode()) == text.encode())
    carried = values.pop(_KEY) if _KEY in values else next(marks, None)  # the name may be what was damaged
    sound = fits(data, None if carried is None else str(carried).encode())
    if sound is False or (sound is None and not also_without):
        raise ValueError("it does not fit its digest" if sound is False else "it has no digest")
    return values


def beginning(data: bytes, until: str) -> dict[str, Any]:
    """The first members of an object that :func:`to_json` wrote, without reading the others: a megabyte is slow.

    Args:
        until: The first name that is left out, at the top; none of the members before it may have one of that name.

    Raises:
        ValueError: It is no such object, or does not fit its digest.
    """
    if not fits(data, last_mark(data)):
        raise ValueError("it does not fit its digest")
    values = json.loads(data[: data.index(b',"%b":' % until.encode())] + b"}")
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    return values


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write an object with its digest, whole or not at all."""
    made = path.with_name(f"{path.name}~{temporary.owner()}-{threading.get_native_id()}")
    try:
        made.write_bytes(to_json(values))
        os.replace(made, path)
    except OSError as error:
        error.filename = error.filename or os.fspath(path)  # a write alone does not say of which file
        raise
    finally:
        made.unlink(missing_ok=True)


def read_kept(path: Path) -> dict[str, Any] | None:
    """What is kept for speed alone; None when it is not there, damaged or cannot be read: it is then made anew."""
    try:
        return from_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def write_kept(path: Path, values: Mapping[str, Any]) -> str | None:
    """Keep what would only save time another day. A full disk costs no more than that: why it is not kept, or None."""
    try:
        write_json(path, values)
    except OSError as error:
        return error.strerror or str(error)
    return None

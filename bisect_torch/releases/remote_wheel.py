"""What stands inside a wheel on a server, read with range requests: a few hundred kilobytes in place of 800 MB."""

from __future__ import annotations

import ast
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import requests

from bisect_torch.errors import InfrastructureError
from bisect_torch.releases.index_file import shown_url
from bisect_torch.releases.patience import PASSING, patiently

_TIMEOUT_S = 30.0
_BLOCK = 1 << 16
_LONGEST_SOURCE = 1 << 20
"""Bytes: a few that were damaged can claim to unpack to anything."""

# What zipfile, zlib and ast raise for bytes that are no sound archive, and for source that is none.
_NO_SUCH_WHEEL = (
    zipfile.BadZipFile, zlib.error, struct.error, KeyError, ValueError, SyntaxError, EOFError, OverflowError,
    NotImplementedError, RuntimeError, MemoryError,
)  # fmt: skip


@dataclass(frozen=True)
class TorchWheelFacts:
    """Facts of a torch wheel.

    Args:
        version: ``torch.__version__`` as it would be imported: ``2.9.1+cu128``.
        git_commit: ``torch.version.git_version``.
        cuda: ``torch.version.cuda``, None for a build without it.
        unpacked_bytes: Sum of the sizes of all its files.
        download_bytes: Of the wheel itself.
    """

    version: str
    git_commit: str | None
    cuda: str | None
    unpacked_bytes: int
    download_bytes: int


class RangeFile(io.RawIOBase):
    """A file on a web server that can be read at any place; each read is one range request.

    Raises:
        InfrastructureError: The server does not answer, or does not know ranges.
    """

    def __init__(self, url: str, session: requests.Session) -> None:
        super().__init__()
        self._url = url
        self._session = session
        self._place = 0
        self._size = self._ask(0, 0)[1]

    def _ask(self, first: int, last: int) -> tuple[bytes, int]:
        """The bytes from first to last, inclusive, and the size of the whole file."""
        try:
            answer, content = patiently(lambda: self._once(first, last))
        except requests.RequestException as error:
            raise InfrastructureError(
                f"cannot read {shown_url(self._url)}: {_why(error)}", hint="`bisect-torch doctor` looks at the index"
            ) from error
        total = answer.headers.get("Content-Range", "").rpartition("/")[2]
        if not total.isdigit() or len(content) != last - first + 1:
            raise InfrastructureError(
                f"{shown_url(self._url)} gives a damaged answer to a range request",
                hint="the same line tries again; another index is named with --index-url",
            )
        return content, int(total)

    def _once(self, first: int, last: int) -> tuple[requests.Response, bytes]:
        answer = self._session.get(
            self._url,
            headers={"Range": f"bytes={first}-{last}", "Accept-Encoding": "identity"},
            timeout=_TIMEOUT_S,
            stream=True,
        )
        with answer:
            if answer.status_code in PASSING:
                answer.raise_for_status()
            if answer.status_code != requests.codes.partial_content:
                raise InfrastructureError(
                    f"{shown_url(self._url)} answers a range request with status {answer.status_code}",
                    hint="the server must support HTTP range requests",
                )
            return answer, answer.content

    @property
    def size(self) -> int:
        """Of the whole file, in bytes."""
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        last = min(self._place + len(buffer), self._size) - 1
        if last < self._place:
            return 0
        content, _ = self._ask(self._place, last)
        buffer[: len(content)] = content
        self._place += len(content)
        return len(content)


def torch_wheel_facts(url: str, session: requests.Session) -> TorchWheelFacts:
    """Read ``torch/version.py`` and the table of contents of a torch wheel, without downloading it.

    Raises:
        InfrastructureError: The server does not answer, knows no ranges, or what it has is not a torch wheel.
    """
    with _remote_archive(url, session) as (archive, size):
        unpacked = sum(entry.file_size for entry in archive.infolist())
        with archive.open("torch/version.py") as source:
            values = _literals(source.read(_LONGEST_SOURCE).decode("utf-8"))
        version = values["__version__"]
    return TorchWheelFacts(version, values.get("git_version"), values.get("cuda"), unpacked, size)


def unpacked_bytes(url: str, session: requests.Session) -> int:
    """Sum of the sizes of all files in a remote wheel.

    Raises:
        InfrastructureError: The server does not answer, knows no ranges, or what it has is not a wheel.
    """
    with _remote_archive(url, session) as (archive, _):
        return sum(entry.file_size for entry in archive.infolist())


@contextmanager
def _remote_archive(url: str, session: requests.Session) -> Iterator[tuple[zipfile.ZipFile, int]]:
    """The archive and its size in bytes."""
    try:
        file = RangeFile(url, session)
        with zipfile.ZipFile(io.BufferedReader(file, _BLOCK)) as archive:
            yield archive, file.size
    except _NO_SUCH_WHEEL as error:
        said = str(error).partition("\n")[0]
        raise InfrastructureError(
            f"{shown_url(url)} is not the wheel that it should be: {said}",
            hint="the index serves another file under this name: name another with --index-url",
        ) from error


def _why(error: requests.RequestException) -> str:
    if error.response is not None:
        return f"status {error.response.status_code}"
    return type(error).__name__


def _literals(source: str) -> dict[str, str]:
    """Names at the top of a module that are bound to string literals, with or without an annotation."""
    values: dict[str, str] = {}
    for statement in ast.parse(source).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        for target in targets:
            value = getattr(statement, "value", None)
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                values[target.id] = value.value
    return values

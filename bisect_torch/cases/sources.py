"""The text of what a run ran, so that a results file can show it to somebody who has nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from bisect_torch.cases.imports import read_bytes
from bisect_torch.errors import UsageError
from bisect_torch.model import CaseFile, CaseKind

LARGEST_BYTES = 256 * 1024
"""A file beyond this is not kept: nobody reads it in a report."""


def sources(file: CaseFile) -> Mapping[str, str]:
    """SHA-256 to text of a case file and of the neighbours that it imports; of a command, of the files it names.

    What is larger than :data:`LARGEST_BYTES`, is no UTF-8, or has changed since it was read is left out: a text stands
    under its own hash, or not at all. Of a suite of tests nothing is kept: its project's commit says which it was.

    Raises:
        UsageError: A file cannot be read.
    """
    return dict(_texts(file))


def _texts(file: CaseFile) -> Iterator[tuple[str, str]]:
    if file.kind is CaseKind.PYTEST:
        return
    folder = file.path if file.kind is CaseKind.COMMAND else file.path.parent
    named = {folder / name: digest for name, digest in file.local_modules.items()}
    if file.kind is not CaseKind.COMMAND:
        named[file.path] = file.sha256
    for path, digest in named.items():
        text = _text(path, digest)
        if text is not None:
            yield digest, text


def text_of(file: CaseFile) -> str | None:
    """The text of a file of tests, which is not kept; None as in :func:`sources`, and where it is gone by now."""
    try:
        return _text(file.path, file.sha256)
    except UsageError:
        return None


def _text(path: Path, digest: str) -> str | None:
    content = read_bytes(path)
    if len(content) > LARGEST_BYTES or hashlib.sha256(content).hexdigest() != digest:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None

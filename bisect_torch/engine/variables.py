"""Environment variables that may change what a cell computes: with other values it is another cell."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bisect_torch.engine.request import RunRequest
from bisect_torch.environments import reaches_computing
from bisect_torch.model import Case
from bisect_torch.redaction import without_secrets

_OF_THE_SESSION = frozenset(
    {
        "COLUMNS", "CUDA_VISIBLE_DEVICES", "DISPLAY", "HOME", "HOSTNAME", "LINES", "LOGNAME", "OLDPWD", "PATH", "PWD",
        "SHELL", "SHLVL", "TEMP", "TERM", "TMP", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR",
        "TRITON_CACHE_DIR", "USER", "VIRTUAL_ENV", "_",
    }
)  # fmt: skip
"""What another terminal or machine has otherwise, and what a cell is given anyway; which device it is counts itself."""

_NAMED = re.compile(r"""["'](\w+)["']|\$\{?(\w+)""")
"""A name in quotes, as in ``os.environ["MODE"]``, or behind the ``$`` of a shell script."""

_LARGEST_BYTES = 2**20


class Variables:
    """Finds those that count for a case: settings of torch and of what it computes with, and all that its code names.

    Args:
        given: Of this process. Secrets among them do not count, and neither do Python's own, which no cell sees.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {
            name: value
            for name, value in sorted(without_secrets(given).items())
            if name not in _OF_THE_SESSION and not name.startswith("PYTHON")
        }
        self._always = frozenset(filter(reaches_computing, self._given))
        self._known: dict[tuple[Path, tuple[str, ...]], dict[str, str]] = {}
        self._by_file: dict[str, dict[str, str]] = {}

    def of(self, case: Case) -> Mapping[str, str]:
        """Name to value of those that count."""
        place = case.file.path, case.argv
        if place not in self._known:
            named = {name for text in _texts(case) for each in _NAMED.findall(text) for name in each}
            found = {name: value for name, value in self._given.items() if name in self._always or name in named}
            self._known[place] = found
            if found:
                self._by_file.setdefault(case.file.sha256, {}).update(found)
        return self._known[place]

    def describe(self) -> dict[str, dict[str, str]]:
        """SHA-256 of a case file to name and digest of each that counts there, of all cases that were asked about."""
        return {
            digest: {name: _digest(value) for name, value in each.items()} for digest, each in self._by_file.items()
        }


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _texts(case: Case) -> Iterator[str]:
    """What the code of a case says: its file, those beside it that count, the words of a command."""
    yield from case.argv
    path = case.file.path
    folder = path if path.is_dir() else path.parent
    for each in (path, *(folder / name for name in case.file.local_modules)):
        if each.is_file() and each.stat().st_size <= _LARGEST_BYTES:
            yield each.read_text(encoding="utf-8", errors="replace")


def unlike(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Names of what differs between two descriptions of one case file."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))


def set_otherwise(request: RunRequest, now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Names of the variables that do not have the value that they had when a case file of a run ran last.

    Args:
        now: As :meth:`Variables.describe` gives it.
    """
    own = {item.file.sha256 for item in request.discovered}
    for run in reversed(request.file.runs):
        files, kept = run.get("case_files"), run.get("variables")
        shared = own.intersection(files if isinstance(files, list) else ())
        if shared and isinstance(kept, dict):  # an older tool kept none
            pairs = [(kept.get(digest, {}), now.get(digest, {})) for digest in shared]
            return sorted({name for was, is_now in pairs for name in unlike(was, is_now)})
    return []

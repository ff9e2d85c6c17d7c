"""The code of a case as somebody's results file keeps it: checked, shown, and written out to be run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bisect_torch.errors import UsageError
from bisect_torch.first_names import first_of
from bisect_torch.model import Beside, Observation, beside

_PART = re.compile(r"[^\W.][\w.-]*")
_LONGEST_PART = 100
_MOST_PARTS = 8


@dataclass(frozen=True)
class KeptCode:
    """A case file with its neighbours.

    Args:
        name: The case file's own name.
        files: Name relative to the case file's folder, to its text; the case file is among them.
        sha256: Of the case file.
    """

    name: str
    files: Mapping[str, str]
    sha256: str

    def write(self, folder: Path) -> Path:
        """Write all of it into an empty folder; gives the path of the case file.

        Raises:
            UsageError: Two names are one on this file system.
        """
        for name, text in self.files.items():
            path = folder.joinpath(*PurePosixPath(name).parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with path.open("xb") as file:  # never over another one, and through no link
                    file.write(text.encode())
            except FileExistsError:
                raise UsageError(f"the kept code has two files that are one here: {name}") from None
        return folder / self.name


def kept_code(observations: Iterable[Observation], sources: Mapping[str, str]) -> KeptCode:
    """The code that ran in these cells of one case file, from the texts that the file holds.

    Args:
        sources: SHA-256 to text. Every text is hashed again: one in which something was replaced is not what ran.

    Raises:
        UsageError: It is not there, not whole, or has names that must not be written.
    """
    found = list(observations)
    hashes = {each.case_file_hash for each in found}
    if len(hashes) != 1:
        raise UsageError("its two ends ran different versions of the case file")
    (digest,) = hashes
    name = PurePosixPath(found[0].case_file).name
    files = {_safe(name): _text(digest, sources, name)}
    for each in found:
        for module, module_digest in _beside(each).modules.items():
            files[_safe(module)] = _text(module_digest, sources, module)
    return KeptCode(name, dict(sorted(files.items())), digest)


def refuse_inputs(observations: Iterable[Observation]) -> None:
    """A results file has no data that cells read.

    Raises:
        UsageError: One of these cells read a file that was there before it.
    """
    for each in observations:
        needed = [name for name, file in _beside(each).read.items() if file.is_input]
        if needed:
            raise UsageError(f"it reads {first_of(needed, 1)} beside its file, and results hold no data files")


def _beside(observation: Observation) -> Beside:
    try:
        readable = isinstance(json.loads(observation.local_modules), dict)
    except ValueError:
        readable = False
    if not readable:
        raise UsageError("the list of the modules that it imported cannot be read")
    return beside(observation.local_modules)


def _text(digest: str, sources: Mapping[str, str], name: str) -> str:
    text = sources.get(digest)
    if text is None:
        raise UsageError(f"the source of {name} is not in the file")
    if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != digest:
        raise UsageError(f"the source of {name} in the file is not the one that ran: private parts were replaced")
    return text


def _safe(name: str) -> str:
    """A relative name that stays inside the folder it is written to: plain parts, and the last ends in ``.py``.

    Raises:
        UsageError: It is none.
    """
    parts = name.split("/")
    plain = all(_PART.fullmatch(part) and len(part) <= _LONGEST_PART for part in parts)
    if not plain or len(parts) > _MOST_PARTS or not name.endswith(".py"):
        raise UsageError(f"the file names a module {name!r}, which is not written anywhere")
    return name

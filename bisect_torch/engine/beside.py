"""Whether the files beside a case file are still what the cells of earlier runs read there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from bisect_torch.model import CaseFile, CaseKind, Observation, beside
from bisect_torch.redaction import Private
from bisect_torch.worker.beside import Contents

_READING = (CaseKind.CASE, CaseKind.SCRIPT)
"""Of a suite of tests all files are part of the key, of a command those that its words name."""


class FilesBeside:
    """Looks at files that observations name, at each once as long as it looks the same.

    Args:
        private: Knows what stands in the names of files where something was replaced.
    """

    def __init__(self, private: Private) -> None:
        self._private = private
        self._contents = Contents()
        self.edited: dict[str, None] = {}
        """Names of files that are not what earlier cells have read or imported."""

    def now(self, file: CaseFile, known: Iterable[Observation]) -> Mapping[str, str] | None:
        """What the files are now that these cells of a case file have read or imported; None where they are the same.

        Modules that reading the case file finds are left out: they are part of the key already.
        """
        texts = {each.local_modules for each in known} - {"{}"}
        if not texts or file.kind not in _READING:
            return None
        found: dict[str, str] = {}
        edited = []
        for text in texts:
            seen = beside(text)
            for name in seen.modules.keys() - file.local_modules.keys():
                found[name] = self._of(file, name)
                edited += [name] if found[name] != seen.modules[name] else []
            for name, read in seen.read.items():
                found[name] = self._of(file, name)
                edited += [] if read.is_as(found[name]) else [name]
        self.edited.update(dict.fromkeys(edited))
        return found if edited else None

    def _of(self, file: CaseFile, name: str) -> str:
        return self._contents.of(str(Path(file.path.parent, self._private.expand(name))))

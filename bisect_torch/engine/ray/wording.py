"""What is said on a node, in the words of the user's machine: their paths, and nothing private of the node's own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bisect_torch.redaction import Private, private_of, this_machine
from bisect_torch.redaction.patterns import CWD

_MARK = "\ue000"
"""From the private use area: no name and no path has it, so that nothing takes what stands between two for its own."""

_ESCAPED = json.dumps(_MARK)[1:-1]


class Wording:
    """Translates texts.

    Args:
        folders: Folder here to the user's folder that it stands for.
        store: Of this node.
    """

    def __init__(self, folders: Mapping[Path, Path], store: Path) -> None:
        marks = {f"{_MARK}{place}{_MARK}": user for place, user in enumerate(folders.values())}
        self._marks = {mark: str(user) for mark, user in marks.items()}
        here = [(form, mark) for folder, mark in zip(folders, marks, strict=True) for form in _forms(folder)]
        private = this_machine()
        # The working directory of this process is Ray's; it says nothing about the user's.
        own = replace(private, folders=tuple((path, name) for path, name in private.folders if name != CWD))
        self._private: Private = private_of(own.with_folders(here), store=store)

    def text(self, text: str) -> str:
        """A text for the user."""
        return self._in_users_words(self._private.redact(text))

    def facts(self, facts: Mapping[str, object]) -> dict[str, object]:
        """What a worker saw of a cell."""
        after = self._private.facts(facts)
        return {name: self._in_users_words(value) if isinstance(value, str) else value for name, value in after.items()}

    def _in_users_words(self, text: str) -> str:
        if _MARK not in text and _ESCAPED not in text:
            return text
        for mark, path in self._marks.items():
            text = text.replace(mark, path)
            # In JSON the mark is an escape, and what stands for it must be one too.
            text = text.replace(json.dumps(mark)[1:-1], json.dumps(path)[1:-1])
        return text


def _forms(folder: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys((os.path.abspath(folder), os.path.realpath(folder))))

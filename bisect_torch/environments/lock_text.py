"""What stands in the text of a lock."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_COMMENT = re.compile(r"(^|\s)#.*")
_PINNED = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.+!-]+( ?; [^@/\\]+?)?( --hash=sha256:[0-9a-f]{64})+")


def digest_of(lines: Iterable[str]) -> str:
    """SHA-256 (hex) of lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def lock_digest(text: str) -> str:
    """The hash of a lock that holds no editable project."""
    return digest_of(sorted(statements(text)))


def only_pins(text: str) -> bool:
    """Whether a lock holds nothing but ``name==version`` with hashes: no address, no option, nothing without a hash."""
    found = statements(text)
    return bool(found) and all(_PINNED.fullmatch(statement) for statement in found)


def statements(text: str) -> list[str]:
    """The requirements and options of a lock, each on one line, without comments."""
    joined = text.replace("\\\n", " ")
    lines = ((_COMMENT.sub("", line) if "#" in line else line).split() for line in joined.splitlines())
    return [" ".join(words) for words in lines if words]

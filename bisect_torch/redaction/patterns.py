"""How what is private stands in a text: patterns of folders, names and secrets, and what is put in their place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, quote_plus

from bisect_torch.redaction.shapes import HIDDEN

HOME, CWD, STORE, ENVIRONMENT, PROJECT, CASES = "<home>", "<cwd>", "<store>", "<environment>", "<project>", "<cases>"
ACCOUNT_HOME = "<account-home>"
"""The home of the account, where ``HOME`` names another folder: each is found again as what it was."""

USER, HOST = "<user>", "<host>"

LONG_NAME = 5
"""Characters from which on a name is looked for as a word, not only in paths."""

_ORDINARY = """
    admin administrator build builder builds cases ci circleci cloud code codespace computer conda container cuda
    data debian default dev developer docker environment fedora gitlab guest home host jenkins jovyan laptop lib linux
    local localhost mac machine model models node numpy nobody opc opt python pytorch root runner server share shared
    site-packages src store system temp tensor test tester tests tmp torch ubuntu user users usr vagrant var vscode
    work worker workspace
"""
ORDINARY = frozenset(_ORDINARY.split())
"""Names of accounts and machines that say nothing about anybody, and words that fill paths and messages."""

_SHORTEST_PART = 3

PLACEHOLDERS = (HOME, ACCOUNT_HOME, CWD, STORE, ENVIRONMENT, PROJECT, CASES, USER, HOST, HIDDEN)
PLACEHOLDER = "|".join(re.escape(each) for each in PLACEHOLDERS)

ANY_HOME = re.compile(
    r"(?<![\w.~<>-])(?:(?:/export|/var)?/home|/Users|/mnt/[a-z]/Users)/[^/\s'\"`:,;<>()\[\]{}|\\]+"
    r"|\b[A-Za-z]:(?:\\\\?)Users(?:\\\\?)[^\\/\s'\"`:,;<>()\[\]{}|]+"
)


def put_name(name: str, match: re.Match[str]) -> str:
    """What stands for a match of :func:`name_pattern`: ``name``, or the placeholder that was there already."""
    return match[0] if match[0] in PLACEHOLDERS else name


def forms_of(text: str) -> set[str]:
    """How a text may stand in another: as it is, in an address, in ``repr``, in JSON; each with its lines."""
    forms = {text, quote(text), quote(text, safe=""), quote_plus(text), repr(text)[1:-1], json.dumps(text)[1:-1]}
    lines = [line.strip() for line in text.splitlines()]
    if len(lines) > 1:  # a key with several lines may be printed line by line
        forms |= {line for line in lines if len(line) >= 16 and not line.startswith("-----")}
    return {form for form in forms if form}


def any_of(texts: Iterable[str]) -> str:
    """A pattern of any of these texts, the longest first."""
    return "|".join(re.escape(text) for text in sorted(texts, key=lambda text: (-len(text), text)))


def folder_pattern(path: str) -> re.Pattern[str]:
    """A folder where it begins a path, and not a longer name."""
    # One part (/app) may be a part of any path: it counts only where a path begins.
    begins = r"(?:(?<![\w./~<>-])|(?<=file://))" if path.count("/") < 2 and "%2F" not in path else ""
    return re.compile(begins + re.escape(path) + r"(?![\w-]|\.\w)")


def name_pattern(names: Sequence[str], *, host: bool) -> re.Pattern[str] | None:
    """Where these names can mean nothing else, and every placeholder; None where there is no name.

    Args:
        host: They are names of machines, else of users.
    """
    parts = [PLACEHOLDER]
    for name in dict.fromkeys(names):
        if not name.strip():
            continue
        word, ordinary = re.escape(name), name.lower() in ORDINARY
        if len(name) >= LONG_NAME and not ordinary:
            parts.append(rf"(?<![\w]){word}(?![\w])")
            continue
        if host:
            parts.append(rf"(?<=@){word}(?![\w-]|\.\w)")
            continue
        parts += [rf"(?<![\w.+-]){word}(?=@[\w<])", rf"(?<=~){word}(?![\w-])", rf"(?<=-of-){word}(?![\w-])"]
        if len(name) >= _SHORTEST_PART and not ordinary:
            parts.append(rf"(?<=/){word}(?=/)")
    return re.compile("|".join(parts)) if len(parts) > 1 else None

"""What a file is that was named as results and is none. Pure."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

from bisect_torch.results.journal import decode

_MAGIC = (
    (b"\x1f\x8b", "but a gzip archive", "unpack it first"),
    (b"PK\x03\x04", "but a zip archive, or what torch.save has written", "unpack it first, or name a results file"),
    (b"\x80", "but a pickle", "name another results file"),
    (b"SQLite format 3", "but an SQLite database", "name another results file"),
    (b"ARROW1", "but an Arrow file", "name another results file"),
    (b"\x89PNG", "but a picture", "name the results file that it was made from"),
)
_OTHER = "name another results file"
_DAMAGED = "it is cut off or damaged: use a copy, if there is one; else run the cases again, into another file with -o"
_MADE_FROM = "name another file: the results that this was made from"


def what_it_is(path: Path, content: bytes) -> tuple[str, str]:
    """What the file is, in words that follow "is not a Parquet file", and what to do.

    Args:
        path: Its name counts where the content leaves it open.
        content: All of it.

    Returns:
        Words, empty where nobody can tell; and a hint.
    """
    if not content:
        return "but empty", _OTHER
    for magic, what, hint in _MAGIC:
        if content.startswith(magic):
            return what, hint
    if content.startswith(b"PAR1"):
        return "", _DAMAGED
    if decode(content).records:
        whole = path.with_name(path.name.removesuffix(".journal"))
        return "but the journal of a results file", f"name another file: {whole}, whose journal is read with it"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return "", _OTHER
    return _text(path, text)


def _text(path: Path, text: str) -> tuple[str, str]:
    first = text.lstrip().partition("\n")[0]
    if first.startswith(("{", "[")):
        return "but JSON", _MADE_FROM
    lowered = first.lower()
    if lowered.startswith(("<!doctype html", "<html")):
        return "but a web page", _MADE_FROM
    if lowered.startswith(("<?xml", "<svg", "<testsuite")):
        return "but XML", _MADE_FROM
    if path.suffix == ".py" or (path.suffix == "" and _is_python(text)):
        return (
            "but Python code",
            f"`{shlex.join(['bisect-torch', 'run', str(path)])}` runs it; else name another results file",
        )
    if "," in first and path.suffix in (".csv", ".tsv", ""):
        return "but a table in text", _MADE_FROM
    if path.suffix in (".md", ".txt"):
        line = f"bisect-torch new {shlex.quote(str(path))}"
        return "but a text", f"{_MADE_FROM}; `{line}` takes the code out of a bug report"
    return "but text", _OTHER


def _is_python(text: str) -> bool:
    try:
        return bool(ast.parse(text).body) and "import" in text
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False

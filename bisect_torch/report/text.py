"""Text made safe and short, and lines of styled pieces that plain and rich output share."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

Span = tuple[str, str]
"""A piece of text and the name of its style; ``""`` for none."""

Line = tuple[Span, ...]

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_NOT_PLAIN = re.compile(r"[^ -~]+")

_ASCII = str.maketrans({"·": ".", "…": "_", "→": ">", "–": "-", "—": "-", "×": "x", "█": "#", "░": "-"})


def clean(text: str) -> str:
    """One line without control characters, direction marks or invisible ones: each is written as its escape.

    What a case printed, and names, may hold anything; a terminal must not act on it.
    """
    if text.isascii() and text.isprintable():
        return text
    return _NOT_PLAIN.sub(_escaped, text)


_SGR = re.compile(r"\x1b\[[\d;:]*m")


def clean_lines(text: str) -> str:
    """Text of several lines: line ends and tabs stay, colours go, every other character that :func:`clean` escapes is
    written as its escape."""
    text = _SGR.sub("", text).replace("\r\n", "\n")
    return "\n".join("\t".join(clean(part) for part in line.split("\t")) for line in text.split("\n"))


def _escaped(found: re.Match[str]) -> str:
    return "".join(_escape(char) if unicodedata.category(char) in _UNSAFE else char for char in found[0])


def _escape(char: str) -> str:
    code = ord(char)
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    if named:
        return named
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width_of(text: str) -> int:
    """Columns that a terminal needs for it."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def fit(text: str, width: int) -> str:
    """Cut in the middle, where names differ least, and fill with spaces, to exactly ``width`` columns."""
    cut = shorten_middle(text, width)
    return cut + " " * (width - width_of(cut))


def shorten_middle(text: str, width: int) -> str:
    """Cut in the middle to at most ``width`` columns."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    head, tail = width // 2, (width - 1) // 2
    return _take(text, head) + "…" + _take(text[::-1], tail)[::-1]


def shorten(text: str, width: int) -> str:
    """Cut at the end to at most ``width`` columns."""
    return text if width_of(text) <= width else _take(text, width - 1) + "…"


def _take(text: str, width: int) -> str:
    used = 0
    for place, char in enumerate(text):
        used += width_of(char)
        if used > width:
            return text[:place]
    return text


def wrap(words: Iterable[str], width: int, *, indent: str = "") -> list[str]:
    """Lines of at most ``width`` columns, unless one word is longer; those after the first begin with ``indent``."""
    lines: list[str] = []
    line = ""
    for word in words:
        if line.strip() and width_of(line) + 1 + width_of(word) > width:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line.strip() else line + word
    return [*lines, line] if line else lines


def for_encoding(text: str, encoding: str | None) -> str:
    """The same text where the stream's encoding lacks some characters of it."""
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return text


def plain(lines: Iterable[Line]) -> str:
    """The lines without styles, each ended, without spaces at their ends."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def bytes_words(number: float) -> str:
    """``888 MB``; decimal units, as package indexes use."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}" if number < 10 * size else f"{number / size:.0f} {unit}"
    return f"{number:.0f} B"


def seconds_words(seconds: float) -> str:
    """``4.2 s``, ``41 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def listed(words: Sequence[str], *, most: int = 4, last: str = "and") -> str:
    """``a, b and c``; beyond ``most``: ``a, b, c and 7 more``."""
    if len(words) > most:
        return f"{', '.join(words[: most - 1])} and {len(words) - most + 1} more"
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"

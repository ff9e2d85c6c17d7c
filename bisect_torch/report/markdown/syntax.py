"""Markdown for GitHub from text that nobody has checked.

Names, messages and output may hold anything. In a code span or a fence GitHub renders no Markdown and no HTML,
addresses nobody and links no issue; so that is where they go. Prose that quotes a little of them goes through
:func:`prose`.
"""

from __future__ import annotations

import html
import re

from bisect_torch.report.text import clean

_MARKUP = re.compile(r"([\\`*_\[\]<>~&])")
_AT_START = re.compile(r"^(\s*)([+\-=]|\d+[.)](?=\s|$))")
_LINKED = re.compile(r"@|#|://|(?i:www(?=\.))|(?i:\bgh(?=-\d))|:(?=[\w+\-\\]+:)")
_COLOUR = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
_TICKS = re.compile(r"`+")
_LONGEST_LINE = 2000
_APART = "<!-- -->"
"""Between two characters it parts what GitHub would make a mention, a reference or a link of; an escape does not."""


def prose(text: str) -> str:
    """One line of running text: neither Markdown nor HTML nor mathematics, and nobody and nothing is linked by it."""
    text = _MARKUP.sub(r"\\\1", clean(text).strip())
    text = _LINKED.sub(_parted, text)
    text = text.replace("$", "<span>$</span>")
    return _AT_START.sub(lambda found: f"{found[1]}{found[2][:-1]}\\{found[2][-1]}", text)


def marked(text: str) -> str:
    """Running text of the tool's own in which backticks enclose commands: these become code spans."""
    pieces = re.split(r"`([^`]+)`", clean(text))
    return "".join(code(each, most=_LONGEST_LINE) if place % 2 else _spaced(each) for place, each in enumerate(pieces))


def _spaced(text: str) -> str:
    """:func:`prose` with the blanks around it."""
    inside = text.strip()
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{before}{prose(inside)}{after}" if inside else text


def _parted(found: re.Match[str]) -> str:
    text = found[0]
    return f":{_APART}//" if text == "://" else text + _APART


def code(text: str, most: int = 200) -> str:
    """A code span of one line, at most ``most`` characters of it."""
    text = _beginning(clean(_beginning(text, most)), most) or " "
    ticks = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or (text[0] == text[-1] == " " and text.strip()) else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fence(text: str, language: str = "") -> str:
    """A block of code that its content cannot end."""
    body = block_text(text)
    ticks = "`" * max(3, _longest_run(body) + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def block_text(text: str) -> str:
    """Several lines without colours and without what cannot be seen, of which escapes are left."""
    lines = _COLOUR.sub("", text).replace("\r\n", "\n").strip("\n").split("\n")
    return "\n".join("\t".join(map(clean, _beginning(line, _LONGEST_LINE).split("\t"))).rstrip() for line in lines)


def details(summary: str, body: str) -> str:
    """A folded part.

    Args:
        summary: Already HTML.
        body: Markdown.
    """
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def html_code(text: str) -> str:
    """For a summary."""
    return f"<code>{html.escape(_beginning(clean(_beginning(text, 200)), 200))}</code>"


def row(*cells: str) -> str:
    """A line of a table, from cells that are Markdown."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table, from cells that are Markdown."""
    return "\n".join([row(*heads), "|" + "---|" * len(heads), *(row(*each) for each in rows)])


def _beginning(text: str, most: int) -> str:
    """By characters, not by columns: nothing is aligned here."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _longest_run(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)

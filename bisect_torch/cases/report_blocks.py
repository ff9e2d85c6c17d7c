"""The code blocks of a bug report in Markdown, as text with the line where each stands. Nothing is run."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

_OPENING = re.compile(r"^(?P<before>(?:[ \t>]|[-*+] |\d+[.)] )*)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
_PRE = re.compile(r"<pre[^>]*>(?P<inside>.*?)</pre\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?(?:code|span|b|i|em|strong)\b[^>]*>", re.IGNORECASE)
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))


@dataclass(frozen=True)
class Block:
    """A code block.

    Args:
        line: Of its first line of content, 1-based, in the report.
        language: The first word of the fence's info string, in lower case; empty where there is none.
        text: Without the fence, quoting and common indentation; lines end with ``\\n``.
        closed: False where the report ends before the fence does.
    """

    line: int
    language: str
    text: str
    closed: bool = True


def blocks(report: str) -> tuple[Block, ...]:
    """Every block: fenced (also in lists, quotations and ``<details>``), then ``<pre>``; else indented by four.

    A report without any block, such as a script, is one block itself.
    """
    text = clean_text(report)
    lines = text.split("\n")
    found, outside = _fenced(lines)
    found += _preformatted("\n".join(outside))
    if not found:
        found = list(_indented(lines))
    if not found and text.strip():
        found = [Block(1, "", text.rstrip("\n") + "\n")]
    return tuple(sorted(found, key=lambda block: block.line))


def clean_text(report: str) -> str:
    """With ``\\n`` at line ends, without what pages add to code: invisible characters and no-break spaces."""
    text = report.replace("\r\n", "\n").replace("\r", "\n").translate(_INVISIBLE)
    return text.replace("\u00a0", " ")


def _fenced(lines: list[str]) -> tuple[list[Block], list[str]]:
    """Fenced blocks, and the lines with those of the blocks left empty."""
    found: list[Block] = []
    outside = list(lines)
    place = 0
    while place < len(lines):
        opening = _OPENING.match(lines[place])
        if opening is None or (opening["fence"][0] == "`" and "`" in opening["info"]):
            place += 1
            continue
        end = _closing(lines, place + 1, opening["fence"])
        inside = [_unquoted(line, opening["before"]) for line in lines[place + 1 : end]]
        found.append(Block(place + 2, _language(opening["info"]), _joined(inside), end < len(lines)))
        outside[place : end + 1] = [""] * len(outside[place : end + 1])
        place = end + 1
    return found, outside


def _closing(lines: list[str], start: int, fence: str) -> int:
    """The line that ends a fence; the number of lines where there is none."""
    closing = re.compile(rf"^[ \t>]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
    return next((place for place in range(start, len(lines)) if closing.match(lines[place])), len(lines))


def _unquoted(line: str, before: str) -> str:
    """Without the quotation marks and the indentation of the list in which the fence stands."""
    for _ in range(before.count(">")):
        line = re.sub(r"^[ \t]*> ?", "", line, count=1)
    indent = len(before.rpartition(">")[2].removeprefix(" " if ">" in before else ""))
    blank = len(line) - len(line.lstrip(" \t"))
    return line[min(indent, blank) :]


def _language(info: str) -> str:
    words = info.strip().strip("{}").replace(",", " ").split()
    return words[0].lstrip(".").lower() if words else ""


def _joined(lines: list[str]) -> str:
    return textwrap.dedent("".join(f"{line}\n" for line in lines))


def _preformatted(text: str) -> list[Block]:
    found = []
    for match in _PRE.finditer(text):
        inside = html.unescape(_TAG.sub("", match["inside"]))
        shift = len(inside) - len(inside.lstrip("\n"))
        line = text.count("\n", 0, match.start("inside")) + 1 + shift
        found.append(Block(line, "", _joined(inside.strip("\n").split("\n"))))
    return found


def _indented(lines: list[str]) -> Iterator[Block]:
    """Runs of lines indented by four spaces or a tab, after a blank line; blank lines inside belong to them."""
    place = 0
    while place < len(lines):
        starts = _is_indented(lines[place]) and (place == 0 or not lines[place - 1].strip())
        if not starts:
            place += 1
            continue
        end = place
        while end < len(lines) and (_is_indented(lines[end]) or not lines[end].strip()):
            end += 1
        while not lines[end - 1].strip():
            end -= 1
        yield Block(place + 1, "", _joined(lines[place:end]))
        place = end


def _is_indented(line: str) -> bool:
    return bool(line.strip()) and line.startswith(("    ", "\t"))

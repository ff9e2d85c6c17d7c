"""Reading a page without a browser: its elements, scripts and data."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """All elements of a page in order, with their depth, and the texts of scripts and styles."""

    _VOID = frozenset({"meta", "link", "input", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[int, str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((len(self._open), tag, dict(attrs)))
        if tag not in self._VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "every element is closed"

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            self.scripts.append((self.elements[-1][2], data))
        elif inside == "style":
            self.styles.append(data)
        elif data.strip():
            self.texts.append(" ".join(data.split()))

    def data(self, name: str) -> Any:
        """The JSON of a block of data."""
        (text,) = (text for attributes, text in self.scripts if attributes.get("id") == name)
        return json.loads(text)

    @property
    def code(self) -> list[str]:
        """Scripts that run."""
        return [text for attributes, text in self.scripts if attributes.get("type") != "application/json"]

    @property
    def policy(self) -> str:
        (found,) = (each["content"] for _, _, each in self.elements if each.get("http-equiv"))
        return found or ""


def entries(column: dict[str, Any], number: int) -> list[Any]:
    """What a packed column says."""
    values = column["values"]
    if "codes" not in column:
        return values * number
    raw, width = base64.b64decode(column["codes"]), column["bytes"]
    codes = [int.from_bytes(raw[place : place + width], "little") for place in range(0, len(raw), width)]
    assert len(codes) == number
    return [values[code] for code in codes]

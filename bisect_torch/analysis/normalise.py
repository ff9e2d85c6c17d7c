"""Messages without what differs between two runs of the same fault: numbers, addresses, paths, shapes."""

from __future__ import annotations

import re

_LONGEST = 300

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_ABSOLUTE_PATH = re.compile(r"(?<![\w/#.])(?:~|\.{1,2})?/[^\s'\"`:,;()\[\]{}<>|#]+")
# What stands for a folder in a stored message: with what follows, it is a path like any other.
_FOLDER = re.compile(r"<(?:home|cwd|store|environment|project|cases)>(?:/[^\s'\"`:,;()\[\]{}<>|#]*)?")
_SOURCE_PATH = re.compile(r"(?<![\w/.+~-])[\w.+-]+(?:/[\w.+-]+)+\.(?:py|pyx|c|cc|cpp|cu|cuh|h|hpp|so|mm|metal)\b")
_NUMBER = re.compile(
    r"""(?<![\w#])[-+]?
    (?: (?:\d[\d_]*(?:\.\d+)*\.? | \.\d+)  (?:e[-+]?\d+)?  (?:[kKMGT]?i?B|[mun]?s|j|x)?
      | (?:nan|inf)j?
    )(?![\w#])%?""",
    re.VERBOSE,
)
_PRODUCT_SHAPE = re.compile(r"(?<![\w#])\d+(?:x\d+)+(?!\w)")
_ITEM = r"(?:\#|\[\#\]|\.\.\.)"
_LIST = re.compile(rf"(?:torch\.Size)?[\[(]\s*{_ITEM}(?:\s*,\s*{_ITEM})*\s*,?\s*[\])]")
_SPACE = re.compile(r"\s+")


def normalise(message: str) -> str:
    """The first line that says something, with ``#`` for numbers, ``0x#``, ``/#`` for paths and ``[#]`` for shapes.

    Where it only introduces the next ("Failed running …:", of torch.compile), that one is added.
    No replacement is longer than what it replaces and the result is a fixed point: normalising twice changes nothing.
    Digits inside a word (``float32``, ``addmm2``) stay.
    """
    lines = [stripped for line in message.splitlines() if (stripped := line.strip())]
    text = (lines[0] if lines else "")[:_LONGEST].strip()
    if text.endswith(":") and len(lines) > 1:
        text = f"{text} {lines[1][:_LONGEST].strip()}"
    while True:
        after = _once(text)
        if after == text:
            return text
        text = after


def _once(text: str) -> str:
    text = _ADDRESS.sub("0x#", text)
    text = _FOLDER.sub("/#", text)
    text = _ABSOLUTE_PATH.sub("/#", text)
    text = _SOURCE_PATH.sub("/#", text)
    text = _PRODUCT_SHAPE.sub("#", text)
    text = _NUMBER.sub("#", text)
    text = _LIST.sub("[#]", text)
    return _SPACE.sub(" ", text).strip()

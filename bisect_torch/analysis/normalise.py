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


_ADVICE = re.compile(r"Set TORCH|You can suppress|from user code")
"""How what torch.compile adds to every message begins."""


_TRACEBACK = "Traceback (most recent call last):"


def saying(message: str) -> list[str]:
    """The first line that says something, and the next where the first only introduces it ("Failed running …:", of
    torch.compile). Of a message that holds the traceback of another process ("-- Process 0 terminated with …", "Caught
    RuntimeError in DataLoader worker …") that is what was raised there."""
    introduction, mark, trace = message.rpartition(_TRACEBACK)
    if mark:
        raised = [line.strip() for line in trace.splitlines() if line[:1].strip()]
        before = [line for line in introduction.splitlines() if line.strip() and not line.startswith("Original")]
        return [line.strip() for line in before[:1]] + raised[:1]
    lines = [stripped for line in message.splitlines() if (stripped := line.strip())]
    more = lines[:1] and lines[0].endswith(":") and len(lines) > 1 and not _ADVICE.match(lines[1])
    return lines[: 2 if more else 1]


def normalise(message: str) -> str:
    """What a message :func:`saying` says, with ``#`` for numbers, ``0x#``, ``/#`` for paths and ``[#]`` for shapes.

    No replacement is longer than what it replaces and the result is a fixed point: normalising twice changes nothing.
    Digits inside a word (``float32``, ``addmm2``) stay.
    """
    text = " ".join(line[:_LONGEST].strip() for line in saying(message))
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

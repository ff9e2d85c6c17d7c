"""The environment variable that switches the guard on; read without torch."""

from __future__ import annotations

import os
import re
from typing import Mapping, NamedTuple, Optional

VARIABLE = "BISECT_TORCH_GUARD"
DEVICE = "mps"
LIMIT = 1 << 32
"""Elements from which MPS was found silently wrong (arXiv 2609.22991)."""

_SETTING = re.compile(r"(?P<kind>[a-z]+)(:(?P<index>\d\d?))?(:(?P<limit>\d{3,}))?")


class Settings(NamedTuple):
    """What a guard is made with: a device, and a limit in elements."""

    device: str = DEVICE
    limit: int = LIMIT


def from_text(text: str) -> Optional[Settings]:
    """The guard that a value of ``BISECT_TORCH_GUARD`` asks for; None for none.

    Args:
        text: ``1`` for the defaults; a device and, after a colon, a limit, either of which may be left out from the
            end: ``cpu``, ``cpu:1000``, ``cuda:0:4294967296``. A number of one or two digits is the device's index, one
            of three or more the limit. Empty or ``0``: no guard.

    Raises:
        ValueError: It is none of these.
    """
    text = text.strip()
    if text in ("", "0"):
        return None
    if text == "1":
        return Settings()
    found = _SETTING.fullmatch(text)
    if found is None or not int(found.group("limit") or 1):
        raise ValueError("%s is 1, DEVICE or DEVICE:LIMIT, such as mps:4294967296, not %r" % (VARIABLE, text))
    device = found.group("kind") + (":" + found.group("index") if found.group("index") else "")
    return Settings(device, int(found.group("limit") or LIMIT))


def from_environment(variables: Optional[Mapping[str, str]] = None) -> Optional[Settings]:
    """As :func:`from_text`, of the process's variables or those given."""
    return from_text((os.environ if variables is None else variables).get(VARIABLE, ""))

"""The words for builds that no release has yet: ``latest``, a day, a range of days, ``test``. Parsed once, here."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from bisect_torch.errors import UsageError

NIGHTLY, TEST = "nightly", "test"
"""Channels: the folder of PyTorch's own indexes that has such builds."""

_DAY = r"\d{4}-\d{1,2}-\d{1,2}"
_DAYS = re.compile(rf"({_DAY})(?:(\.\.)({_DAY})?)?")
_HINT = "latest, a day 2026-11-20, days 2026-11-01..2026-11-28, or test for release candidates"


@dataclass(frozen=True)
class NightlyWord:
    """What one word asks for.

    Args:
        text: As written.
        channel: :data:`NIGHTLY` or :data:`TEST`.
        first: First day; None for the newest build.
        last: Last day, inclusive; None for the newest build, or for a range without an end.
        span: Whether all builds of the days are meant; else the one of the day ``first``.
    """

    text: str
    channel: str = NIGHTLY
    first: datetime.date | None = None
    last: datetime.date | None = None
    span: bool = False


def nightly_word(text: str) -> NightlyWord:
    """Read one value of ``--nightly``.

    Raises:
        UsageError: It is none, names a day that no calendar has, or its days are reversed.
    """
    word = _word(text.strip())
    if word is None:
        raise UsageError(f"{text!r} does not name a nightly build", hint=_HINT)
    return word


def named_word(name: str) -> NightlyWord | None:
    """The same among the names of builds, where ``nightly`` is the latest; None for a version or a path.

    Raises:
        UsageError: It looks like a day and is none.
    """
    return None if name == "latest" else _word(name.strip())


def is_nightly_version(name: str) -> bool:
    """Whether a name is the version of a nightly: ``2.16.0.dev20261128``."""
    try:
        return Version(name).is_devrelease
    except InvalidVersion:
        return False


def day_of(version: str) -> datetime.date | None:
    """The day in the version of a nightly; None where it has none."""
    number = Version(version).dev
    try:
        return datetime.datetime.strptime(str(number), "%Y%m%d").date() if number is not None else None
    except ValueError:
        return None


def _word(text: str) -> NightlyWord | None:
    if text in ("latest", NIGHTLY):
        return NightlyWord(text)
    if text == TEST:
        return NightlyWord(text, channel=TEST)
    found = _DAYS.fullmatch(text)
    if found is None:
        return None
    first, last = _day(found[1], text), _day(found[3], text) if found[3] else None
    if last is not None and last < first:
        raise UsageError(f"the days are reversed: {text}", hint=f"--nightly {last}..{first}")
    return NightlyWord(text, first=first, last=last, span=found[2] is not None)


def _day(text: str, whole: str) -> datetime.date:
    year, month, day = (int(part) for part in text.split("-"))
    try:
        return datetime.date(year, month, day)
    except ValueError:
        raise UsageError(f"{whole!r} does not name a nightly build: there is no day {text}", hint=_HINT) from None

"""Which nightly builds are meant by a day, a range of days or ``latest``. Pure: what exists is given."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from packaging.version import Version

from bisect_torch.errors import UsageError
from bisect_torch.model import Build
from bisect_torch.releases.nightly_words import TEST, NightlyWord

NEAREST_WITHIN_DAYS = 7
"""A day without a build is answered with the nearest that has one, but not with one that is further away."""

_ONE_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Chosen:
    """The builds that a word means, oldest first, and what must be said about days that have none."""

    builds: tuple[Build, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shelf:
    """The builds of one channel.

    Args:
        builds: In release order.
        where: Of which index, for messages: ``nightly/cpu``.
        python: The minor Python that all must have a wheel for; None for any.
        installed: Whether a build that has left the index still has an environment here.
    """

    builds: tuple[Build, ...]
    where: str
    python: str | None = None
    installed: Callable[[Build], bool] = lambda build: False

    def flaw(self, build: Build) -> str | None:
        """Why a build cannot take part unless it is named; None when it can."""
        if build.yanked:
            return "withdrawn"
        if build.gone and not self.installed(build):
            return "it has left the index"
        if self.python is not None and build.pythons and self.python not in build.pythons:
            return f"without a wheel for Python {self.python}"
        return None

    def usable(self) -> tuple[Build, ...]:
        """Those without a flaw; of two of one day the newer version."""
        found: dict[datetime.date | str, Build] = {}
        for build in self.builds:
            if self.flaw(build) is None:
                found[build.day or build.version] = build
        return tuple(found.values())

    def why_none(self, day: datetime.date) -> str | None:
        """What is wrong with the builds of a day; None where there is none at all."""
        flaws = [self.flaw(build) for build in self.builds if build.day == day]
        return next((flaw for flaw in flaws if flaw is not None), None)


def choose(word: NightlyWord, shelf: Shelf) -> Chosen:
    """The builds that a word means.

    Raises:
        UsageError: There is none, nor one near enough; the message names the nearest.
    """
    usable = shelf.usable()
    if not usable:
        raise UsageError(f"{shelf.where} has no build that fits{_for_python(shelf)}", hint=_hint_flaws(shelf))
    if word.first is None:
        return _newest(word, shelf, usable)
    return _span(word, shelf, usable) if word.span else _one(word.first, shelf, usable)


def named(version: str, shelf: Shelf) -> Build:
    """The build with a version, whatever its flaws: it was named.

    Raises:
        UsageError: There is none, or it has no wheel for the Python.
    """
    for build in shelf.builds:
        if Version(build.version) == Version(version):
            if shelf.python is not None and build.pythons and shelf.python not in build.pythons:
                raise UsageError(
                    f"torch {build.version} has no wheel for Python {shelf.python} here",
                    hint=f"it has wheels for Python {', '.join(build.pythons)}",
                )
            return build
    raise UsageError(
        f"torch {version} is not on {shelf.where}{_nearest_words(Version(version), shelf.usable())}",
        hint="nightly builds leave their index after about two months",
    )


def _newest(word: NightlyWord, shelf: Shelf, usable: Sequence[Build]) -> Chosen:
    chosen = usable[-1]
    newer = [build for build in shelf.builds if Version(build.version) > Version(chosen.version) and not build.gone]
    what = "release candidate" if word.channel == TEST else "nightly"
    notes = [f"the latest {what} that fits is {chosen.name}; {build.name}: {shelf.flaw(build)}" for build in newer[-1:]]
    return Chosen((chosen,), tuple(notes))


def _one(day: datetime.date, shelf: Shelf, usable: Sequence[Build]) -> Chosen:
    dated = [(build.day, build) for build in usable if build.day is not None]
    exact = [build for when, build in dated if when == day]
    if exact:
        return Chosen((exact[-1],))
    why = shelf.why_none(day)
    near = min(dated, key=lambda pair: (abs(pair[0] - day), pair[0]), default=None)
    if near is None or abs(near[0] - day).days > NEAREST_WITHIN_DAYS:
        raise UsageError(f"{shelf.where} has no nightly of {day}{_bracket(why)}{_days_there(usable)}", hint=_left())
    note = f"{shelf.where} has no nightly of {day}{_bracket(why)}; the nearest, of {near[0]}, is used"
    return Chosen((near[1],), (note,))


def _span(word: NightlyWord, shelf: Shelf, usable: Sequence[Build]) -> Chosen:
    assert word.first is not None
    last = word.last or max((build.day for build in usable if build.day is not None), default=word.first)
    inside = tuple(build for build in usable if build.day is not None and word.first <= build.day <= last)
    if not inside:
        raise UsageError(f"{shelf.where} has no nightly from {word.first} to {last}{_days_there(usable)}", hint=_left())
    days = {build.day for build in inside}
    asked = [word.first + number * _ONE_DAY for number in range((last - word.first).days + 1)]
    missing = [(day, shelf.why_none(day)) for day in asked if day not in days]
    if not missing:
        return Chosen(inside)
    return Chosen(inside, (f"{shelf.where} has no nightly of {_missing_words(missing)}",))


def _missing_words(missing: Iterable[tuple[datetime.date, str | None]]) -> str:
    """Days in words, neighbours that lack it for the same reason as one span."""
    words = []
    runs = groupby(enumerate(missing), key=lambda pair: (pair[1][0] - pair[0] * _ONE_DAY, pair[1][1]))
    for (_, why), group in runs:
        days = [day for _, (day, _) in group]
        words.append((f"{days[0]} to {days[-1]}" if len(days) > 1 else f"{days[0]}") + _bracket(why))
    return ", ".join(words)


def _bracket(why: str | None) -> str:
    return f" ({why})" if why else ""


def _days_there(usable: Sequence[Build]) -> str:
    days = sorted(build.day for build in usable if build.day is not None)
    return f"; those there are of {days[0]} to {days[-1]}" if days else ""


def _nearest_words(wanted: Version, usable: Sequence[Build]) -> str:
    older = [build.version for build in usable if Version(build.version) < wanted][-1:]
    newer = [build.version for build in usable if Version(build.version) > wanted][:1]
    return f"; the nearest that are: {' and '.join(older + newer)}" if usable else ""


def _for_python(shelf: Shelf) -> str:
    return f" Python {shelf.python}" if shelf.python else ""


def _left() -> str:
    return "nightly builds leave their index after about two months; `bisect-torch releases --nightly DAYS` lists them"


def _hint_flaws(shelf: Shelf) -> str | None:
    flaws = [f"{build.name}: {shelf.flaw(build)}" for build in shelf.builds[-3:]]
    return "; ".join(flaws) or None

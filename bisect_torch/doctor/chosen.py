"""The builds of the run that is asked about, as far as the catalogue tells: no index is asked for more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from packaging.version import InvalidVersion, Version

from bisect_torch.doctor.check import Asked
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.index import catalogue_builds
from bisect_torch.releases.selection import is_path, is_unreleased, select


def chosen_builds(asked: Asked) -> tuple[tuple[Build, ...], tuple[str, ...]]:
    """The releases that the run would take, and the names of builds that only an index knows.

    Raises:
        UsageError: There is no such release, or the range is none.
    """
    known = catalogue_builds()
    if not known:
        return (), ()
    chosen, newest = asked.selection, Version(known[-1].version)

    def is_known(name: str) -> bool:
        try:
            return is_path(name) or not (is_unreleased(name) or Version(name) > newest)
        except InvalidVersion:
            return True  # refused for what it is

    named = [name for name in (chosen.first, chosen.last, *chosen.versions) if name is not None]
    later = (*(name for name in named if not is_known(name)), *(f"nightly {word.text}" for word in chosen.nightly))
    kept = replace(
        chosen,
        last=None if chosen.last in later else chosen.last,
        versions=tuple(filter(is_known, chosen.versions)),
        exclude=tuple(filter(is_known, chosen.exclude)),
        nightly=(),
    )
    if chosen.first in later or not (chosen.has_range or kept.versions):
        return (), later
    minor = asked.python if asked.python in {python for build in known for python in build.pythons} else None
    found = select(known, kept, python=minor)
    return tuple(build for build in found if build.kind is not BuildKind.LOCAL), later


def called(builds: Sequence[Build]) -> str:
    """Some builds in a few words, of which there is one at least."""
    names = [build.name for build in builds]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"

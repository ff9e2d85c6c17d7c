"""Which of the builds take part: ranges, lists, exclusions. Every refusal names the nearest builds that would do."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from bisect_torch.errors import UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.catalogue import OLDEST_RELEASE
from bisect_torch.releases.local import local_build
from bisect_torch.releases.nightly_words import TEST, NightlyWord, is_nightly_version, named_word


@dataclass(frozen=True)
class Selection:
    """What the user asked for.

    Args:
        first: Oldest of a range, inclusive; None begins at the first release that has a lock.
        last: Newest of a range, inclusive; None ends at the newest.
        versions: Builds by name: versions, or paths of interpreters. With neither ``first`` nor ``last`` they are all;
            with one of them they are added to the range.
        exclude: Versions that do not take part.
        minor_only: Of each minor release in the range, the last patch only. Named versions stay.
        nightly: Builds that are no releases yet; added to the others. The names above may say ``nightly``, ``test``, a
            day or days, too.
        inside: The nightly builds between the oldest and the newest of all these, of these days, take part too.
        either_way: The ends of the range may stand the wrong way round, where one of them is no release: which is the
            older is only known once it was found.
    """

    first: str | None = None
    last: str | None = None
    versions: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    minor_only: bool = False
    nightly: tuple[NightlyWord, ...] = ()
    inside: NightlyWord | None = None
    either_way: bool = False

    @property
    def has_range(self) -> bool:
        """Whether a range of releases is asked for, be it that of all."""
        return not (self.versions or self.nightly) or self.first is not None or self.last is not None

    @property
    def needs_listing(self) -> bool:
        """Whether releases are asked for, and not just local interpreters and nightly builds."""
        return self.has_range or not all(is_path(name) or is_unreleased(name) for name in self.versions)

    @property
    def unreleased(self) -> tuple[str, ...]:
        """Every name that means builds on an index of nightly builds or release candidates."""
        named = [name for name in (self.first, self.last, *self.versions, *self.exclude) if name is not None]
        return tuple(dict.fromkeys(name for name in named if not is_path(name) and is_unreleased(name)))


def is_unreleased(name: str) -> bool:
    """Whether a name means builds that are no releases: ``nightly``, ``test``, a day, days, a nightly's version."""
    return is_nightly_version(name) or named_word(name) is not None


def is_path(name: str) -> bool:
    """Whether a build's name is the path of an interpreter: it has a slash."""
    return os.sep in name


def named_among(name: str, builds: Sequence[Build]) -> Build | None:
    """Which of some builds a name means: a version, an interpreter's path, ``nightly``, ``test``, a day.

    ``nightly`` is the newest nightly of them, a day without a build the nearest; of days, the newest build counts.
    None where the name means none of them.

    Raises:
        UsageError: The name is a day that no calendar has.
    """
    ordered = sorted(builds, key=release_order)
    if is_path(name):
        return next((build for build in ordered if build.name == str(Path(os.path.expanduser(name)))), None)
    word = named_word(name)
    if word is None:
        return next((build for build in ordered if _is_version(name, build)), None)
    kind = BuildKind.CANDIDATE if word.channel == TEST else BuildKind.NIGHTLY
    of_kind = [build for build in ordered if build.kind is kind]
    if word.first is None:
        return of_kind[-1] if of_kind else None
    wanted = word.last or word.first
    dated = [(build.day, build) for build in of_kind if build.day is not None]
    return min(dated, key=lambda pair: (abs(pair[0] - wanted), pair[0]), default=(None, None))[1]


def _is_version(name: str, build: Build) -> bool:
    try:
        wanted = Version(name)
    except InvalidVersion:
        return False
    return build.kind in (BuildKind.RELEASE, BuildKind.NIGHTLY) and Version(build.version) == wanted


def select(
    builds: Sequence[Build],
    selection: Selection,
    *,
    python: str | None = None,
    read_local: Callable[[Path], Build] = local_build,
    note: Callable[[str], None] = lambda text: None,
) -> tuple[Build, ...]:
    """The builds that take part, in release order; local interpreters stand after the release that they equal.

    Args:
        builds: All that are known.
        python: The minor Python that all must have a wheel for; None for any. Where the range has an open end, builds
            there that lack one are left out; any other that lacks one is refused.
        read_local: Finds out about the interpreter at a path.
        note: Told, in a line, which builds are left out for lack of a wheel, and what a name without a patch means.

    Raises:
        UsageError: A version does not exist, the range is reversed or empty, or a build has no wheel for this Python.
    """
    known = sorted(builds, key=release_order)
    for name in dict.fromkeys((selection.last, *selection.versions, *selection.exclude)):
        if name is not None and (others := _later_patches(name, known)):
            note(f"{name} means {name}.0 alone; there is {', '.join(others)} too")
    excluded = {_find(name, known).version for name in selection.exclude if not is_path(name)}
    chosen: dict[str, Build] = {}
    if selection.has_range:
        chosen.update({build.name: build for build in _range(known, selection, excluded, python, note)})
    for name in selection.versions:
        build = read_local(Path(os.path.expanduser(name))) if is_path(name) else _find(name, known)
        if build.kind is not BuildKind.LOCAL:
            _require_python(build, known, python)
        if build.version not in excluded or build.kind is BuildKind.LOCAL:
            chosen[build.name] = build
    for name in selection.exclude:
        if is_path(name):
            chosen.pop(str(Path(os.path.expanduser(name))), None)
    if not chosen:
        raise UsageError("no build is left to run", hint="the options name some and exclude all of them")
    return tuple(sorted(chosen.values(), key=release_order))


def release_order(build: Build) -> tuple[Version, int, str]:
    """Release order: 2.15.0, then 2.16.0.dev20261128; a release candidate stands before its release."""
    place = {BuildKind.CANDIDATE: 0, BuildKind.LOCAL: 2}.get(build.kind, 1)
    return Version(build.version), place, build.name


def _range(
    known: list[Build], selection: Selection, excluded: set[str], python: str | None, note: Callable[[str], None]
) -> list[Build]:
    if not known:
        raise UsageError(
            "no torch builds are known for this platform",
            hint="interpreters that have a torch can be named: --versions /opt/venv/bin/python",
        )
    first = _find(selection.first, known) if selection.first is not None else None
    last = _find(selection.last, known) if selection.last is not None else None
    if first is not None and last is not None and release_order(first) > release_order(last):
        raise UsageError(
            f"the range is reversed: {first.version} is newer than {last.version}",
            hint=f"--from {last.version} --to {first.version}",
        )
    begin = known.index(first) if first is not None else _default_start(known, selection, last)
    end = known.index(last) if last is not None else len(known) - 1
    ends = {build.version for build in (first, last) if build is not None}
    with_pre = any(Version(version).is_prerelease for version in ends) or all(_is_pre(build) for build in known)
    inside = [
        build
        for build in known[begin : end + 1]
        if build.version in ends or (not build.yanked and (with_pre or not _is_pre(build)))
    ]
    chosen = [build for build in inside if build.version not in excluded]
    if not chosen:
        edges = f"{known[begin].version} to {known[end].version}"
        raise UsageError(f"the range is empty: nothing is left from {edges}", hint=_hint_known(known))
    fitting = _with_python(chosen, known, python, open_start=first is None, open_end=last is None)
    left_out = [build.version for build in chosen if build not in fitting]
    if left_out:
        note(f"no wheel for Python {python}, and so left out: {', '.join(left_out)}")
    chosen = fitting
    return _last_patches(chosen) if selection.minor_only else chosen


def _default_start(known: list[Build], selection: Selection, last: Build | None) -> int:
    """Place of the first release that has a lock; of the oldest build where none has.

    Raises:
        UsageError: The range ends before that.
    """
    start = next((place for place, build in enumerate(known) if Version(build.version) >= Version(OLDEST_RELEASE)), 0)
    if last is None or start <= known.index(last):
        return start
    oldest = next(
        build for build in known if Version(build.version).major == Version(last.version).major and not build.yanked
    )
    named = selection.last in selection.versions  # an end of a search, which has an option of its own
    raise UsageError(
        f"the range is reversed: without --from it begins at {known[start].version}, which is newer than "
        f"{last.version}",
        hint=f"--from {oldest.version}" if named else f"--from {oldest.version} --to {last.version}",
    )


def _with_python(
    chosen: list[Build], known: list[Build], python: str | None, *, open_start: bool, open_end: bool
) -> list[Build]:
    """Leave out what lacks a wheel at an open end of the range; refuse it elsewhere."""
    if python is None:
        return chosen
    while open_start and chosen and not _has_python(chosen[0], python):
        chosen = chosen[1:]
    while open_end and chosen and not _has_python(chosen[-1], python):
        chosen = chosen[:-1]
    for build in chosen:
        _require_python(build, known, python)
    if not chosen:
        raise UsageError(f"no torch in the range has a wheel for Python {python} here", hint=_hint_pythons(known))
    return chosen


def _last_patches(builds: list[Build]) -> list[Build]:
    last = {Version(build.version).release[:2]: build for build in builds}
    return list(last.values())


def _is_pre(build: Build) -> bool:
    return Version(build.version).is_prerelease


def _has_python(build: Build, python: str) -> bool:
    return not build.pythons or python in build.pythons


def _require_python(build: Build, known: list[Build], python: str | None) -> None:
    if python is None or _has_python(build, python):
        return
    usable = [other for other in known if _has_python(other, python) and not other.yanked and not _is_pre(other)]
    near = _neighbours(Version(build.version), usable)
    does = f"the nearest that have one: {near}" if near else "no other has one"
    raise UsageError(
        f"torch {build.version} has no wheel for Python {python} here; {does}",
        hint=f"torch {build.version} has wheels for Python {', '.join(build.pythons)}",
    )


def _find(name: str, known: list[Build]) -> Build:
    try:
        wanted = Version(name)
    except InvalidVersion:
        raise UsageError(f"{name!r} is not a version of torch", hint=_hint_no_version(name)) from None
    if wanted.local is not None:
        raise UsageError(
            f"{name} names a backend; builds are named without it: {wanted.public}",
            hint=f"choose the backend of all builds with --torch-backend {wanted.local}",
        )
    for build in known:
        if build.kind in (BuildKind.RELEASE, BuildKind.NIGHTLY) and Version(build.version) == wanted:
            return build
    usable = [build for build in known if not build.yanked and not _is_pre(build)] or known
    near = _neighbours(wanted, usable)
    shown = f"the nearest that exist: {near}" if near else "none is known"
    meant = _dots_elsewhere(wanted, usable)
    question = f"did you mean {' or '.join(meant)}? " if meant else ""
    raise UsageError(f"torch {name} does not exist here; {shown}", hint=f"{question}`bisect-torch releases` lists all")


def _dots_elsewhere(wanted: Version, usable: Sequence[Build]) -> list[str]:
    """Versions of the same digits, but for a last zero: ``2.4.1`` for ``2.41`` and ``2.41.0``."""

    def digits(version: str) -> str:
        return version.replace(".", "").removesuffix("0")

    return [build.version for build in usable if digits(build.version) == digits(str(wanted))]


def _hint_no_version(name: str) -> str:
    """What a name that is no version may have meant."""
    found = re.findall(r"\d+(?:\.\d+)+", name)
    if name.lower() in ("latest", "newest", "last", "stable", "current"):
        return "without --to a range goes up to the newest release; `nightly` is the latest nightly build"
    if len(found) == 2 and re.fullmatch(r"\s*\S+?\s*(-|:|\.\.\.?|to|–|<|<=)\s*\S+\s*", name):
        return f"a range is --from {found[0]} --to {found[1]}; several builds are {found[0]},{found[1]}"
    if len(found) == 1 and name.strip().startswith((">", "<")):
        return f"a range is --from {found[0]}" if ">" in name else f"a range is --to {found[0]}"
    if len(found) > 1:
        return f"several builds are separated by commas: {','.join(found)}"
    return "versions look like 2.9.1; an interpreter is named by its path, with a slash"


def _later_patches(name: str, known: Sequence[Build]) -> list[str]:
    """The further releases of a minor one, where a name leaves the patch out: ``2.9.1`` of ``2.9``."""
    if is_path(name) or not re.fullmatch(r"\d+\.\d+", name):
        return []
    minor, usable = Version(name).release, [build for build in known if not build.yanked and not _is_pre(build)]
    versions = [Version(build.version) for build in usable]
    return [str(version) for version in versions if version.release[:2] == minor and version.micro]


def _neighbours(wanted: Version, usable: Sequence[Build]) -> str:
    """The nearest older and the nearest newer one."""
    older = [build.version for build in usable if Version(build.version) < wanted][-1:]
    newer = [build.version for build in usable if Version(build.version) > wanted][:1]
    return " and ".join(older + newer)


def _hint_known(known: list[Build]) -> str:
    final = [build for build in known if not build.yanked and not _is_pre(build)] or known
    return f"known are {final[0].version} to {final[-1].version}"


def _hint_pythons(known: list[Build]) -> str:
    pythons = sorted({python for build in known for python in build.pythons}, key=Version)
    return f"there are wheels for Python {', '.join(pythons)}" if pythons else "no wheel fits this platform"

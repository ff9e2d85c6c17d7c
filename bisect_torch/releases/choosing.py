"""From what the user asked for to builds: ask the indexes; where one fails, go on with what is known without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.index import IndexOptions, catalogue_builds, effective_options, list_builds
from bisect_torch.releases.nightly_words import NIGHTLY
from bisect_torch.releases.selection import Selection, is_path, release_order, select

if TYPE_CHECKING:
    from bisect_torch.releases.unreleased import Unreleased

Unknown = Callable[[str, InfrastructureError], None]
"""Told the name of builds that cannot be known, and why the index that knows them could not be asked."""

PYPI = "pypi"
"""The backend that ``pip install torch`` gives."""

BETWEEN = "nightly builds between"
"""How those are called that :attr:`Selection.inside` asks for."""


def choose_builds(
    selection: Selection,
    options: IndexOptions,
    *,
    python: str | None = None,
    backend: str = "pypi",
    cache_dir: Path | None = None,
    ledger: Path | None = None,
    installed: Callable[[Build], bool] = lambda build: False,
    note: Callable[[str], None] = lambda text: None,
    unknown: Unknown | None = None,
    ask_facts: bool = True,
) -> tuple[Build, ...]:
    """The builds that take part, in release order.

    When an index of releases cannot be asked, its last answer is used, and for the public default index and PyTorch's
    own also the catalogue; ``note`` is called with a line that says so. An index of somebody else's that never answered
    has no such stand-in: it may have other builds under the same names. Nightly builds that were seen before and still
    have an environment need no index either, when they are named by day or version.

    Args:
        python: The minor Python that all must have a wheel for; None for any.
        backend: As for :func:`~bisect_torch.releases.index.list_builds`.
        cache_dir: Where answers of indexes are kept for ten minutes.
        ledger: The file in which nightly builds are remembered.
        installed: Whether a build has an environment already.
        unknown: Told of each name that only an index could have told the meaning of; the others are chosen then, if
            there are any. None: that is an error.
        ask_facts: Read commit and size of nightly builds out of their wheels, with some requests for each; else only
            what is remembered of them is known.

    Raises:
        UsageError: What was asked for does not exist; the message names the nearest that does.
        InfrastructureError: An index cannot be read, and nothing is left that can do without.
    """
    releases = _Releases(options, python, backend, cache_dir, note)
    if not selection.unreleased and not selection.nightly and selection.inside is None:
        return releases.chosen(selection, unknown)
    # Only now: it loads what asks servers, which takes as long as all else that is needed to find releases.
    from bisect_torch.releases.unreleased import Unreleased

    return _with_unreleased(
        selection,
        Unreleased.of(
            backend,
            ledger=ledger,
            python=python,
            cache_dir=cache_dir,
            offline=effective_options(options).offline,
            installed=installed,
            note=note,
        ),
        releases,
        unknown,
        ask_facts=ask_facts,
    )


def _with_unreleased(
    selection: Selection, source: Unreleased, releases: _Releases, unknown: Unknown | None, *, ask_facts: bool
) -> tuple[Build, ...]:
    """Nightly builds and release candidates are found first, and join what the rest of the selection gives."""
    failures: list[InfrastructureError] = []

    def known(name: str, find: Callable[[], tuple[Build, ...]]) -> tuple[Build, ...]:
        try:
            return find()
        except InfrastructureError as error:
            if unknown is None:
                raise
            failures.append(error)
            unknown(name, error)
            return ()

    named = [name for name in selection.versions if name in selection.unreleased]
    asked = {
        NIGHTLY if word.text == "latest" else word.text: partial(source.builds, word) for word in selection.nightly
    }
    asked.update({name: partial(source.named, name) for name in named})
    found = [build for name, find in asked.items() for build in known(name, find)]
    first = _end(selection.first, selection, source, place=0)
    last = known(str(selection.last), lambda: _end(selection.last, selection, source, place=-1))
    ends = (*first, *last)
    oldest = first[0].version if first else selection.first
    newest = last[0].version if last else selection.last
    if newest in selection.unreleased and not last:
        newest = None  # as far as there are releases
    if ends and selection.either_way:
        oldest, newest = _in_order(oldest, newest)
    rest = replace(
        selection,
        first=oldest,
        last=newest,
        versions=tuple(name for name in selection.versions if name not in named),
        exclude=tuple(name for name in selection.exclude if name not in selection.unreleased),
        nightly=(),
        inside=None,
    )
    chosen = {build.name: build for build in found}
    if selection.first or selection.last or rest.versions or not (found or failures):
        joined = releases.chosen(rest, unknown, more=(*source.every(), *ends) if ends else ())
        chosen.update((build.name, build) for build in joined)
    if selection.inside is not None and chosen:
        chosen = {
            build.name: build
            for build in chosen.values()
            if build.kind is not BuildKind.NIGHTLY or build in ends or build in found
        }
        inside = known(BETWEEN, partial(source.inside, selection.inside, list(chosen.values())))
        chosen.update((build.name, build) for build in inside)
    for name in selection.exclude:
        for build in source.excluded(name) if name in selection.unreleased else ():
            chosen.pop(build.name, None)
    if not chosen and failures:
        raise failures[0]
    if not chosen:
        raise UsageError("no build is left to run", hint="the options name some and exclude all of them")
    return source.with_facts(sorted(chosen.values(), key=release_order), ask=ask_facts)


def _in_order(first: str | None, last: str | None) -> tuple[str | None, str | None]:
    """Two ends of a range, the older first; as they are where one of them is no version: that is refused by name."""
    try:
        reversed_ends = first is not None and last is not None and Version(first) > Version(last)
    except InvalidVersion:
        return first, last
    return (last, first) if reversed_ends else (first, last)


def _end(name: str | None, selection: Selection, source: Unreleased, *, place: int) -> tuple[Build, ...]:
    """The build at an end of a range; none where a release or nothing stands there."""
    if name is None or name not in selection.unreleased:
        return ()
    build = source.named(name)[place]
    if build.kind is BuildKind.CANDIDATE:
        raise UsageError("a release candidate ends no range", hint="add it to one with --nightly test")
    return (build,)


@dataclass(frozen=True)
class _Releases:
    """Releases and local interpreters; the fields are arguments of :func:`choose_builds`."""

    options: IndexOptions
    python: str | None
    backend: str
    cache_dir: Path | None
    note: Callable[[str], None]

    def chosen(self, selection: Selection, unknown: Unknown | None, more: Sequence[Build] = ()) -> tuple[Build, ...]:
        """What a selection means.

        Args:
            more: Builds that are no releases, for a range that begins or ends with one.
        """
        if not selection.needs_listing:
            return select((), selection, python=self.python)
        listed, failed = self._listed(selection)
        builds = tuple({build.version: build for build in (*listed, *more)}.values())
        if failed is not None:
            selection = _of_known(selection, builds, failed, unknown)
        return select(builds, selection, python=self.python, note=self.note)

    def _listed(self, selection: Selection) -> tuple[tuple[Build, ...], InfrastructureError | None]:
        """All releases that are known, and why there may be more."""
        outdated: list[tuple[InfrastructureError, str]] = []
        builds: tuple[Build, ...] = ()
        try:
            builds = list_builds(
                self.options,
                python=self.python,
                backend=self.backend,
                cache_dir=self.cache_dir,
                outdated=lambda error, age: outdated.append((error, age)),
            )
        except InfrastructureError as error:
            if not self._catalogue_knows:
                raise
            failed, instead = error, "the catalogue that ships with the tool"
        else:
            if effective_options(self.options).offline:
                return builds, InfrastructureError("offline: no index is asked")
            if not outdated:
                return builds, None
            failed, instead = outdated[0][0], f"what it answered {outdated[0][1]} ago"
        if self._catalogue_knows:
            there = {build.version for build in builds}
            more = (build for build in self._of_catalogue() if build.version not in there)
            builds = tuple(sorted([*builds, *more], key=release_order))
        newest = f", whose newest release is {builds[-1].version}" if selection.has_range else ""
        self.note(f"{failed.message}; using {instead}{newest}")
        return builds, failed

    @property
    def _catalogue_knows(self) -> bool:
        """Whether the index is the public default or PyTorch's own: another one may have other builds."""
        effective = effective_options(self.options)
        return self.backend != PYPI or not (effective.index_url or effective.extra_index_urls)

    def _of_catalogue(self) -> tuple[Build, ...]:
        """Its releases. Lock and sizes are those of the default index; another backend has other files."""
        builds = catalogue_builds(self.python)
        if self.backend == PYPI:
            return builds
        return tuple(replace(build, lock=None, git_commit=None, download_bytes=None) for build in builds)


def _of_known(
    selection: Selection, builds: Sequence[Build], failed: InfrastructureError, unknown: Unknown | None
) -> Selection:
    """The selection without the releases that are newer than all that are known: only the index could tell of them.

    A range to one of them ends at the newest that is known.

    Raises:
        InfrastructureError: Nothing is left, or ``unknown`` is None and something is missing.
    """
    newest = max(Version(build.version) for build in builds)

    def is_known(name: str) -> bool:
        try:
            return is_path(name) or Version(name) <= newest
        except InvalidVersion:
            return True  # refused for what it is

    named = [name for name in (selection.first, selection.last, *selection.versions) if name is not None]
    missing = [name for name in dict.fromkeys(named) if not is_known(name)]
    if missing and unknown is None:
        raise InfrastructureError(f"torch {missing[0]} is not known: {failed.message}", hint=failed.hint)
    kept = replace(
        selection,
        last=str(newest) if selection.last in missing else selection.last,
        versions=tuple(filter(is_known, selection.versions)),
        exclude=tuple(filter(is_known, selection.exclude)),
    )
    if selection.first in missing or kept.has_range != selection.has_range:
        raise failed
    for name in missing:
        assert unknown is not None
        unknown(name, failed)
    return kept

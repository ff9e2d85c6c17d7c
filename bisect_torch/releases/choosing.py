"""From what the user asked for to builds: ask the indexes, fall back to the catalogue where that is enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.model import Build, BuildKind
from bisect_torch.releases.index import IndexOptions, catalogue_builds, effective_options, list_builds
from bisect_torch.releases.selection import Selection, release_order, select

if TYPE_CHECKING:
    from bisect_torch.releases.unreleased import Unreleased


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
    ask_facts: bool = True,
) -> tuple[Build, ...]:
    """The builds that take part, in release order.

    When the public default index cannot be reached and all that was asked for stands in the catalogue, the catalogue is
    used, and ``note`` is called with a line that says so. Another index has no such stand-in. Nightly builds that were
    seen before and still have an environment need no index either, when they are named by day or version.

    Args:
        python: The minor Python that all must have a wheel for; None for any.
        backend: As for :func:`~bisect_torch.releases.index.list_builds`.
        cache_dir: Where answers of indexes are kept for ten minutes.
        ledger: The file in which nightly builds are remembered.
        installed: Whether a build has an environment already.
        ask_facts: Read commit and size of nightly builds out of their wheels, with some requests for each; else only
            what is remembered of them is known.

    Raises:
        UsageError: What was asked for does not exist; the message names the nearest that does.
        InfrastructureError: An index cannot be read.
    """
    if not selection.unreleased and not selection.nightly and selection.inside is None:
        return _releases(selection, options, python, backend, cache_dir, note)
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
        releases=lambda rest: _releases(rest, options, python, backend, cache_dir, note),
        list_releases=lambda: list_builds(options, python=python, backend=backend, cache_dir=cache_dir),
        ask_facts=ask_facts,
    )


def _with_unreleased(
    selection: Selection,
    source: Unreleased,
    *,
    releases: Callable[[Selection], tuple[Build, ...]],
    list_releases: Callable[[], tuple[Build, ...]],
    ask_facts: bool,
) -> tuple[Build, ...]:
    """Nightly builds and release candidates are found first, and join what the rest of the selection gives."""
    named = [name for name in selection.versions if name in selection.unreleased]
    found = [build for word in selection.nightly for build in source.builds(word)]
    found += [build for name in named for build in source.named(name)]
    first = _end(selection.first, selection, source, place=0)
    last = _end(selection.last, selection, source, place=-1)
    ends = [build for build in (first, last) if build is not None]
    oldest = selection.first if first is None else first.version
    newest = selection.last if last is None else last.version
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
    if rest.first or rest.last or rest.versions or not found:
        if ends:
            between = {build.version: build for build in (*list_releases(), *source.every(), *ends)}
            joined = select(tuple(between.values()), rest, python=source.python)
        else:
            joined = releases(rest)
        chosen.update((build.name, build) for build in joined)
    if selection.inside is not None and chosen:
        chosen = {
            build.name: build
            for build in chosen.values()
            if build.kind is not BuildKind.NIGHTLY or build in ends or build in found
        }
        chosen.update((build.name, build) for build in source.inside(selection.inside, list(chosen.values())))
    for name in selection.exclude:
        for build in source.excluded(name) if name in selection.unreleased else ():
            chosen.pop(build.name, None)
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


def _end(name: str | None, selection: Selection, source: Unreleased, *, place: int) -> Build | None:
    """The build at an end of a range; None where a release or nothing stands there."""
    if name is None or name not in selection.unreleased:
        return None
    build = source.named(name)[place]
    if build.kind is BuildKind.CANDIDATE:
        raise UsageError("a release candidate ends no range", hint="add it to one with --nightly test")
    return build


def _releases(
    selection: Selection,
    options: IndexOptions,
    python: str | None,
    backend: str,
    cache_dir: Path | None,
    note: Callable[[str], None],
) -> tuple[Build, ...]:
    """Releases and local interpreters."""
    if not selection.needs_listing:
        return select((), selection, python=python)
    try:
        builds = list_builds(options, python=python, backend=backend, cache_dir=cache_dir)
    except InfrastructureError as error:
        effective = effective_options(options)
        if backend != "pypi" or effective.index_url is not None or effective.extra_index_urls:
            raise
        builds = catalogue_builds(python)
        try:
            chosen = select(builds, selection, python=python)
        except UsageError:
            raise error from None
        newest = f", whose newest release is {builds[-1].version}" if selection.has_range else ""
        note(f"{error.message}; using the catalogue that ships with the tool{newest}")
        return chosen
    return select(builds, selection, python=python)

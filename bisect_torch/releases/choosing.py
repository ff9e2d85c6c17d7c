"""From what the user asked for to builds: ask the indexes, fall back to the catalogue where that is enough."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bisect_torch.errors import InfrastructureError, UsageError
from bisect_torch.model import Build
from bisect_torch.releases.index import IndexOptions, catalogue_builds, effective_options, list_builds
from bisect_torch.releases.selection import Selection, select


def choose_builds(
    selection: Selection,
    options: IndexOptions,
    *,
    python: str | None = None,
    backend: str = "pypi",
    cache_dir: Path | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> tuple[Build, ...]:
    """The builds that take part, in release order.

    When the public default index cannot be reached and all that was asked for stands in the catalogue, the catalogue is
    used, and ``note`` is called with a line that says so. Another index has no such stand-in.

    Args:
        python: The minor Python that all must have a wheel for; None for any.
        backend: As for :func:`~bisect_torch.releases.index.list_builds`.
        cache_dir: Where answers of indexes are kept for ten minutes.

    Raises:
        UsageError: What was asked for does not exist; the message names the nearest that does.
        InfrastructureError: An index cannot be read.
    """
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

"""What a user may choose about environments; the same for a whole run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bisect_torch.environments.store import Store
from bisect_torch.model import Build
from bisect_torch.releases.index import IndexOptions

DEFAULT_BACKEND = "pypi"


@dataclass(frozen=True)
class SlowestPace:
    """The pace below which a download is given up. uv itself bounds only silence: a byte now and then is none.

    10 kB/s: the smallest torch, 0.2 GB, would take longer than the four hours that an install may take in all, so that
    nothing is lost by giving up early. Ten minutes: a connection that drops, or an index that restarts, has come back
    by then or does not come back soon. At 300 kB/s three gigabytes take three hours, and are left alone. uv writes in
    pieces of up to 1 MiB: the pace is that of several such pieces, or it could not be told from none.

    Args:
        bytes_per_s: Of wheels.
        over_s: Seconds over which it is measured; no download is given up before.
    """

    bytes_per_s: float = 10_000.0
    over_s: float = 600.0


@dataclass(frozen=True)
class EnvironmentOptions:
    """How environments are made.

    Args:
        store: Where they lie.
        python: ``3.12``, ``3.12.4`` or an interpreter's path; None chooses one that covers the range.
        backend: ``pypi`` (what ``pip install torch`` gives) or a value of uv's ``--torch-backend``.
        index: Where packages come from.
        extras: Requirements installed beside torch: ``torchvision`` follows the release's day,
            ``pandas==2.2.3`` is fixed.
        editable: Folders of projects installed as editable.
        max_disk_bytes: What the store may take at most; None for what is free.
        locks: ``release``: dependencies of the release's day; ``today``: the newest ones.
        pass_env: Variables that cells and builds get although they hold secrets.
        slowest: The pace below which a download is given up.
    """

    store: Store
    python: str | None = None
    backend: str = DEFAULT_BACKEND
    index: IndexOptions = field(default_factory=IndexOptions)
    extras: tuple[str, ...] = ()
    editable: tuple[Path, ...] = ()
    locks: str = "release"
    max_disk_bytes: int | None = None
    pass_env: tuple[str, ...] = ()
    slowest: SlowestPace = field(default_factory=SlowestPace)

    def backend_of(self, build: Build) -> str:
        """The backend that a build is of: that of the run, which leaves open where nightly builds come from."""
        return build.index.rpartition("/")[2] if build.index is not None else self.backend

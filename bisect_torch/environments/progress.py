"""How far a download is, from what uv says and from what it writes.

On a pipe uv says ``Downloading torch (866.2MiB)`` when a large file begins and ``Downloaded torch`` when it ends, and
nothing between. Between, the bytes are unpacked as they come into ``.tmp…`` folders of the cache: their growth is
measured once a second. A wheel unpacks to more than its size, so that growth is divided by a ratio and never counts for
more than the files that are under way.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType

from bisect_torch.environments.options import SlowestPace
from bisect_torch.environments.uv_said import redact
from bisect_torch.model import Build, BuildProgress

UNPACK_RATIO = 2.1
"""Unpacked bytes for one byte of wheel: of the 212 Linux x86_64 wheels above 30 MB in the committed table of sizes."""

_TICK_S = 1.0

_STARTED = re.compile(r"^\s*Downloading (\S+) \(([\d.]+)\s?([KMGT]?i?B)\)")
_ENDED = re.compile(r"^\s*Downloaded (\S+)")
_BUILDS, _BUILT = re.compile(r"^\s*Building (\S+)"), re.compile(r"^\s*Built (\S+)")
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "KB": 10**3, "MB": 10**6, "GB": 10**9}


class DownloadMeter:
    """Reports the progress of one ``uv pip install`` while it is entered, and tells when it is too slow.

    Args:
        cache: uv's cache. Several installs write there at once; the growth is shared between the meters by what each
            has under way.
        progress: Called once a second and at each line that matters.
        slowest: All that comes into the cache counts: an install that waits for another one's download is not slow.
        target: The environment that is filled: once there is a package in it, all has come.
    """

    _running: set[DownloadMeter] = set()  # noqa: RUF012 - one set for the process on purpose
    _running_lock = threading.Lock()
    _foreign: set[Path] = set()  # noqa: RUF012

    def __init__(
        self,
        build: Build,
        cache: Path,
        progress: Callable[[BuildProgress], None],
        slowest: SlowestPace,
        target: Path,
    ) -> None:
        self._slowest = slowest
        self._target = target
        self._came: deque[float] = deque(maxlen=max(1, round(self._slowest.over_s / _TICK_S)))
        self._sizes: dict[Path, int] = {}
        self._builds: set[str] = set()
        self._prepared = False
        self.too_slow = ""
        self._build = build
        self._cache = cache
        self._progress = progress
        self._under_way: dict[str, int] = {}
        self._finished: dict[str, int] = {}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._measure, daemon=True)
        self._last = 0

    def __enter__(self) -> DownloadMeter:
        with self._running_lock:
            if not self._running:
                # What is there before anything of ours runs was left behind by a killed run or belongs to another one.
                self._foreign.clear()
                self._foreign.update(self._cache.glob(".tmp*"))
            self._running.add(self)
        self._sizes = unpacked_sizes(self._cache, self._foreign)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        with self._running_lock:
            self._running.discard(self)

    def line(self, text: str) -> None:
        """Take in one line of uv's stderr."""
        started, ended = _STARTED.match(text), _ENDED.match(text)
        builds, built = _BUILDS.match(text), _BUILT.match(text)
        with self._lock:
            if builds:
                self._builds.add(builds[1])
            elif built:
                self._builds.discard(built[1])
            if started:
                self._under_way[started[1]] = int(float(started[2]) * _UNITS.get(started[3], 1))
            elif ended:
                self._finished[ended[1]] = self._under_way.pop(ended[1], 0)
        if started or ended:
            self._report()
        elif text.startswith("Prepared "):
            self._prepared = True
            self._progress(BuildProgress(self._build, "installing"))
        elif text.startswith("retrying: "):
            self._builds.clear()
            self._progress(BuildProgress(self._build, "downloading", message=redact(text)))

    @property
    def under_way_bytes(self) -> int:
        """Of the files that are being downloaded at the moment."""
        with self._lock:
            return sum(self._under_way.values())

    def _measure(self) -> None:
        while not self._stop.wait(_TICK_S):
            if self.under_way_bytes:
                self._report()
            self._watch_pace()

    def _watch_pace(self) -> None:
        """One more tick has passed. Ticks are counted, not time: a laptop that slept has not been slow.

        What is built from source, and what is linked once all is there, takes its time without any download.
        """
        sizes = unpacked_sizes(self._cache, self._foreign)
        grown = sum(max(0, size - self._sizes.get(folder, 0)) for folder, size in sizes.items())
        self._sizes = sizes
        if self._builds or self._prepared or any(self._target.glob("lib/python*/site-packages/*.dist-info")):
            self._came.clear()
            return
        self._came.append(grown / UNPACK_RATIO)
        came, least = sum(self._came), self._slowest.bytes_per_s * self._slowest.over_s
        if len(self._came) == self._came.maxlen and came < least:
            over = self._slowest.over_s
            minutes = f"{over / 60:.0f} min" if over >= 60 else f"{over:.0f} s"
            self.too_slow = f"the download makes no progress: {came / 1e6:.1f} MB in {minutes}{self._of()}"

    def _of(self) -> str:
        left = self.under_way_bytes
        return f", of {left / 1e6:.1f} MB" if left else ""

    def _report(self) -> None:
        with self._running_lock:
            others = sum(meter.under_way_bytes for meter in self._running if meter is not self)
        with self._lock:
            mine, finished = sum(self._under_way.values()), sum(self._finished.values())
        share = mine / (mine + others) if mine else 0.0
        growing = int(min(mine, unpacked_bytes(self._cache, self._foreign) * share / UNPACK_RATIO)) if mine else 0
        # Never backwards: a file that ends is exact, its growth was an estimate.
        self._last = max(self._last, finished + growing)
        self._progress(BuildProgress(self._build, "downloading", done_bytes=self._last, total_bytes=finished + mine))


def unpacked_bytes(cache: Path, without: Collection[Path] = ()) -> int:
    """Bytes in the folders of the cache that uv is filling now."""
    return sum(unpacked_sizes(cache, without).values())


def unpacked_sizes(cache: Path, without: Collection[Path] = ()) -> dict[Path, int]:
    """The same, of each folder."""
    sizes: dict[Path, int] = {}
    for folder in set(cache.glob(".tmp*")).difference(without):
        total = 0
        for parent, _, names in os.walk(folder):
            for name in names:
                try:
                    total += os.lstat(os.path.join(parent, name)).st_size
                except OSError:
                    continue  # renamed into place meanwhile
        sizes[folder] = total
    return sizes

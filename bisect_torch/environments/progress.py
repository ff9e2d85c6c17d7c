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
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType

from bisect_torch.environments.failures import redact
from bisect_torch.model import Build, BuildProgress

UNPACK_RATIO = 2.1
"""Unpacked bytes for one byte of wheel: of the 212 Linux x86_64 wheels above 30 MB in the committed table of sizes."""

_STARTED = re.compile(r"^\s*Downloading (\S+) \(([\d.]+)\s?([KMGT]?i?B)\)")
_ENDED = re.compile(r"^\s*Downloaded (\S+)")
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "KB": 10**3, "MB": 10**6, "GB": 10**9}


class DownloadMeter:
    """Reports the progress of one ``uv pip install`` while it is entered.

    Args:
        cache: uv's cache. Several installs write there at once; the growth is shared between the meters by what each
            has under way.
        progress: Called once a second and at each line that matters.
    """

    _running: set[DownloadMeter] = set()  # noqa: RUF012 - one set for the process on purpose
    _running_lock = threading.Lock()
    _foreign: set[Path] = set()  # noqa: RUF012

    def __init__(self, build: Build, cache: Path, progress: Callable[[BuildProgress], None]) -> None:
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
        with self._lock:
            if started:
                self._under_way[started[1]] = int(float(started[2]) * _UNITS.get(started[3], 1))
            elif ended:
                self._finished[ended[1]] = self._under_way.pop(ended[1], 0)
        if started or ended:
            self._report()
        elif text.startswith("Prepared "):
            self._progress(BuildProgress(self._build, "installing"))
        elif text.startswith("retrying: "):
            self._progress(BuildProgress(self._build, "downloading", message=redact(text)))

    @property
    def under_way_bytes(self) -> int:
        with self._lock:
            return sum(self._under_way.values())

    def _measure(self) -> None:
        while not self._stop.wait(1.0):
            if self.under_way_bytes:
                self._report()

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
    total = 0
    for folder in set(cache.glob(".tmp*")).difference(without):
        for parent, _, names in os.walk(folder):
            for name in names:
                try:
                    total += os.lstat(os.path.join(parent, name)).st_size
                except OSError:
                    continue  # renamed into place meanwhile
    return total

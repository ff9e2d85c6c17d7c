"""What is noted around the code under test: time, memory, warnings, threads, and the modules that it imported."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import sys
import time
import warnings
from types import ModuleType
from typing import Any, Dict, Iterator, List, Optional

from bisect_torch.worker import system

_MOST_WARNINGS = 50
_LONGEST_WARNING = 500

_own_folder: List[str] = []
"""The cell's temporary folder, where compilers leave modules too."""


def begin(folder: str) -> None:
    """Call once in a cell, before the code under test.

    Args:
        folder: The cell's own.
    """
    _own_folder[:] = [os.path.realpath(folder)]


class Clock:
    """Time and peak memory from :meth:`start` to :meth:`stop`."""

    def __init__(self) -> None:
        self._started: Optional[float] = None
        self._resident: Optional[int] = None

    def start(self) -> None:
        """Measure from here."""
        self._resident = system.reset_peak()
        self._started = time.perf_counter()

    def stop(self, facts: Dict[str, Any]) -> None:
        """Add the facts ``elapsed_s`` and ``peak_rss_bytes``: how much the cell's memory grew at most."""
        if self._started is None:
            return
        facts["elapsed_s"] = time.perf_counter() - self._started
        if self._resident is not None:
            facts["peak_rss_bytes"] = max(0, system.peak_bytes() - self._resident)


@contextlib.contextmanager
def recorded_warnings(facts: Dict[str, Any]) -> Iterator[None]:
    """Record Python warnings, each kind once per place, into ``facts``; they are not printed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    noted: List[str] = []
    for warning in caught or ():
        note_warning(noted, warning.category, warning.message)
    facts["warnings"] = json.dumps(noted)


def note_warning(noted: List[str], category: type, message: object) -> None:
    """Add ``Category: message`` to a bounded list, once."""
    text = ("%s: %s" % (category.__name__, message))[:_LONGEST_WARNING]
    if len(noted) < _MOST_WARNINGS and text not in noted:
        noted.append(text)


def add(facts: Dict[str, Any], file: str, known: int) -> None:
    """Add what is known only at the end: threads of torch, local modules really imported, peak device memory.

    Args:
        known: How many modules had been imported before the file was loaded.
    """
    torch = sys.modules.get("torch")
    with contextlib.suppress(AttributeError, RuntimeError):
        facts["threads"] = torch.get_num_threads()  # type: ignore[union-attr]
    facts["local_modules"] = json.dumps(local_modules(file, _newest_modules(known)), sort_keys=True)
    with contextlib.suppress(AttributeError, RuntimeError):
        if torch is not None and torch.cuda.is_initialized():
            facts["peak_device_bytes"] = int(torch.cuda.max_memory_allocated())


def _newest_modules(known: int) -> List[ModuleType]:
    # From the end, so that a fork does not touch (and copy the memory of) the thousands of modules before.
    newest = itertools.islice(reversed(sys.modules), max(0, len(sys.modules) - known))
    return [sys.modules[name] for name in list(newest)]


def local_modules(file: str, modules: List[ModuleType]) -> Dict[str, str]:
    """Relative path to SHA-256 of the modules that were loaded from the case file's folder, itself left out."""
    folder = os.path.dirname(os.path.realpath(file))
    others = tuple(os.path.join(each, "") for each in (sys.prefix, sys.base_prefix, *_own_folder))
    found: Dict[str, str] = {}
    for module in modules:
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or not path.endswith(".py"):
            continue
        real = os.path.realpath(path)
        inside = real.startswith(folder + os.sep) and "site-packages" not in real and real != os.path.realpath(file)
        if inside and not real.startswith(others):
            with contextlib.suppress(OSError), open(real, "rb") as source:
                found[os.path.relpath(real, folder)] = hashlib.sha256(source.read()).hexdigest()
    return found


def flush() -> None:
    """Write out what Python holds back."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()

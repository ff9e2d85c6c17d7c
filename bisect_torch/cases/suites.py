"""The named groups of case files that ship with the tool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bisect_torch.errors import UsageError
from bisect_torch.shipped import shipped

DEFAULT_SUITE = "default"
"""What runs where neither files nor a command nor a suite is named."""

SUITES: Mapping[str, tuple[str, ...]] = {
    DEFAULT_SUITE: ("default.py", "large_index_quick.py"),
    "large-index": ("large_index_*.py",),
    "decoding": ("decoding_*.py",),
}
"""Name to the patterns of its files."""


def suite_files(name: str) -> list[Path]:
    """The files of a suite that ships, in alphabetical order, helpers among them included.

    Raises:
        UsageError: There is no such suite, or this installation has no file of it.
    """
    if name not in SUITES:
        raise UsageError(f"--suite {name!r} is not known", hint=f"the suites are: {', '.join(SUITES)}")
    folder = shipped("cases")
    found = {path for pattern in SUITES[name] for path in folder.glob(pattern)}
    if not found:
        raise UsageError(f"--suite {name}: this installation has no case file of it", hint="install bisect-torch again")
    return sorted(found)

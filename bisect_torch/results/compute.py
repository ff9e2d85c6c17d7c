"""``pyarrow.compute``, loaded at its first use: that takes as long as looking up what a few hundred cells gave."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute

    return getattr(pyarrow.compute, name)

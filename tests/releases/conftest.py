"""Every test here sees no index but its own, and a uv cache of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_outside_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("UV_", "BISECT_TORCH_BACKEND", "BISECT_TORCH_STORE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("BISECT_TORCH_STORE", str(tmp_path / "store"))

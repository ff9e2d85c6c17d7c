from __future__ import annotations

from tests.engine.conftest import make_tool

__all__ = ["make_tool"]

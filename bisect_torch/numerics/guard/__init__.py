"""A guard that stops torch operations on tensors too large for a device's kernels (arXiv 2609.22991).

``from bisect_torch.numerics import Guard``. Imports torch when it is used: only the settings can be read without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bisect_torch.numerics.guard.errors import GuardError, GuardWarning
    from bisect_torch.numerics.guard.switch import Guard

__all__ = ["Guard", "GuardError", "GuardWarning"]


def __getattr__(name: str) -> Any:
    if name == "Guard":
        from bisect_torch.numerics.guard.switch import Guard

        return Guard
    if name in ("GuardError", "GuardWarning"):
        from bisect_torch.numerics.guard import errors

        return getattr(errors, name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))

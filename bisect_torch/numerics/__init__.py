"""Torch code for users and cases: inputs, references, comparison, guard. Imports torch only when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bisect_torch.numerics.inputs import integers, normal, uniform

if TYPE_CHECKING:
    from bisect_torch.numerics.guard import Guard, GuardError, GuardWarning

__all__ = ["Guard", "GuardError", "GuardWarning", "integers", "normal", "uniform"]


def __getattr__(name: str) -> Any:
    if name in ("Guard", "GuardError", "GuardWarning"):
        from bisect_torch.numerics import guard

        return getattr(guard, name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))

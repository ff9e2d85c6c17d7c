"""Torch code for users and cases: inputs, references, comparison, guard, LayerCast. Imports torch only on use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bisect_torch.numerics.inputs import integers, normal, uniform

if TYPE_CHECKING:
    from bisect_torch.numerics.guard import Guard, GuardError, GuardWarning
    from bisect_torch.numerics.layercast import LayerCast, LayerCastError

__all__ = ["Guard", "GuardError", "GuardWarning", "LayerCast", "LayerCastError", "integers", "normal", "uniform"]


def __getattr__(name: str) -> Any:
    if name in ("Guard", "GuardError", "GuardWarning"):
        from bisect_torch.numerics import guard

        return getattr(guard, name)
    if name in ("LayerCast", "LayerCastError"):
        from bisect_torch.numerics import layercast

        return getattr(layercast, name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))

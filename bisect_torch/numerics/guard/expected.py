"""Output sizes before an operation runs: it is run on ``meta`` tensors, which have sizes and no data."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from bisect_torch.numerics.guard.extent import extent, tensors_in

_MOST_KNOWN = 4096
# What torch raises for an operation that has no meta kernel, whose output's size depends on data, or whose arguments do
# not fit together; the operation itself then says so, and its outputs are looked at afterwards.
_NOT_KNOWN = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError, KeyError)


class ExpectedSizes:
    """Extents of the largest output, kept per operation and argument sizes."""

    def __init__(self) -> None:
        self._known: Dict[Any, Optional[int]] = {}

    def largest(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Optional[int]:
        """Extent in elements of the largest output that ``func`` would give, or None where it cannot be known."""
        key = (func, _key(args), tuple([(name, _key(value)) for name, value in kwargs.items()]))
        if key in self._known:
            return self._known[key]
        found = _on_meta(func, args, kwargs)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = found
        return found


def _key(value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.is_nested or value.layout is not torch.strided:
            return None  # never known
        return (value.shape, value.stride())
    if isinstance(value, (list, tuple)):
        return tuple([_key(each) for each in value])
    return value if isinstance(value, (int, float, bool, str, type(None), torch.dtype, torch.device)) else type(value)


def _on_meta(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Optional[int]:
    named = {name: value for name, value in kwargs.items() if name not in ("generator", "pin_memory")}
    if "device" in named or any(argument.name == "device" for argument in func._schema.arguments):
        named["device"] = torch.device("meta")
    # Neither the user's own modes nor subclasses are to see this.
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        try:
            result = func(*[_meta(each) for each in args], **{name: _meta(value) for name, value in named.items()})
            return max([extent(each) for each in tensors_in(result)], default=0)
        except _NOT_KNOWN:
            return None


def _meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.layout is not torch.strided or value.is_nested or value.is_quantized:
            raise NotImplementedError("no meta form of this layout")
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, torch.device):
        return torch.device("meta")
    if isinstance(value, torch.Generator):
        return None
    if isinstance(value, (list, tuple)):
        return type(value)([_meta(each) for each in value]) if not isinstance(value, torch.Size) else value
    return value

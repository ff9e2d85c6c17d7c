"""Digests of values: the same on every release, device and memory layout when the bits are the same."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import hashlib
import sys
from typing import TYPE_CHECKING, Any, List, Optional, Sequence

from bisect_torch.numerics.blocks import block_indices, block_on_cpu, raw_bytes
from bisect_torch.numerics.leaves import children, is_numpy, structure_name, tensor_parts

if TYPE_CHECKING:
    import torch

_HEX = 32  # characters: 128 bits, far beyond any accidental collision among the cells of a run
_STABLE = (int, str, bytes, type(None), decimal.Decimal, fractions.Fraction, datetime.date, datetime.timedelta)
_TORCH_STABLE = ("dtype", "device", "layout", "memory_format")

_inputs: List[str] = []


def tensor_digest(tensor: "torch.Tensor") -> str:
    """Digest over data type, shape and bits, in logical order, read block by block.

    Strides, device, gradient and the release of torch play no part. Sparse and quantised tensors are digested by their
    parts (see :func:`bisect_torch.numerics.leaves.tensor_parts`).
    """
    parts = tensor_parts(tensor)
    if parts is not None:
        return combine([_text(type_name(tensor)), *(digest(parts[name]) for name in sorted(parts))]) or ""
    hasher = hashlib.blake2b(digest_size=_HEX // 2)
    hasher.update(f"tensor {type_name(tensor)} {list(tensor.shape)}".encode())
    for _, index in block_indices(tensor.shape):
        block = block_on_cpu(tensor, index)
        hasher.update(raw_bytes(block))
    return hasher.hexdigest()


def type_name(tensor: "torch.Tensor") -> str:
    """``float32``, without the module's name."""
    return str(tensor.dtype).rpartition(".")[2]


def digest(value: Any) -> Optional[str]:
    """Digest of a nested value, or None when a part of it has no stable content (an object of an unknown class)."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return tensor_digest(value) if value.device.type != "meta" else None
    facts = getattr(value, "facts", None)
    if isinstance(facts, dict):  # a CheckResult inside a returned tuple stands for what it compared
        return facts.get("digest")
    if is_numpy(value):
        return _numpy_digest(value)
    nested = children(value)
    if nested is not None:
        parts: List[Optional[str]] = [_text(f"{structure_name(value)} {len(nested)}")]
        for key, child in nested:
            parts += [digest(key) if not isinstance(key, str) else _text(f"key {key}"), digest(child)]
        return None if None in parts else combine(parts)
    return _scalar_digest(value)


def _numpy_digest(value: Any) -> Optional[str]:
    array = sys.modules["numpy"].asarray(value)
    if array.dtype.hasobject:
        return None
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    hasher = hashlib.blake2b(f"numpy {little.dtype.str} {list(array.shape)}".encode(), digest_size=_HEX // 2)
    hasher.update(little.tobytes())
    return hasher.hexdigest()


def _scalar_digest(value: Any) -> Optional[str]:
    if isinstance(value, enum.Enum):
        return _text(f"enum {type(value).__qualname__}.{value.name}")
    if isinstance(value, float):
        return _text("float " + value.hex())
    if isinstance(value, complex):
        return _text(f"complex {value.real.hex()} {value.imag.hex()}")
    if isinstance(value, _STABLE):
        return _text(f"{type(value).__name__} {value!r}")
    if isinstance(value, (set, frozenset)):
        parts = [digest(item) for item in value]
        return None if None in parts else combine([_text("set"), *sorted(part for part in parts if part)])
    if type(value).__module__ == "torch" and type(value).__name__ in _TORCH_STABLE:
        return _text(f"{type(value).__name__} {value}")
    return None


def _text(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HEX // 2).hexdigest()


def combine(parts: Sequence[Optional[str]]) -> Optional[str]:
    """One digest for several, order counts; a single one stands for itself, and without any, None."""
    if len(parts) == 1:
        return parts[0]
    return _text(" ".join(part or "-" for part in parts)) if any(parts) else None


def record_input(value: Any) -> None:
    """Note a value as an input of the running case."""
    found = digest(value)
    if found is not None:
        _inputs.append(found)


def recorded_inputs() -> Optional[str]:
    """Digest over the inputs noted since :func:`forget_inputs`, in order; None when there were none."""
    return combine(_inputs) if _inputs else None


def forget_inputs() -> None:
    """A new case begins."""
    del _inputs[:]

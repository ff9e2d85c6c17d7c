"""How values nest: what counts as a container, what as a leaf, and what tensors of unusual layout consist of."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

if TYPE_CHECKING:
    import torch


def is_numpy(value: Any) -> bool:
    """Whether it is a numpy array or scalar."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def children(value: Any) -> Optional[List[Tuple[Any, Any]]]:
    """Key (or field name, or position) and value of each child of a container; None for a leaf.

    Keys of a mapping are sorted by their text, so that the order of insertion plays no part.
    """
    if isinstance(value, Mapping):
        return sorted(value.items(), key=lambda item: str(item[0]))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(name, getattr(value, name)) for name in value._fields]
    if isinstance(value, (list, tuple, range)):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return None


def structure_name(value: Any) -> str:
    """``mapping``, ``sequence`` or the fields' class: containers of one sort are compared with each other."""
    if isinstance(value, (list, tuple, range)) and not hasattr(value, "_fields"):
        return "sequence"
    return "mapping" if isinstance(value, Mapping) else type(value).__name__


def tensor_parts(tensor: "torch.Tensor") -> Optional[Dict[str, Any]]:
    """The plain tensors and numbers that a nested, sparse or quantised tensor consists of; None for a plain one."""
    if getattr(tensor, "is_nested", False):
        return {"tensors": list(tensor.unbind())}
    if tensor.is_quantized:
        return _quantised_parts(tensor)
    layout = str(tensor.layout).rpartition(".")[2]
    if layout == "sparse_coo":
        tensor = tensor.detach().coalesce()
        return {"shape": list(tensor.shape), "indices": tensor.indices(), "values": tensor.values()}
    if layout in ("sparse_csr", "sparse_bsr"):
        plain, compressed = tensor.crow_indices(), tensor.col_indices()
    elif layout in ("sparse_csc", "sparse_bsc"):
        plain, compressed = tensor.ccol_indices(), tensor.row_indices()
    elif layout == "_mkldnn":
        return {"dense": tensor.to_dense()}
    else:
        return None
    return {"layout": layout, "shape": list(tensor.shape), "a": plain, "b": compressed, "values": tensor.values()}


def _quantised_parts(tensor: "torch.Tensor") -> Dict[str, Any]:
    parts: Dict[str, Any] = {"integers": tensor.int_repr()}
    if "affine" in str(tensor.qscheme()) and "channel" not in str(tensor.qscheme()):
        parts.update(scale=tensor.q_scale(), zero_point=tensor.q_zero_point())
    else:
        parts.update(scale=tensor.q_per_channel_scales(), zero_point=tensor.q_per_channel_zero_points())
    return parts


_DENSE_LIMIT = 1 << 27  # elements: 1 GiB in float64


def densify(value: Any) -> Any:
    """A tensor of unusual layout as something that can be compared: dense, or its parts where too large."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    if getattr(value, "is_nested", False):
        return list(value.unbind())
    if value.layout == torch.strided:
        return value
    if value.numel() <= _DENSE_LIMIT or str(value.layout) == "torch._mkldnn":
        return value.detach().to_dense()
    return tensor_parts(value)

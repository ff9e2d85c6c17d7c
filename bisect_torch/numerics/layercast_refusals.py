"""What ``LayerCast`` does not take, found before anything is converted."""

from __future__ import annotations

from typing import Any, Iterator, Optional

import torch
from torch import nn

_CLASSES = {
    "torch.jit._script.ScriptModule": "is scripted or traced; convert the module that it was made of",
    "torch.fx.graph_module.GraphModule": "is a traced graph; convert the module that it was made of",
    "torch._dynamo.eval_frame.OptimizedModule": "is compiled already; compile the LayerCast instead",
    "torch.nn.parallel.data_parallel.DataParallel": "spreads over devices; convert the module in it",
    "torch.nn.parallel.distributed.DistributedDataParallel": "spreads over processes; convert the module in it",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": "shards its parameters",
    "bisect_torch.numerics.layercast._ReadsWide": "is converted already",
    "bisect_torch.numerics.layercast.LayerCast": "is converted already",
}
_QUANTISED = ("torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.", "torch.ao.nn.sparse.quantized.")
_ROUNDABLE = (torch.float32, torch.float64)


class LayerCastError(RuntimeError):
    """``LayerCast`` cannot do this; the message names the part of the model and, where there is one, the way out."""


def refuse_what_cannot_be_cast(model: Any, dtype: Any) -> None:
    """Look at every part of a model.

    Args:
        model: A module.
        dtype: The 16-bit type that its parameters are to be kept in.

    Raises:
        LayerCastError: A part cannot be handled. The model is unchanged.
        TypeError: It is no module.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"LayerCast takes a torch.nn.Module, not {type(model).__name__}")
    parameters = {id(parameter) for module in model.modules() for parameter in module._parameters.values()}
    for path, module in model.named_modules():
        where = f"{path or 'the model'} ({type(module).__name__})"
        reason = _of_module(module) or _of_attributes(module, parameters)
        if reason:
            raise LayerCastError(f"{where} {reason}")
        for name, parameter in module._parameters.items():
            reason = None if parameter is None else _of_parameter(parameter, dtype)
            if reason:
                raise LayerCastError(f"parameter {name} of {where} {reason}")
        for name, buffer in module._buffers.items():
            reason = None if buffer is None else _of_tensor(buffer)
            if reason:
                raise LayerCastError(f"buffer {name} of {where} {reason}")


def _of_module(module: Any) -> Optional[str]:
    for parent in type(module).__mro__:
        name = f"{parent.__module__}.{parent.__qualname__}"
        if name in _CLASSES:
            return _CLASSES[name]
        if name.startswith(_QUANTISED):
            return "is quantised"
    if getattr(module, "_compiled_call_impl", None) is not None:
        return "is compiled already; compile the LayerCast instead"
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.max_norm is not None:
        return "has max_norm, which writes to the weight in every forward"
    return None


def _of_attributes(module: Any, parameters: Any) -> Optional[str]:
    own = ("_parameters", "_buffers", "_modules", "_flat_weights" if isinstance(module, nn.RNNBase) else "")
    for name, value in vars(module).items():
        if name not in own and any(id(tensor) in parameters for tensor in _tensors(value)):
            return f"holds a parameter in its attribute {name}, from where it would be read in 16 bits"
    return None


def _tensors(value: Any, depth: int = 3) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (list, tuple, set, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors(item, depth - 1)


def _of_parameter(parameter: Any, dtype: Any) -> Optional[str]:
    reason = _of_tensor(parameter)
    if reason:
        return reason
    if parameter.dtype == dtype or parameter.dtype in _ROUNDABLE:
        return None
    if parameter.dtype in (torch.bfloat16, torch.float16):
        return f"is kept in {parameter.dtype} already, which {dtype} would round again; give dtype={parameter.dtype}"
    return f"is of type {parameter.dtype}, which has no float32 counterpart here"


def _of_tensor(tensor: Any) -> Optional[str]:
    if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
        return "has no shape yet; run the model once"
    plain = (torch.Tensor, nn.Parameter, getattr(nn, "Buffer", nn.Parameter))
    if type(tensor) not in plain:
        return f"is a {type(tensor).__module__}.{type(tensor).__name__}, not a plain tensor"
    if tensor.is_quantized:
        return "is quantised"
    if tensor.layout != torch.strided:
        return f"has the layout {tensor.layout}"
    return None

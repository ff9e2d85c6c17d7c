"""LayerCast: parameters kept in 16 bits, everything computed in float32.

The idea is arXiv 2506.09501's: what makes greedy decoding depend on batch size and machine is arithmetic in 16 bits,
not storage in 16 bits. Here the cast belongs to the reading of a parameter: ``module.weight`` of a converted module is
a property that gives a fresh float32 copy, and nobody keeps it. So it works wherever a forward reads its parameters, a
parent those of a child (``out_proj.weight``, ``F.linear(x, self.tokens.weight)``) or a fast path those of a layer;
there is nothing to restore when a forward raises, and no state that threads or nested calls could share.
"""

from __future__ import annotations

import copy
import copyreg
from functools import lru_cache, wraps
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import torch
from torch import nn

from bisect_torch.numerics.layercast_refusals import LayerCastError, refuse_what_cannot_be_cast

__all__ = ["LayerCast", "LayerCastError"]


class LayerCast(nn.Module):  # type: ignore[misc]
    """A model whose parameters are kept in 16 bits and whose operations are computed in float32.

    The forward is bit for bit that of ``model.float().eval().requires_grad_(False)`` with the same rounded weights, on
    the same machine with the same number of threads. A parameter is cast when it is read and the copy dropped after
    use: memory must have room for what one operation reads (the fast path of an encoder layer reads a whole layer).
    Calls may be nested and come from several threads. What a forward itself asks to be in 16 bits is in 16 bits, as in
    the float32 model.

    Inputs in 16 bits are cast to float32, also in tuples, lists and dictionaries; outputs are float32. Buffers are kept
    in float32 (they may be written, and a running variance or a table of angles loses more by rounding than it saves).
    Anything else of the model can be reached here: ``LayerCast(model).generate(...)`` is the converted model's (only
    ``forward`` casts inputs).

    For inference only: it is in evaluation mode and ``train()`` raises; parameters are frozen, while gradients of
    inputs are those of the frozen float32 model (such a graph keeps float32 copies until it is freed). A forward that
    writes to its own *parameters* writes to a copy: not supported, and not noticed. ``state_dict()`` and
    ``load_state_dict()`` have the model's own names, the first in 16 bits; ``parameters()`` gives what is kept, while
    inside the model ``self.parameters()`` reads as float32, like the attributes. ``.to(device)``, ``copy.deepcopy``,
    pickling and ``torch.compile`` work; for a compiler that fuses operators the same bits are not promised.

    Args:
        model: The module to convert. It stays as it is, and the copy that is made of it never exists in float32.
        dtype: ``torch.bfloat16`` or ``torch.float16``, what parameters are kept in.
        in_place: Convert ``model`` itself, parameter after parameter, instead of a copy. Also its classes change.

    Raises:
        LayerCastError: It has a part that cannot be handled, named in the message: compiled, scripted, traced, wrapped
            for several devices, quantised; parameters that are complex, integers, sparse, lazy, of a tensor subclass,
            in another 16-bit type, or too large for ``dtype``; embeddings with ``max_norm``; parameters held in an
            attribute besides their own. On calls: training, autocast, another type through ``to()``.
        ValueError: ``dtype`` is another type.
    """

    def __init__(self, model: Any, *, dtype: Any = torch.bfloat16, in_place: bool = False) -> None:
        super().__init__()
        if dtype not in (torch.bfloat16, torch.float16):
            raise ValueError(f"parameters are kept in torch.bfloat16 or torch.float16, not in {dtype}")
        refuse_what_cannot_be_cast(model, dtype)
        self.dtype = dtype
        with torch.no_grad():
            if in_place:
                for name, parameter in model.named_parameters():
                    _rounded(parameter, dtype, name)  # raises before anything is changed
            self.module = _convert(model if in_place else _copied(model, dtype), dtype)
        self.training = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's own forward: its arguments, its results in float32."""
        return self.module(*args, **kwargs)

    def train(self, mode: bool = True) -> Any:
        """Evaluation mode only.

        Raises:
            LayerCastError: ``mode`` is true.
        """
        _refuse_training(mode)
        return super().train(mode)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Parameters are frozen.

        Raises:
            LayerCastError: ``requires_grad`` is true.
        """
        _refuse_training(requires_grad)
        return self

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Tuple[str, Any]]:
        """The kept parameters, under the model's own names."""
        return iter(nn.Module.named_parameters(self.module, *args, **kwargs))

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[Tuple[str, Any]]:
        """The buffers, under the model's own names."""
        return iter(nn.Module.named_buffers(self.module, *args, **kwargs))

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the model, with parameters in 16 bits."""
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take a state of the model, of either precision; parameters are rounded.

        Raises:
            LayerCastError: A value does not fit into 16 bits.
            RuntimeError: As of ``torch.nn.Module.load_state_dict``.
        """
        kept = {name for name, _ in self.named_parameters(remove_duplicate=False)}
        rounded = {
            name: _rounded(value, self.dtype, name) if name in kept and isinstance(value, torch.Tensor) else value
            for name, value in state_dict.items()
        }
        return self.module.load_state_dict(rounded, strict=strict, assign=assign)

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}"

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_other_types(fn, self.dtype)
        return super()._apply(fn, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            # Not yet, or no longer, there; and protocols (``__deepcopy__``) are this object's own business.
            if "module" not in self.__dict__.get("_modules", {}) or name.startswith("__"):
                raise
        return getattr(self.module, name)


class _ReadsWide(nn.Module):  # type: ignore[misc]
    """First base of the class that a converted module gets: reading its parameters gives float32."""

    _wide: Tuple[Any, Tuple[str, ...], bool]
    """Class that it had, names of its own parameters, whether it is the outermost module."""
    torchdynamo_force_dynamic = True
    """To Dynamo of 2.4 it says: go through attributes, not through ``_parameters``. Later releases do so anyway."""

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Tuple[str, Any]]:
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name, parameter.to(torch.float32)

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        # As in the base; but Dynamo of 2.5 reads ``_parameters`` instead of calling the base's.
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def train(self, mode: bool = True) -> Any:
        _refuse_training(mode)
        return super().train(mode)

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        for parameter in self._parameters.values():
            if parameter is not None:
                _refuse_other_types(fn, parameter.dtype)
        return super()._apply(fn, *args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The class is made at run time, so that pickle would not find it by name; deepcopy comes this way too.
        make, arguments, *rest = super().__reduce_ex__(max(2, int(protocol)))
        if make is not copyreg.__newobj__:  # type: ignore[attr-defined]
            raise LayerCastError(f"{self._wide[0].__name__} has its own way of being copied, which LayerCast breaks")
        return (_instance, (self._wide, *arguments[1:]), *rest)


class _FlatWeightsOnRead(nn.Module):  # type: ignore[misc]
    """For RNN, LSTM and GRU, which keep a list of their parameters besides the attributes."""

    @property
    def _flat_weights(self) -> List[Any]:
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: List[Any]) -> None:
        """Nothing to keep: the base assigns it when parameters have changed."""

    def _init_flat_weights(self) -> None:
        """Nothing to make; neither of the next two."""

    def _update_flat_weights(self) -> None: ...

    def flatten_parameters(self) -> None: ...


def _copied(model: Any, dtype: Any) -> Any:
    # What deepcopy finds in its memo it does not copy: so no second float32 model exists, and ties stay ties.
    memo: Dict[int, Any] = {
        id(parameter): nn.Parameter(_rounded(parameter, dtype, name, copied=True), requires_grad=False)
        for name, parameter in model.named_parameters()
    }
    try:
        return copy.deepcopy(model, memo)
    except (RuntimeError, TypeError) as error:
        hint = "LayerCast(model, in_place=True) converts it without a copy"
        raise LayerCastError(f"the model cannot be copied ({error}); {hint}") from error


def _convert(model: Any, dtype: Any) -> Any:
    for name, parameter in list(model.named_parameters()):
        parameter.grad = None
        parameter.requires_grad_(False)
        parameter.data = _rounded(parameter, dtype, name)
    model.eval()
    widened: Dict[int, Any] = {}
    for module in list(model.modules()):
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_floating_point():
                module._buffers[name] = widened.setdefault(id(buffer), buffer.detach().float())
        if module is model or any(True for _ in nn.Module.named_parameters(module)):
            names = tuple(name for name, parameter in module._parameters.items() if parameter is not None)
            module.__dict__.pop("_flat_weights", None)
            module.__class__ = _wide_class(type(module), names, module is model)  # type: ignore[arg-type]
    return model


@lru_cache(maxsize=1024)
def _wide_class(base: Any, names: Tuple[str, ...], root: bool) -> Any:
    first: Tuple[Any, ...] = (_ReadsWide,)
    forward = base.forward
    if issubclass(base, nn.RNNBase):
        first += (_FlatWeightsOnRead,)
    elif forward is nn.Embedding.forward:
        forward = _gathered
    attributes: Dict[str, Any] = {name: property(_reader(name)) for name in names}
    attributes.update(_wide=(base, names, root), __module__=__name__, __doc__=base.__doc__)
    if root or forward is _gathered:
        attributes["forward"] = _outermost(forward) if root else forward
    return type(base)(base.__name__, (*first, base), attributes)


def _gathered(self: Any, input: Any) -> Any:
    # Choosing rows of an embedding and then casting them gives the same bits, without a copy of the vocabulary.
    return nn.functional.embedding(input, self._parameters["weight"], self.padding_idx).to(torch.float32)


def _outermost(forward: Any) -> Any:
    # Not a forward hook: the fast path of an encoder layer is not taken where there is one.
    @wraps(forward)
    def widened(self: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_autocast(self)
        return forward(self, *_widened(args), **_widened(kwargs))

    return widened


def _reader(name: str) -> Any:
    def read(self: Any) -> Any:
        parameter = self._parameters[name]
        return parameter if parameter is None else parameter.to(torch.float32)

    return read


def _instance(wide: Any, *arguments: Any) -> Any:
    made = _wide_class(*wide)
    return made.__new__(made, *arguments)


def _refuse_autocast(module: Any) -> None:
    device = "cpu"
    for _, parameter in nn.Module.named_parameters(module):
        device = parameter.device.type
        break
    for kind in ("cpu", device):
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            raise LayerCastError("autocast would compute in 16 bits what LayerCast computes in float32; leave it")


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(torch.float32) if value.dtype in (torch.bfloat16, torch.float16) else value
    if type(value) in (list, tuple):
        return type(value)(_widened(item) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_widened(item) for item in value))
    if type(value) is dict:
        return {key: _widened(item) for key, item in value.items()}
    return value


def _rounded(value: Any, dtype: Any, name: str, copied: bool = False) -> Any:
    kept = value.detach().to(dtype, copy=copied)
    if value.dtype != dtype and value.is_floating_point() and not value.is_meta:
        lost = int(torch.isfinite(value).sum() - torch.isfinite(kept).sum())
        if lost:
            raise LayerCastError(f"{name}: {lost} of {value.numel()} values are too large for {dtype}")
    return kept


def _refuse_training(wanted: bool) -> None:
    if wanted:
        raise LayerCastError("LayerCast is for inference: train the model itself and convert it afterwards")


def _refuse_other_types(fn: Any, dtype: Optional[Any]) -> None:
    for kept in (dtype, torch.float32):
        found = fn(torch.zeros(1, dtype=kept)).dtype
        if found != kept:
            raise LayerCastError(
                f"this would turn {kept} into {found}: LayerCast keeps {dtype} parameters and float32 buffers; "
                "to() moves it between devices only"
            )

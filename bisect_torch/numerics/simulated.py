"""A simulated backend: ``bmm`` with the index faults of a device that is not here. **No hardware was measured.**

It stands in for a GPU whose kernels go wrong beyond 2**32 elements, with the border at a small 2**bits, so that the
judge and the fault models can be tried on any machine in a second. Everything is written as loops over the storage,
element by element: it shares no formula and no code with the models that it tests
(``bisect_torch.numerics.large_index``). The faults are those described in arXiv 2609.22991.
"""

from __future__ import annotations

import re
from operator import mul
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["MPS_RULES", "Call", "SimulatedBackend", "SimulatedError"]

MPS_RULES = "the three rules of MPS"
"""The fault that follows arXiv 2609.22991: which operand is read wrongly depends on sizes and layouts."""

_STRIDES = re.compile(r"strides of (a|b|upstream gradient) ignored")
_WRAP = re.compile(r"flat index of (a|b|output|upstream gradient) wraps at 2\*\*(\d+)")
_TAIL = re.compile(r"tail not written(?: beyond 2\*\*(\d+))?")
_ZERO = "result is zero"


class SimulatedError(RuntimeError):
    """What the simulated backend raises where the device would refuse: rule 2 of arXiv 2609.22991."""


class Call(NamedTuple):
    """One ``bmm`` that the backend computed.

    Args:
        shape: Of its output: batches, rows, columns.
        operands: What its operands are: ``a``, ``b`` or ``upstream gradient``.
        backward: It was called by autograd's backward pass.
        fault: In the words of the fault models, with ``and`` between several; None where it was computed rightly.
        wrong_elements: How many elements of the output differ from the right product.
        outside: How many reads went beyond the end of a storage.
    """

    shape: Tuple[int, int, int]
    operands: Tuple[str, str]
    backward: bool
    fault: Optional[str]
    wrong_elements: int
    outside: int


class _Operand(NamedTuple):
    """How one operand is read."""

    name: str
    tensor: torch.Tensor
    packed: bool = False
    wrap: Optional[int] = None


class _Reading(NamedTuple):
    """An operand as it was read, in logical order.

    Args:
        values: 0 for what was looked for beyond the end of the storage.
        moved: Something was looked for elsewhere than where it lies.
        outside: How much was looked for beyond the end.
    """

    values: List[float]
    moved: bool
    outside: int


class _Output(NamedTuple):
    """How the output is written. ``end``: flat index from which on nothing is written."""

    wrap: Optional[int] = None
    end: Optional[int] = None
    zero: bool = False


class SimulatedBackend(TorchDispatchMode):  # type: ignore[misc] # torch is not there when types are checked
    """While it is active, ``bmm`` (its backward pass and ``out=`` too) is computed in Python, with one fault.

    A single fault acts in every call that has a tensor of more than ``2**bits`` elements (the flat index by itself: it
    wraps wherever it reaches the border). The operands of the forward call are ``a`` and ``b``; in the backward pass
    they keep these names, seen as transposed views, and the third is the ``upstream gradient``.

    Args:
        bits: The border is at ``2**bits`` elements.
        fault: None for the right product, :data:`MPS_RULES`, or one of these, several joined by ``" and "``:
            ``"strides of a ignored"`` (``b``, ``upstream gradient``): the operand is read as if its buffer were packed;
            ``"flat index of a wraps at 2**K"`` (``b``, ``upstream gradient``): counted from the view's first element;
            ``"flat index of output wraps at 2**K"``: written from its start again, the rest of it not at all;
            ``"tail not written"``: from the flat index ``2**bits`` on, or ``"tail not written beyond 2**K"``;
            ``"result is zero"``. What was not written is 0, with ``out=`` what was there before. What is read beyond
            the end of a storage is 0.
        during: ``"forward"`` or ``"backward"`` to have the fault in one of them only.

    Attributes:
        calls: A :class:`Call` for each product so far.

    Raises:
        ValueError: No such fault, or ``bits`` below 1.
    """

    def __init__(self, bits: int, fault: Optional[str] = None, *, during: str = "both") -> None:
        super().__init__()
        if bits < 1:
            raise ValueError(f"the border is at 2**bits elements with bits at least 1, not {bits}")
        if during not in ("both", "forward", "backward"):
            raise ValueError(f"during is 'both', 'forward' or 'backward', not {during!r}")
        self.border = 1 << bits
        self.fault = fault
        self.during = during
        self.calls: List[Call] = []
        self._rule = _rule(fault)
        self._forward: List[Tuple[str, Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        """Called by torch for every operator below autograd."""
        if func is torch.ops.aten.bmm.default:
            return self._bmm(args[0], args[1], None)
        if func is torch.ops.aten.bmm.out:
            return self._bmm(args[0], args[1], (kwargs or {})["out"])
        return func(*args, **(kwargs or {}))

    def bmm(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """One product on the backend, for code that is otherwise outside: all operators are slower under a mode."""
        with self:
            return torch.bmm(a, b)

    def _bmm(self, first: torch.Tensor, second: torch.Tensor, out: Optional[torch.Tensor]) -> torch.Tensor:
        _refuse(first, second)
        backward = torch._C._current_graph_task_id() != -1
        names = self._names(first, second, backward)
        operands = (_Operand(names[0], first), _Operand(names[1], second))
        output = _Output()
        if self.during in ("both", "backward" if backward else "forward"):
            operands, output = self._rule(operands, self.border)
        shape = (first.shape[0], first.shape[1], second.shape[2])
        if out is None:
            before = [0.0] * (shape[0] * shape[1] * shape[2])
        else:
            if tuple(out.shape) != shape:
                out.resize_(shape)
            before = out.reshape(-1).tolist()
        one, other = _read(operands[0]), _read(operands[1])
        product = _multiplied(one.values, other.values, shape, first.shape[2])
        result = torch.tensor(_written(product, before, output), dtype=torch.float64).to(first.dtype)
        fault, wrong = _description(operands, (one.moved, other.moved), output, self.border), 0
        if fault is not None:
            clean = (_read(_Operand("a", first)).values, _read(_Operand("b", second)).values)
            right = torch.tensor(_multiplied(*clean, shape, first.shape[2]), dtype=torch.float64)
            wrong = int((right.to(first.dtype) != result).sum())
        self.calls.append(Call(shape, names, backward, fault, wrong, one.outside + other.outside))
        result = result.to(first.device).reshape(shape)
        return result if out is None else out.copy_(result)

    def _names(self, first: torch.Tensor, second: torch.Tensor, backward: bool) -> Tuple[str, str]:
        if not backward:
            self._forward += [("a", first.untyped_storage()), ("b", second.untyped_storage())]
            return "a", "b"
        return self._known(first, "a"), self._known(second, "b")

    def _known(self, tensor: torch.Tensor, position: str) -> str:
        """The operand of a forward call that has the same storage, the latest first; else it is the gradient.

        The storages are kept, so that no later tensor takes their place in memory.
        """
        start = tensor.untyped_storage().data_ptr()
        names = [name for name, storage in reversed(self._forward) if storage.data_ptr() == start]
        if not names:
            return "upstream gradient"
        return position if position in names else names[0]


def _refuse(first: torch.Tensor, second: torch.Tensor) -> None:
    if first.dim() != 3 or second.dim() != 3 or first.shape[0] != second.shape[0] or first.shape[2] != second.shape[1]:
        raise ValueError(f"bmm of {list(first.shape)} and {list(second.shape)}: the shapes do not fit")
    if first.dtype != second.dtype or not first.is_floating_point():
        raise TypeError(f"bmm of {first.dtype} and {second.dtype}: the simulation takes one floating-point type")


_Pair = Tuple[_Operand, _Operand]
_Plan = Tuple[_Pair, _Output]
_Rule = Callable[[_Pair, int], _Plan]


def _rule(fault: Optional[str]) -> _Rule:
    if fault == MPS_RULES:
        return _as_on_mps
    single = [_single(part) for part in fault.split(" and ")] if fault is not None else []

    def together(operands: _Pair, border: int) -> _Plan:
        output = _Output()
        for change in single:
            operands, output = change(operands, output, border)
        return operands, output

    return together


def _single(fault: str) -> Callable[[_Pair, _Output, int], _Plan]:
    strides, wrap, tail = _STRIDES.fullmatch(fault), _WRAP.fullmatch(fault), _TAIL.fullmatch(fault)
    if fault == _ZERO:
        return lambda operands, output, border: (operands, output._replace(zero=_is_large(operands, border)))
    if tail:
        end = 1 << int(tail.group(1)) if tail.group(1) else None
        return lambda operands, output, border: (operands, output._replace(end=end or border))
    if strides:
        name = strides.group(1)
        return lambda operands, output, border: (
            _changed(operands, name, packed=True) if _is_large(operands, border) else operands,
            output,
        )
    if not wrap:
        raise ValueError(f"the simulated backend has no fault {fault!r}")
    named, period = wrap.group(1), 1 << int(wrap.group(2))
    if named == "output":
        return lambda operands, output, border: (operands, output._replace(wrap=period))
    return lambda operands, output, border: (_changed(operands, named, wrap=period), output)


def _changed(operands: _Pair, name: str, **how: Any) -> _Pair:
    first, second = (operand._replace(**how) if operand.name == name else operand for operand in operands)
    return first, second


def _is_large(operands: _Pair, border: int) -> bool:
    elements = [_output_elements(operands), *(operand.tensor.numel() for operand in operands)]
    return any(count > border for count in elements)


def _output_elements(operands: _Pair) -> int:
    batches, rows, _ = operands[0].tensor.shape
    return int(batches) * int(rows) * int(operands[1].tensor.shape[2])


def _as_on_mps(operands: _Pair, border: int) -> _Plan:
    transposed = [_is_transposed(operand.tensor) for operand in operands]
    if _output_elements(operands) > border and any(transposed):
        first, second = operands
        return (first._replace(packed=transposed[0]), second._replace(packed=transposed[1])), _Output()
    for operand in operands:
        elements = operand.tensor.numel()
        if not operand.tensor.is_contiguous() and elements >= border // 2:
            raise SimulatedError(f"simulated backend: {operand.name} is a view of {elements} elements: refused")
    first, second = (
        operand._replace(wrap=border if operand.tensor.is_contiguous() and operand.tensor.numel() > border else None)
        for operand in operands
    )
    return (first, second), _Output()


def _is_transposed(tensor: torch.Tensor) -> bool:
    """In each matrix, the next row is nearer than the next column. With one row or one column it is neither way."""
    if tensor.is_contiguous() or 1 in tensor.shape[1:]:
        return False
    return bool(tensor.stride(1) < tensor.stride(2))


def _description(operands: _Pair, moved: Tuple[bool, bool], output: _Output, border: int) -> Optional[str]:
    changed = [operand for operand, elsewhere in zip(operands, moved) if elsewhere]  # noqa: B905 - Python 3.8
    said = [f"strides of {operand.name} ignored" for operand in changed if operand.packed]
    said += [
        f"flat index of {operand.name} wraps at 2**{operand.wrap.bit_length() - 1}"
        for operand in changed
        if operand.wrap is not None
    ]
    elements = _output_elements(operands)
    if output.wrap is not None and elements > output.wrap:
        said.append(f"flat index of output wraps at 2**{output.wrap.bit_length() - 1}")
    if output.end is not None and elements > output.end:
        said.append("tail not written" + (f" beyond 2**{output.end.bit_length() - 1}" if output.end != border else ""))
    if output.zero:
        said.append(_ZERO)
    return " and ".join(said) or None


def _multiplied(one: List[float], other: List[float], shape: Tuple[int, int, int], depth: int) -> List[float]:
    """The product, batch by batch, row by row, column by column, as one list."""
    batches, rows, columns = shape
    product: List[float] = []
    for batch in range(batches):
        upright = other[batch * depth * columns : (batch + 1) * depth * columns]
        standing = [upright[column::columns] for column in range(columns)]
        for row in range(rows):
            start = (batch * rows + row) * depth
            lying = one[start : start + depth]
            product.extend(sum(map(mul, lying, column)) for column in standing)
    return product


def _read(operand: _Operand) -> _Reading:
    """The elements, each from where the (faulty) device looks for it in the storage."""
    tensor = operand.tensor
    memory = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage()).tolist()
    memory = memory[tensor.storage_offset() :]
    batches, rows, columns = tensor.shape
    true = tensor.stride()
    outer, middle, inner = (rows * columns, columns, 1) if operand.packed else true
    values: List[float] = []
    moved, outside = False, 0
    for batch in range(batches):
        for row in range(rows):
            place = batch * outer + row * middle
            right = batch * true[0] + row * true[1]
            for _ in range(columns):
                at = place if operand.wrap is None else place % operand.wrap
                moved = moved or at != right
                if at < len(memory):
                    values.append(memory[at])
                else:
                    values.append(0.0)
                    outside += 1
                place += inner
                right += true[2]
    return _Reading(values, moved, outside)


def _written(product: List[float], before: List[float], output: _Output) -> List[float]:
    if output.zero:
        return [0.0] * len(product)
    memory = before
    for place, value in enumerate(product):
        if output.end is None or place < output.end:
            memory[place if output.wrap is None else place % output.wrap] = value
    return memory

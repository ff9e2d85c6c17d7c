"""What is known of an operation before it is ever called: how large its outputs can get, and how it is to be run."""

from __future__ import annotations

import enum
import re
from typing import Any, Callable, Dict, FrozenSet, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor


class Growth(enum.IntEnum):
    """Upper bound on an output's elements, from its arguments alone."""

    NOTHING = 0  # no element is read or written
    LARGEST = 1  # the largest argument
    TOTAL = 2  # the sum of the arguments
    PRODUCT = 3  # their product, and that of the sizes given as integers
    UNBOUNDED = 4  # anything


class Plan(NamedTuple):
    """How the guard treats an operation.

    Attributes:
        growth: Bound on the outputs.
        sizes: Position and name of the integer arguments that may enlarge an output.
        exact: Gives the elements of the largest output or intermediate, from the positional arguments.
        open_key: Dispatch key under whose kernel torch's own operations are called, which can be looked into.
        always_open: Look into it also when its arguments are small.
        foreign: It is not one of torch's own.
        open_backend: The only backend whose kernel ``open_key`` is; None for all.
    """

    growth: Growth
    sizes: Tuple[Tuple[int, str], ...]
    exact: Optional[Callable[[Sequence[Any]], int]]
    open_key: Any
    always_open: bool
    foreign: bool
    open_backend: Optional[str]


def _words(text: str) -> FrozenSet[str]:
    return frozenset(text.split())


# Allocation and bookkeeping: no element is read or written.
_TOUCH_NOTHING = _words(
    """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ resize_as_ set_ _unsafe_view
    _reshape_alias is_same_size is_set_to record_stream is_pinned size stride storage_offset sym_size sym_stride
    sym_numel sym_storage_offset numel dim device sparse_dim dense_dim _nnz is_coalesced _indices _values _coalesced_
    values indices crow_indices col_indices ccol_indices row_indices
    """
)
_TOTAL = _words(
    """
    cat concat concatenate stack hstack vstack dstack column_stack _cat
    """
)
# Outputs that may be larger than the product of the arguments' elements.
_UNBOUNDED = _words(
    """
    arange range diag_embed block_diag pdist _pdist_forward linalg_qr qr svd linalg_svd _linalg_svd linalg_lu lu_unpack
    nonzero nonzero_numpy argwhere histc histogram bincount tril_indices triu_indices vander combinations
    repeat_interleave diag diagflat eye
    """
)
# Integers that choose or count, and never enlarge an output.
_NO_SIZES = _words(
    """
    dim dims dim0 dim1 dim2 dimension axis axis0 axis1 dims_self dims_other shifts correction groups ignore_index
    reduction diagonal seed normalized_shape padding_idx num_groups num_heads group N C HxW mode interpolation_mode
    padding_mode tensor_indices exponent
    """
)
_INTEGERS = re.compile(r"^(Optional\[)?(List\[)?(Sym)?[Ii]nt\b")
# Backends of plain strided tensors; a composite kernel stands in only where none of them has its own.
_BACKENDS = ("CPU", "CUDA", "MPS", "XPU", "HPU", "MTIA", "PrivateUse1")
_BACKEND_OF = {torch._C._get_privateuse1_backend_name(): "PrivateUse1"}


def _matrices(first: int) -> Callable[[Sequence[Any]], int]:
    """Elements of a (batched) matrix product whose factors are the arguments from ``first`` on."""

    def elements(args: Sequence[Any]) -> int:
        left, right = args[first].shape, args[first + 1].shape
        batches: int = left[0] if len(left) == 3 else 1
        return batches * int(left[-2]) * int(right[-1])

    return elements


def _scores(args: Sequence[Any]) -> int:
    """Attention scores, which the plain form of attention writes out: (…, L, E) by (…, S, E) gives (…, L, S)."""
    query, key = args[0].shape, args[1].shape
    batches = 1
    for size in query[:-2]:
        batches *= size
    return int(batches * query[-2] * key[-2])


def _linear(args: Sequence[Any]) -> int:
    weight = args[1].shape
    return args[0].numel() // max(weight[-1], 1) * (weight[0] if len(weight) == 2 else 1)  # type: ignore[no-any-return]


def _broadcast(args: Sequence[Any]) -> int:
    """Elements of the shape to which the tensors among the arguments are expanded."""
    shapes = [each.shape for each in args if isinstance(each, Tensor)]
    widest = max(shapes, key=len, default=())
    if all(shape == widest or not shape for shape in shapes):
        sizes: Sequence[int] = widest
    else:
        sizes = [1] * len(widest)
        for shape in shapes:
            for index in range(1, len(shape) + 1):
                if shape[-index] != 1:
                    sizes[-index] = shape[-index]
    product = 1
    for size in sizes:
        product *= size
    return product


_EXACT: Dict[str, Callable[[Sequence[Any]], int]] = {
    "mm": _matrices(0),
    "bmm": _matrices(0),
    "addmm": _matrices(1),
    "baddbmm": _matrices(1),
    "linear": _linear,
    "_scaled_dot_product_attention_math": _scores,
    "_scaled_dot_product_attention_math_for_mps": _scores,
}


def plan_for(func: Any, device_type: str) -> Plan:
    """The plan of an operation (an ``OpOverload``) on devices of one type (``mps``)."""
    schema = func._schema
    namespace, _, name = schema.name.partition("::")
    ours = namespace == "aten"
    open_key = _open_key(schema, device_type)
    if (ours and name in _TOUCH_NOTHING) or namespace == "prim" or _only_a_view(func):
        return Plan(Growth.NOTHING, (), None, None, False, not ours, None)
    sizes = tuple(
        (index, argument.name)
        for index, argument in enumerate(schema.arguments)
        if argument.name not in _NO_SIZES and _INTEGERS.match(str(argument.type))
    )
    exact = _EXACT.get(name) if ours else None
    growth = Growth.PRODUCT
    if not ours or name in _UNBOUNDED:
        growth = Growth.UNBOUNDED
    elif name.startswith("_foreach_") or name.startswith("_fused_") or _in_place(schema):
        growth, sizes = Growth.LARGEST, ()
    elif name in _TOTAL:
        growth = Growth.TOTAL
    elif torch.Tag.pointwise in func.tags and not sizes:
        exact = exact or _broadcast
    backend = None if open_key is None or "Composite" in str(open_key) else device_type
    # What is not torch's own may do anything inside.
    return Plan(growth, sizes, exact, open_key, not ours, not ours, backend)


def _only_a_view(func: Any) -> bool:
    if torch.Tag.inplace_view in func.tags:
        return True
    returns = func._schema.returns
    written = any(
        argument.alias_info is not None and argument.alias_info.is_write for argument in func._schema.arguments
    )
    return bool(returns) and not written and all(each.alias_info is not None for each in returns)


def _in_place(schema: Any) -> bool:
    """Writes into its first argument and gives back nothing else."""
    first = schema.arguments[0] if schema.arguments else None
    if first is None or first.alias_info is None or not first.alias_info.is_write or first.is_out:
        return False
    return len(schema.returns) <= 1 and not any(argument.is_out for argument in schema.arguments)


def _open_key(schema: Any, device_type: str) -> Any:
    """The key whose kernel is made of torch's own operations, which then can be seen one by one; else None.

    Of torch's operations that is a composite, where no backend has a kernel of its own; of others it is whatever they
    have, since a kernel in Python or C++ may call anything.
    """
    full = schema.name + ("." + schema.overload_name if schema.overload_name else "")
    keys = ["CompositeExplicitAutograd", "CompositeImplicitAutograd"]
    if not schema.name.startswith("aten::"):
        keys.insert(0, _BACKEND_OF.get(device_type, device_type.upper()))
    elif any(torch._C._dispatch_has_kernel_for_dispatch_key(full, key) for key in _BACKENDS):
        return None
    for key in keys:
        if torch._C._dispatch_has_kernel_for_dispatch_key(full, key):
            return getattr(torch._C.DispatchKey, key)
    return None

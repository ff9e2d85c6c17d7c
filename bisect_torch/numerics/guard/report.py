"""What a stopped operation's error says."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from torch import Tensor

from bisect_torch.numerics.guard.errors import GuardError
from bisect_torch.numerics.guard.extent import extent, tensors_in
from bisect_torch.numerics.guard.places import caller

_MOST_SHOWN = 8


def stopped(
    watch: Any,
    func: Any,
    args: Tuple[Any, ...],
    kwargs: Dict[str, Any],
    *,
    expected: Optional[int] = None,
    result: Any = None,
) -> GuardError:
    """The error for an operation that meets the limit.

    Args:
        watch: Whose device and limit it meets.
        func: The operation, with its arguments.
        args: By position.
        kwargs: By name.
        expected: Elements of the largest output, when it has not run yet and an output is the reason.
        result: What it gave, when it has run.
    """
    named = [(role, each) for role, each in _inputs(func, args, kwargs)]
    if result is not None:
        named = [("output", each) for each in tensors_in(result)] + named
    # Those at fault first.
    named.sort(key=lambda pair: not _meets(watch, pair[1]))
    operation = str(func)
    ran = result is not None
    size = expected if expected is not None else max((extent(t) for _, t in named if _meets(watch, t)), default=0)
    verb = "writes" if expected is not None or ran else "reads or writes"
    place = caller()
    forward = watch.forward_lines.of_current_node()
    lines = [
        "%s %s a tensor of %d elements (or that many by its strides) on %s; the limit is %d. %s"
        % (
            operation,
            verb,
            size,
            watch.device,
            watch.limit,
            "It ran; its output is withheld." if ran else "It was stopped before it ran.",
        )
    ]
    lines += ["  %s: %s" % (role, _described(each)) for role, each in named[:_MOST_SHOWN]]
    if len(named) > _MOST_SHOWN:
        lines.append("  and %d more tensors" % (len(named) - _MOST_SHOWN))
    if torch._C._current_autograd_node() is not None:
        lines.append("  in the backward of %s" % torch._C._current_autograd_node().name())
    lines.append(
        "  called at %s" % (str(place) if place else "a thread of torch's own, which no Python line has called")
    )
    if forward is not None:
        lines.append("  forward at %s" % (forward,))
    facts = [(role, _shape(each), _strides(each), str(each.dtype)) for role, each in named]
    return GuardError(
        "\n".join(lines), operation=operation, kernel_ran=ran, tensors=facts, caller=place, forward=forward
    )


def refuse(what: str) -> GuardError:
    """The error for something that cannot be looked into."""
    place = caller()
    return GuardError(
        "the guard cannot see inside %s, so it refuses to run it. Call the original function or module (under "
        "torch.compiler.set_stance('force_eager') from 2.6.0 on, or with TORCHDYNAMO_DISABLE=1 in the environment), or "
        "leave the guard first.\n  called at %s" % (what, place),
        operation=what,
        caller=place,
    )


def _meets(watch: Any, tensor: Tensor) -> bool:
    return extent(tensor) >= watch.limit and bool(watch.guards(tensor.device))


def _inputs(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Iterator[Tuple[str, Tensor]]:
    names: List[str] = [argument.name for argument in func._schema.arguments]
    given = [(names[index], value) for index, value in enumerate(args)]
    for name, value in [*given, *kwargs.items()]:
        found = list(tensors_in(value))
        for index, each in enumerate(found):
            yield (name if isinstance(value, Tensor) else "%s[%d]" % (name, index)), each


def _shape(tensor: Tensor) -> Tuple[int, ...]:
    return () if tensor.is_nested else tuple(tensor.shape)


def _strides(tensor: Tensor) -> Tuple[int, ...]:
    return tuple(tensor.stride()) if tensor.layout is torch.strided and not tensor.is_nested else ()


def _described(tensor: Tensor) -> str:
    return "shape %s, strides %s, %s, %s, %d elements, extent %d" % (
        _shape(tensor) or ("nested" if tensor.is_nested else "()"),
        _strides(tensor) or "none",
        tensor.dtype,
        tensor.device,
        tensor.numel(),
        extent(tensor),
    )

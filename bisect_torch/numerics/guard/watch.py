"""The dispatch mode: every operation below autograd passes here, forward and backward, and is looked at."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bisect_torch.numerics.guard import report
from bisect_torch.numerics.guard.expected import ExpectedSizes
from bisect_torch.numerics.guard.extent import extent, tensors_in
from bisect_torch.numerics.guard.places import ForwardLines
from bisect_torch.numerics.guard.plan import Growth, Plan, plan_for

_STRIDED = torch.strided
_KEYS = torch._C._TorchDispatchModeKey
_NOT_OVERRIDDEN = torch._C._disabled_torch_dispatch_impl
_IMPLICIT = torch._C.DispatchKey.CompositeImplicitAutograd
# Lines of the forward are kept for operations on at least this part of the limit: what is stopped in backward without
# having been stopped in forward comes from these, and the many small ones then cost nothing.
_NOTABLE = 4096


class Watch(TorchDispatchMode):  # type: ignore[misc]
    """Looks at the operations of the threads on whose dispatch stack it lies.

    Args:
        device: Operations' tensors on this device count; one without an index stands for all of its type.
        limit: Elements from which a tensor counts as too large.

    ``live`` is 0 when no guard uses it any more: threads that still have it then pass it by.
    """

    def __init__(self, device: torch.device, limit: int) -> None:
        super().__init__()
        self.device = device
        self.limit = limit
        self.live = 0
        self.forward_lines = ForwardLines()
        self._notable = limit // _NOTABLE
        self._plans: Dict[Any, Plan] = {}
        self._expected = ExpectedSizes()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Newer releases else wrap every call of the mode so that dynamo leaves it alone; under a guard none runs."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        if types and self.live and any(kind.__torch_dispatch__ is not _NOT_OVERRIDDEN for kind in types):
            return self._with_subclasses(func, args, kwargs or {})
        plan = self._plans.get(func)
        if plan is None:
            # detach comes without its overload.
            plan = self._plans[func] = plan_for(getattr(func, "default", func), self.device.type)
        growth = plan.growth
        if growth == 0 or not self.live:
            if args and isinstance(args[0], Tensor) and args[0].numel() >= self._notable:
                self.forward_lines.note()
            return func(*args, **kwargs) if kwargs else func(*args)
        if plan.open_key == _IMPLICIT and self._opens(plan, args, kwargs or {}):
            return self._run_open(plan, func, args, kwargs or {})
        largest, bound = self._survey(args, growth)
        if kwargs:
            more, factor = self._survey(kwargs.values(), growth)
            largest = max(largest, more)
            bound = bound + factor if growth == 2 else bound * factor
        if plan.sizes:
            bound *= _scale(plan.sizes, args, kwargs)
        limit = self.limit
        if (largest if growth == 1 else bound) >= limit or largest >= limit or growth == 4 or plan.always_open:
            return self._consider(plan, func, args, kwargs or {}, largest, bound)
        if largest >= self._notable:
            self.forward_lines.note()
        result = func(*args, **kwargs) if kwargs else func(*args)
        if self._may_meet(result):
            self._look_at_outputs(func, args, kwargs or {}, result)
        return result

    def _with_subclasses(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        """Subclasses first turn it into operations on the tensors that they hold; fake ones hold none."""
        if not any(torch._C._get_dispatch_mode(key) is not None for key in (_KEYS.FAKE, _KEYS.PROXY, _KEYS.FUNCTIONAL)):
            return NotImplemented
        if torch._C._get_dispatch_mode(_KEYS.FAKE) is None:
            raise report.refuse("a trace of real tensors through subclasses (AOTAutograd's aot_function, make_fx)")
        return func(*args, **kwargs)

    def _survey(self, values: Any, growth: int) -> Tuple[int, int]:
        """The largest extent among some arguments, and the product (or, for TOTAL, the sum) of their elements.

        Devices are not looked at here: an argument on another device can only send the operation to the closer look.
        """
        largest = 0
        bound = 0 if growth == 2 else 1
        for value in values:
            if isinstance(value, Tensor):
                elements = value.numel()
                if growth == 2:
                    bound += elements
                elif elements > 1:
                    bound *= elements
                if value.layout is not _STRIDED or (elements > 1 and not value.is_contiguous()):
                    elements = extent(value)
                if elements > largest:
                    largest = elements
            elif isinstance(value, (list, tuple)) and value:
                inner, factor = self._survey(value, growth)
                if inner > largest:
                    largest = inner
                bound = bound + factor if growth == 2 else bound * factor
        return largest, bound

    def _consider(
        self, plan: Plan, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], largest: int, bound: int
    ) -> Any:
        """The closer look: exact sizes on the guarded device, before and after."""
        if torch._C._get_dispatch_mode(_KEYS.FAKE) is not None:
            return func(*args, **kwargs)
        limit = self.limit
        if largest >= limit and any(extent(each) >= limit for each in self._ours((args, *kwargs.values()))):
            raise report.stopped(self, func, args, kwargs)
        expected = self._expected_elements(plan, func, args, kwargs)
        if expected >= limit and self._lands_here(args, kwargs):
            raise report.stopped(self, func, args, kwargs, expected=expected)
        if largest >= self._notable or expected >= self._notable:
            self.forward_lines.note()
        if (plan.always_open or bound >= limit) and self._opens(plan, args, kwargs):
            return self._run_open(plan, func, args, kwargs)
        result = func(*args, **kwargs) if kwargs else func(*args)
        if self._may_meet(result):
            self._look_at_outputs(func, args, kwargs, result)
        return result

    def _expected_elements(self, plan: Plan, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> int:
        """Elements of the largest output; 0 where they cannot be known, or are those of an argument."""
        if plan.exact is not None:
            return plan.exact(args) if _plain(args) else 0
        if plan.growth == Growth.LARGEST or plan.foreign:
            return 0
        return self._expected.largest(func, args, kwargs) or 0

    def _may_meet(self, result: Any) -> bool:
        """Whether a result is worth a closer look: large, or not packed."""
        if isinstance(result, Tensor):
            return result.layout is not _STRIDED or result.numel() >= self.limit or not result.is_contiguous()
        if isinstance(result, (list, tuple)):
            for each in result:
                if each is not None and self._may_meet(each):
                    return True
        return False

    def _look_at_outputs(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], result: Any) -> None:
        for each in self._ours(result):
            if extent(each) >= self.limit:
                raise report.stopped(self, func, args, kwargs, result=result)

    def _ours(self, value: Any) -> List[Tensor]:
        return [each for each in tensors_in(value) if self.guards(each.device)]

    def guards(self, device: torch.device) -> bool:
        """Whether tensors on a device count."""
        own = self.device
        return device.type == own.type and (own.index is None or device.index is None or device.index == own.index)

    def _lands_here(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
        """Whether the output will lie on the guarded device."""
        asked = kwargs.get("device")
        if asked is not None:
            return self.guards(torch.device(asked))
        tensors = list(tensors_in((args, *kwargs.values())))
        return any(self.guards(each.device) for each in tensors) or (not tensors and self.device.type == "cpu")

    def _opens(self, plan: Plan, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
        """Whether the kernel is run so that what it calls is seen: only with plain tensors.

        A kernel that is called directly passes by the modes below this one, so with any of these it is not; composites
        of the autograd kind are never seen by other modes either.
        """
        if plan.open_key is None or (plan.open_key != _IMPLICIT and torch._C._len_torch_dispatch_stack()):
            return False
        if not (_plain(args) and _plain(kwargs.values())):
            return False
        return plan.open_backend is None or bool(self._ours((args, *kwargs.values())))

    def _run_open(self, plan: Plan, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        torch._C._push_on_torch_dispatch_stack(self)
        try:
            result = func._op_dk(plan.open_key, *args, **kwargs)
        finally:
            torch._C._pop_torch_dispatch_stack(None)
        if self._may_meet(result) and plan.open_key != _IMPLICIT:
            self._look_at_outputs(func, args, kwargs, result)
        return result


def _plain(values: Any) -> bool:
    """Whether all tensors among some arguments are strided, and neither nested nor quantised."""
    for value in values:
        if isinstance(value, Tensor):
            if value.layout is not _STRIDED or value.is_nested or value.is_quantized:
                return False
        elif isinstance(value, (list, tuple)) and not _plain(value):
            return False
    return True


def _scale(sizes: Tuple[Tuple[int, str], ...], args: Tuple[Any, ...], kwargs: Optional[Dict[str, Any]]) -> int:
    """How much larger than its tensors the integers among the arguments can make an output."""
    factor = 1
    for index, name in sizes:
        value = args[index] if index < len(args) else kwargs.get(name) if kwargs else None
        if isinstance(value, (list, tuple)):
            for each in value:
                factor *= 1 + abs(int(each))
        elif isinstance(value, int):
            factor *= 1 + abs(value)
    return factor

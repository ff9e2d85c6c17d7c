"""What the guard raises and warns of."""

from __future__ import annotations

import threading
from typing import Optional, Sequence, Tuple

from bisect_torch.numerics.guard.places import Place


class GuardError(RuntimeError):
    """An operation was stopped, or something was refused because the guard cannot look into it.

    Attributes:
        operation: ``aten.bmm.default``; for a refusal, what was refused.
        kernel_ran: Whether the kernel had run: only for outputs whose size nobody knows before.
        tensors: ``(role, shape, strides, dtype)`` of the operation's tensors, those at fault first; strides are empty
            for layouts without any. Shapes and strides count elements.
        caller: The innermost line outside torch and the guard; None where no Python frame is left (backward on a
            thread of a device).
        forward: In backward, the line of the forward, where it is known.
    """

    def __init__(
        self,
        message: str,
        *,
        operation: str,
        kernel_ran: bool = False,
        tensors: Sequence[Tuple[str, Tuple[int, ...], Tuple[int, ...], str]] = (),
        caller: Optional[Place] = None,
        forward: Optional[Place] = None,
    ) -> None:
        super().__init__(message)
        self.operation = operation
        self.kernel_ran = kernel_ran
        self.tensors = tuple(tensors)
        self.caller = caller
        self.forward = forward
        _of_thread.last = self


_of_thread = threading.local()


def last() -> Optional[GuardError]:
    """The error made last in this thread since :func:`forget`."""
    return getattr(_of_thread, "last", None)


def forget() -> None:
    """Forget the last error of this thread."""
    _of_thread.last = None


class GuardWarning(UserWarning):
    """Something that the guard does not see and cannot refuse."""

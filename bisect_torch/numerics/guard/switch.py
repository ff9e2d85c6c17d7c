"""The guard as its users see it: context manager, decorator, switch for the whole process."""

from __future__ import annotations

import functools
import inspect
import threading
from typing import Any, Callable, Mapping, Optional, Type, TypeVar, Union

import torch

from bisect_torch.numerics.guard import entries, report, settings, threads
from bisect_torch.numerics.guard.watch import Watch

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Guard:
    """Stops operations on tensors that a device's kernels are known to index wrongly (arXiv 2609.22991).

    As a context manager and a decorator it covers the thread that enters it, the backward passes that this thread
    starts (autograd hands the guard to the threads of devices) and the threads that are started inside. ``enable()``
    covers the whole process from then on. In all of them an operation on the device is stopped with ``GuardError``
    when a tensor that it reads or writes has at least ``limit`` elements, or spans that many through its strides:
    before it runs where sizes are known then, else before its output reaches anybody. A view, an empty tensor or a
    change of metadata reads and writes nothing and passes. Compiled functions are refused.

    Args:
        device: ``"mps"``, ``"cuda"``, ``"cuda:1"``, ``"cpu"``. Without an index, every device of that type.
        limit: Elements (not bytes). The default 2**32 is where MPS starts to be silently wrong by that paper.

    Raises:
        ValueError: limit is not positive, or device is ``"meta"``.
        RuntimeError: torch knows no such device.
    """

    def __init__(self, device: "Union[str, torch.device]" = settings.DEVICE, limit: int = settings.LIMIT) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError("limit must be a positive number of elements, not %r" % (limit,))
        self.device = torch.device(device)
        if self.device.type == "meta":
            raise ValueError("tensors on the meta device have no elements to guard")
        self.limit = limit
        self._watch = Watch(self.device, limit)
        self._enabled = False
        self._entered = threading.local()

    @classmethod
    def from_environment(cls, variables: Optional[Mapping[str, str]] = None) -> "Optional[Guard]":
        """The guard that ``BISECT_TORCH_GUARD`` asks for, in one's own program too; None where it is not set.

        Args:
            variables: The process's when None. Values: see ``settings.from_text``.

        Raises:
            ValueError: The variable says nothing sensible.
        """
        asked = settings.from_environment(variables)
        return None if asked is None else cls(asked.device, asked.limit)

    def __enter__(self) -> "Guard":
        """Raises GuardError inside a compiled function: what runs there is not seen."""
        self._start()
        entered = self._entered.__dict__.setdefault("pushed", [])
        entered.append(self._watch not in threads.of_this_thread())
        if entered[-1]:
            threads.push(self._watch)
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Any, traceback: Any) -> None:
        self._watch.live -= 1
        if self._entered.pushed.pop():
            threads.remove(self._watch)

    def enable(self) -> "Guard":
        """Guard this thread and every thread started from now on, until :meth:`disable`. Twice is once.

        Warns with GuardWarning of Python threads that run already: they are not covered. Nor are child processes that
        start a new interpreter (``spawn``): enable a guard there too.
        """
        if not self._enabled:
            self._start()
            threads.warn_of_running_threads()
            self._enabled = True
            threads.process_wide.append(self._watch)
            threads.push(self._watch)
        return self

    def disable(self) -> None:
        """Undo :meth:`enable`, in every thread. Without it, nothing."""
        if self._enabled:
            self._enabled = False
            self._watch.live -= 1
            threads.process_wide.remove(self._watch)
            threads.remove(self._watch)

    def __call__(self, function: _Function) -> _Function:
        """The function under this guard.

        Raises:
            TypeError: It is a generator or a coroutine function: most of it would run outside.
        """
        kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
        if any(is_kind(function) for is_kind in kinds):
            raise TypeError("a guard cannot decorate a generator or coroutine function: use it inside, with 'with'")

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return guarded  # type: ignore[return-value]

    def __repr__(self) -> str:
        return "Guard(device=%r, limit=%d)" % (str(self.device), self.limit)

    def _start(self) -> None:
        if entries.inside_compiled_code():
            raise report.refuse("a function compiled by torch.compile, from inside which a guard was entered")
        entries.watch_entries()
        threads.watch_starts()
        self._watch.live += 1


# dynamo then does not trace into these, whether or not it is loaded yet.
for _name in ("__enter__", "__exit__", "enable", "disable"):
    setattr(vars(Guard)[_name], "_torchdynamo_disable", True)  # noqa: B010 - functions have no such attribute

"""Which threads a guard covers: dispatch modes belong to a thread, so each new one is given those that it must have."""

from __future__ import annotations

import threading
import warnings
from typing import Callable, List

import torch

from bisect_torch.numerics.guard.errors import GuardWarning
from bisect_torch.numerics.guard.watch import Watch

_MARK = "_bisect_torch_guard"
process_wide: List[Watch] = []
"""Guards that every thread started from now on gets."""


def push(watch: Watch) -> None:
    """Put it on top of this thread's dispatch stack.

    Directly: torch's own way of entering a mode also sets flags of the whole process, which threads that leave in
    another order than they came would leave wrong.
    """
    torch._C._push_on_torch_dispatch_stack(watch)


def remove(watch: Watch) -> bool:
    """Take its innermost entry off this thread's dispatch stack, wherever that lies. Returns whether there was one."""
    above = []
    found = False
    while torch._C._len_torch_dispatch_stack():
        mode = torch._C._pop_torch_dispatch_stack(None)
        if mode is watch:
            found = True
            break
        above.append(mode)
    for mode in reversed(above):
        torch._C._push_on_torch_dispatch_stack(mode)
    return found


def of_this_thread() -> List[Watch]:
    """Live guards on this thread's dispatch stack, outermost first."""
    stack = [torch._C._get_dispatch_stack_at(index) for index in range(torch._C._len_torch_dispatch_stack())]
    return [mode for mode in stack if isinstance(mode, Watch) and mode.live]


def watch_starts() -> None:
    """See to it that a started thread gets the guards of the whole process and of the thread that starts it."""
    if not hasattr(threading.Thread.start, _MARK):
        original = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            given = of_this_thread()
            given += [watch for watch in process_wide if watch not in given]
            if given:
                thread.run = _under(given, thread)  # type: ignore[method-assign]
            original(thread)

        setattr(start, _MARK, original)
        threading.Thread.start = start  # type: ignore[method-assign,assignment]


def _under(given: List[Watch], thread: threading.Thread) -> Callable[[], None]:
    run = thread.run

    def guarded_run() -> None:
        vars(thread).pop("run", None)
        for watch in given:
            if watch.live:
                push(watch)
        run()

    return guarded_run


def warn_of_running_threads() -> None:
    """Say which threads run already: their operations are not seen."""
    here = threading.current_thread()
    names = [thread.name for thread in threading.enumerate() if thread is not here]
    if names:
        warnings.warn(
            "the guard does not see torch operations in threads that were started before it: %s. Enable it first, or "
            "enter a guard in each of them." % ", ".join(sorted(names)),
            GuardWarning,
            stacklevel=3,
        )

"""Ways past a dispatch mode. What ``torch.compile`` and AOTInductor have made of a program cannot be seen: refused."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

import torch

from bisect_torch.numerics.guard import errors
from bisect_torch.numerics.guard.report import refuse
from bisect_torch.numerics.guard.watch import Watch

_NOT_OVERRIDDEN = torch._C._disabled_torch_dispatch_impl
# Until 2.5.1 as_subclass raises while any dispatch mode is active (seen on 2.4.1 and 2.5.1, gone in 2.6.0).
_SUBCLASSES_FAIL = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6)
_MARK = "_bisect_torch_guard"


def active() -> Optional[Watch]:
    """The innermost live guard of this thread; None when there is none."""
    for index in reversed(range(torch._C._len_torch_dispatch_stack())):
        mode = torch._C._get_dispatch_stack_at(index)
        if isinstance(mode, Watch) and mode.live:
            return mode
    return None


def watch_entries() -> None:
    """See to it that every way into compiled code asks whether a guard is active. May be called again.

    ``set_eval_frame`` is what each release from 2.4.1 calls on the way into a compiled function, whether compiled
    before or now; the function of AOTAutograd's is what runs a compiled backward. What is put around them stays for the
    life of the process and does nothing where no guard is active.
    """
    frames = torch._C._dynamo.eval_frame
    _wrap(frames, "set_eval_frame", _checks_callback)
    loaded = sys.modules.get("torch._dynamo.eval_frame")
    if loaded is not None and hasattr(loaded, "set_eval_frame"):
        loaded.set_eval_frame = frames.set_eval_frame  # type: ignore[attr-defined]
        _wrap(loaded, "_maybe_set_eval_frame", _checks_callback)
    for name in ("runtime_wrappers", "utils"):
        module = sys.modules.get("torch._functorch._aot_autograd." + name)
        _wrap(module, "call_func_at_runtime_with_args", _checks_any)
    for scripted in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        _wrap(scripted, "__call__", _keeps_error)
    if _SUBCLASSES_FAIL:
        _wrap(torch.Tensor, "as_subclass", _passes_by)
    packages = getattr(torch._C, "_aoti", None)
    for kind in list(vars(packages).values()) if packages is not None else []:
        if isinstance(kind, type):
            for name in ("run", "boxed_run"):
                _wrap(kind, name, _checks_package)


def inside_compiled_code() -> bool:
    """Whether this thread runs a compiled function now."""
    frames = torch._C._dynamo.eval_frame
    ask = getattr(frames, "get_eval_frame_callback", None)
    if ask is not None:
        return ask() is not None
    before = frames.set_eval_frame(None)
    if before is not None:
        getattr(frames.set_eval_frame, _MARK, frames.set_eval_frame)(before)
    return before is not None


def _wrap(owner: Any, name: str, checks: Callable[[Any], Any]) -> None:
    original = getattr(owner, name, None) if owner is not None else None
    if original is None or hasattr(original, _MARK):
        return
    wrapper = checks(original)
    wrapper.__name__ = name
    setattr(wrapper, _MARK, original)
    setattr(owner, name, wrapper)


def _checks_callback(original: Any) -> Any:
    def set_eval_frame(callback: Any, *rest: Any) -> Any:
        # None switches compiled code off, everything else on.
        if callback is not None and active() is not None:
            raise refuse("a function compiled by torch.compile")
        return original(callback, *rest)

    return set_eval_frame


def _checks_any(original: Any) -> Any:
    def call_func_at_runtime_with_args(*args: Any, **kwargs: Any) -> Any:
        if active() is not None:
            raise refuse("code compiled by AOTAutograd (forward, or the backward of a compiled function)")
        return original(*args, **kwargs)

    return call_func_at_runtime_with_args


def _checks_package(original: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        if active() is not None:
            raise refuse("a package compiled by AOTInductor")
        return original(*args, **kwargs)

    return run


def _keeps_error(original: Any) -> Any:
    """TorchScript turns every error into one without type or message; ours is put back."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if active() is None:
            return original(*args, **kwargs)
        errors.forget()
        try:
            return original(*args, **kwargs)
        except RuntimeError as raised:
            stopped = errors.last()
            if stopped is None or raised is stopped:
                raise
            raise stopped from raised

    return call


def _passes_by(original: Any) -> Any:
    """It makes a view and reads nothing, so the guard need not see it."""

    def as_subclass(tensor: Any, kind: Any) -> Any:
        if active() is None or type(tensor).__torch_dispatch__ is not _NOT_OVERRIDDEN:
            return original(tensor, kind)
        with torch._C._DisableTorchDispatch():
            return original(tensor, kind)

    return as_subclass

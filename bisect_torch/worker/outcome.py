"""An exception becomes facts: its type and root cause, where it was raised, and what is missing."""

from __future__ import annotations

import difflib
import errno
import json
import opcode
import os
import re
import socket
import sys
import traceback
import types
from typing import Any, Dict, Iterator, List, Optional, Tuple

from bisect_torch.numerics.misuse import MisusedCheckError
from bisect_torch.worker import recording
from bisect_torch.worker.missing_file import missing_file
from bisect_torch.worker.origin import Frame, Places

SKIP_STATUS = 125

_LONGEST_MESSAGE = 8 * 1024
_LONGEST_TRACEBACK = 24 * 1024
_MOST_CAUSES = 20
_NO_MODULE = re.compile(r"No module named ['\"]?([A-Za-z_][\w.]*)")
_NO_NAME = re.compile(r"cannot import name '([^']+)' from (?:partially initialized module )?'([^']+)'")
_NO_ATTRIBUTE = re.compile(r"(?:module|type object) '([^']+)' has no attribute '([^']+)'")
_NO_KEYWORD = re.compile(
    r"got an unexpected keyword argument '([^']+)'|some of the keywords were incorrect: (\w+)"
    r"|'(\w+)' is an invalid keyword"
)
_REFUSED = re.compile(r"([A-Za-z_][\w.]*)\(\) got an unexpected keyword argument")
_NO_MEMORY = re.compile(
    r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|(?:CUDA|HIP|XPU|MPS backend) out of memory"
)


_SLIP = 0.85
"""Likeness (``difflib``) of ``sofmax`` and ``softmax`` is 0.92, of two names, ``flex_attention`` and
``flash_attention``, 0.83."""

_SKIPS = frozenset({("unittest.case", "SkipTest"), ("builtins", "Skipped")})
"""What unittest and pytest raise to skip; a script or a case that does says that it does not apply here."""


def facts_of(raised: BaseException, file: str, *, folder: Optional[str] = None) -> Dict[str, Any]:
    """What is to be recorded of an exception that left the case.

    Args:
        file: The case file or script.
        folder: Where its local modules lie; the file's own folder when None.
    """
    if isinstance(raised, SystemExit):
        return _of_system_exit(raised)
    if (type(raised).__module__, type(raised).__name__) in _SKIPS:
        return {"outcome": "skipped", "reason": message_of(raised)}
    places = Places(file, folder)
    root = root_of(raised)
    # A compile error's own traceback ends in the compiler; the reason's says where it went wrong.
    shown = root if _wraps_compile_error(raised) and root.__traceback__ is not None else raised
    frames = places.frames(shown.__traceback__)
    facts: Dict[str, Any] = {
        "outcome": "raised",
        "error_type": type_name(raised),
        "message": message_of(raised),
        "root_type": type_name(root),
        "root_message": message_of(root),
        "missing_module": missing_module(raised),
        "capabilities": json.dumps(capabilities(raised, places)),
        "traceback": traceback_text(raised, places),
    }
    if not frames and not isinstance(raised, SyntaxError):  # nothing but the worker's own code was running
        reason = "bisect-torch failed in the cell: %s: %s" % (facts["error_type"], facts["message"])
        facts.update(outcome="lost", reason=reason)
    if frames:
        facts["frame"] = frames[-1].name
        facts["frame_origin"] = frames[-1].origin
    if root is raised:
        facts["absent_name"] = absent_name(raised, frames)
        if folder is None:  # a project's tests are many files, and may have each other's names
            facts["reason"] = missing_file(raised, frames, file)
            if near := _nearest(raised, facts["absent_name"]):
                facts.update(recording.also(nearest_name=near))
        if isinstance(raised, MisusedCheckError):
            facts.update(outcome="environment_broken", reason="check() is called wrongly: %s" % raised)
    if out_of_memory(raised) or out_of_memory(root):  # whoever asked for it
        facts["outcome"] = "out_of_memory"
    if disk_full(raised):
        facts.update(outcome="lost", reason="no space left on the device that the case wrote to")
    elif no_network(raised):
        facts.update(outcome="lost", reason="no network: %s" % facts["root_message"])
    return facts


def _of_system_exit(raised: SystemExit) -> Dict[str, Any]:
    status = exit_status(raised)
    facts: Dict[str, Any] = {"outcome": "exited", "error_type": "SystemExit", "exit_code": status}
    if status == 0:
        return {"outcome": "returned"}
    if not isinstance(raised.code, int):
        facts["message"] = message_of(raised)
    if status == SKIP_STATUS:
        facts.update(outcome="skipped", reason="exit status %d" % SKIP_STATUS)
    return facts


def exit_status(raised: SystemExit) -> int:
    """The status with which Python leaves for it."""
    if raised.code is None:
        return 0
    return raised.code & 0xFF if isinstance(raised.code, int) else 1


def type_name(raised: BaseException) -> str:
    """Name of its type, without the module: that moves between releases."""
    return type(raised).__name__


def message_of(raised: BaseException) -> str:
    """Its text, bounded; an exception whose own text cannot be made says so."""
    try:
        text = str(raised)
    except BaseException as problem:  # noqa: BLE001 - code under test
        text = "<str() of the exception raised %s>" % type(problem).__name__
    return bounded(text, _LONGEST_MESSAGE)


def bounded(text: str, most: int) -> str:
    """A text of at most about ``most`` characters, the middle left out."""
    if len(text) <= most:
        return text
    return "%s\n[... %d characters left out ...]\n%s" % (text[: most // 2], len(text) - most, text[-(most // 2) :])


def root_of(raised: BaseException) -> BaseException:
    """The innermost reason of a wrapped exception: ``raise … from``, or a compile error around what it met.

    An exception raised while another is handled is one of its own, not a wrapping.
    """
    root = raised
    for _ in range(_MOST_CAUSES):
        inner = getattr(root, "inner_exception", None)
        if not isinstance(inner, BaseException):
            inner = root.__cause__
        if inner is None and _wraps_compile_error(root) and not root.__suppress_context__:
            inner = root.__context__
        if inner is None or inner is root:
            return root
        root = inner
    return root


def _wraps_compile_error(raised: BaseException) -> bool:
    return type(raised).__module__.startswith(("torch._dynamo", "torch._inductor"))


def chain(raised: BaseException) -> Iterator[BaseException]:
    """The exception and everything that led to it, nearest first."""
    seen: List[int] = []
    waiting: List[Optional[BaseException]] = [raised]
    while waiting and len(seen) < _MOST_CAUSES:
        each = waiting.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.append(id(each))
        yield each
        inner = getattr(each, "inner_exception", None)
        waiting.append(inner if isinstance(inner, BaseException) else None)
        waiting.append(each.__cause__)
        waiting.append(None if each.__suppress_context__ else each.__context__)


def missing_module(raised: BaseException) -> Optional[str]:
    """X of a "No module named X", at any depth and also inside the text of an error from another process."""
    for each in chain(raised):
        if isinstance(each, ModuleNotFoundError) and each.name:
            return each.name
        match = _NO_MODULE.search(message_of(each))
        if match:
            return match.group(1).rstrip(".")
    return None


def out_of_memory(raised: BaseException) -> bool:
    """Whether memory was refused: by Python, by torch's CPU allocator or by a device's."""
    if isinstance(raised, MemoryError):
        return True
    names = [kind.__name__ for kind in type(raised).__mro__]
    return "OutOfMemoryError" in names or bool(_NO_MEMORY.search(message_of(raised)))


def disk_full(raised: BaseException) -> bool:
    """Whether a disk or a quota was full, anywhere in the chain: that says nothing about torch."""
    return any(
        (isinstance(each, OSError) and each.errno in (errno.ENOSPC, errno.EDQUOT))
        or os.strerror(errno.ENOSPC) in message_of(each)
        for each in chain(raised)
    )


def no_network(raised: BaseException) -> bool:
    """Whether this machine has no way out, anywhere in the chain: no name server, no route.

    A connection that is refused is not among these: somebody answered.
    """
    for each in chain(raised):
        for cause in (each, getattr(each, "reason", None)):  # urllib keeps it as the reason of its own error
            if isinstance(cause, socket.gaierror):
                return cause.errno in (socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_NONAME)
            if isinstance(cause, OSError) and cause.errno in (errno.ENETUNREACH, errno.ENETDOWN):
                return True
    return False


def absent_name(raised: BaseException, frames: List[Frame]) -> Optional[str]:
    """The name or keyword that torch does not have, when the exception says so and code outside torch asked for it."""
    if not _asked_from_outside(frames) or (frames[-1].origin in ("case", "local") and _raised_by_hand(raised)):
        return None
    if isinstance(raised, ModuleNotFoundError):
        return raised.name if _in_torch(raised.name or "") and raised.name != "torch" else None
    if isinstance(raised, ImportError):
        match = _NO_NAME.search(message_of(raised))
        if match and _in_torch(match.group(2)):
            return "%s.%s" % (match.group(2), match.group(1))
        return None
    if isinstance(raised, AttributeError):
        return _absent_attribute(raised)
    if isinstance(raised, TypeError):
        match = _NO_KEYWORD.search(message_of(raised))
        if match is None or _called_another(raised):
            return None
        return next(group for group in match.groups() if group) + "="
    return None


def _raised_by_hand(raised: BaseException) -> bool:
    """Whether a ``raise`` stands in the line that it comes from: then these are the words of who wrote that."""
    trace = _innermost(raised)
    return trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == opcode.opmap["RAISE_VARARGS"]


def _innermost(raised: BaseException) -> Optional[types.TracebackType]:
    trace = raised.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _nearest(raised: BaseException, absent: Optional[str]) -> Optional[str]:
    """The name that torch has in place of one that it has not, where only a slip of the pen lies between."""
    path, _, name = (absent or "").rpartition(".")
    owner = getattr(raised, "obj", None)  # of an AttributeError, from Python 3.10 on
    owner = sys.modules.get(path) if owner is None else owner
    found = difflib.get_close_matches(name, dir(owner), n=1, cutoff=_SLIP) if path and owner is not None else ()
    return "%s.%s" % (path, found[0]) if found else None


def _called_another(raised: TypeError) -> bool:
    """Whether what refused a keyword is known not to be torch's: its name stands for something else at the call.

    Names are looked up there among the variables, and in the modules and classes that these hold.
    """
    match, trace = _REFUSED.match(message_of(raised)), _innermost(raised)
    if match is None or trace is None:
        return False
    wanted = match.group(1)
    held = list(trace.tb_frame.f_globals.values()) + list(trace.tb_frame.f_locals.values())
    inside = [vars(each).get(wanted.split(".")[-1]) for each in held if isinstance(each, (types.ModuleType, type))]
    kinds = (types.FunctionType, types.MethodType, type)
    found = [each for each in held + inside if isinstance(each, kinds) and each.__qualname__ == wanted]
    return bool(found) and not any(_in_torch(str(each.__module__)) for each in found)


def _asked_from_outside(frames: List[Frame]) -> bool:
    """Whether the innermost frame is not torch's, or is the first one of torch that was called from outside.

    ``torch.x`` with no x is raised by torch's own ``__getattr__``; an unknown keyword sometimes inside the function.
    """
    if not frames:
        return False
    if not frames[-1].in_torch:
        return True
    return len(frames) > 1 and not frames[-2].in_torch


def _absent_attribute(raised: AttributeError) -> Optional[str]:
    name = getattr(raised, "name", None)  # Python 3.10 and newer
    owner = getattr(raised, "obj", None)
    if name and owner is not None:
        path = _torch_path(owner)
        return "%s.%s" % (path, name) if path else None
    match = _NO_ATTRIBUTE.search(message_of(raised))
    if match and (_in_torch(match.group(1)) or match.group(1) == "Tensor"):
        return "%s.%s" % match.groups()
    match = re.search(r"^'(Tensor|Parameter)' object has no attribute '([^']+)'", message_of(raised))
    return "torch.%s.%s" % match.groups() if match else None


def _torch_path(owner: object) -> Optional[str]:
    if isinstance(owner, type(json)):
        return owner.__name__ if _in_torch(owner.__name__) else None
    kind = owner if isinstance(owner, type) else type(owner)
    module = str(getattr(kind, "__module__", ""))
    return "%s.%s" % (module, kind.__qualname__) if _in_torch(module) else None


def _in_torch(module: str) -> bool:
    return module == "torch" or module.startswith("torch.")


_CAPABILITY_OF_MODULE: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    ("compile", ("torch._inductor", "torch._dynamo", "torch.utils.cpp_extension", "triton")),
    ("cuda", ("torch.cuda", "torch.backends.cuda", "torch.backends.cudnn")),
    ("mps", ("torch.mps", "torch.backends.mps")),
    ("xpu", ("torch.xpu",)),
)
_CAPABILITY_OF_MESSAGE = (
    ("cuda", re.compile(r"CUDA (?:error|driver)|NVIDIA driver|no kernel image|with CUDA enabled|cuDNN|CUBLAS", re.I)),
    ("mps", re.compile(r"\bMPS (?:backend|device|framework)|\bMPSGraph")),
    ("xpu", re.compile(r"\bXPU\b|Level[- ]Zero|SYCL")),
)


def capabilities(raised: BaseException, places: Any) -> List[str]:
    """Capabilities that a traceback of the chain passes through, sorted; a failure there may be the environment's."""
    found = set()
    for each in chain(raised):
        modules = [frame.module for frame in places.frames(each.__traceback__)] + [type(each).__module__]
        for name, prefixes in _CAPABILITY_OF_MODULE:
            if any(module == prefix or module.startswith(prefix + ".") for module in modules for prefix in prefixes):
                found.add(name)
        text = message_of(each)
        found.update(name for name, pattern in _CAPABILITY_OF_MESSAGE if pattern.search(text))
    return sorted(found)


def traceback_text(raised: BaseException, places: Any) -> str:
    """The traceback from the case file's first frame on, bounded."""
    start = places.first_of_case(raised.__traceback__)
    try:
        lines = traceback.format_exception(type(raised), raised, start)
    except BaseException as problem:  # noqa: BLE001 - code under test
        lines = ["<the traceback could not be made: %s>" % type(problem).__name__]
    return bounded("".join(lines), _LONGEST_TRACEBACK)

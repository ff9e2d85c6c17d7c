"""What a worker loads once before its cells: torch, and for cells that compile, dynamo, inductor and its probe."""

from __future__ import annotations

import contextlib
import gc
import importlib
import linecache
import os
import sys
from typing import Any, Dict, MutableMapping

_COMPILE_MODULES = (
    "torch._dynamo",
    "torch._inductor",
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.cpp",
    "torch._inductor.codegen.wrapper",
    "torch._inductor.graph",
    "torch._inductor.scheduler",
    "torch._functorch.aot_autograd",
    "torch._higher_order_ops",
)

_IN_STACKS_OF_SEEDING = ("torch.random", "torch.cuda", "torch.xpu", "torch.mtia", "bisect_torch.worker", "__main__")


def torch_and_checks() -> None:
    """Import torch and the part of the tool that compares values.

    Raises:
        Exception: Whatever importing torch raises in a broken environment.
    """
    importlib.import_module("torch")
    for name in (
        "bisect_torch",
        "bisect_torch.worker.api",
        "bisect_torch.worker.script",
        "bisect_torch.numerics.check",
    ):
        # An environment's own torch may lack what the checks need; the cell that uses them then says so.
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module(name)
    _what_seeding_needs()


def _what_seeding_needs() -> None:
    """Load once what every cell's seeding would load in its own fork: half of a small cell's time (measured).

    numpy 2 imports its random numbers at their first use. torch keeps seeds for devices that are not in use with the
    stack, line by line, whose sources it reads.
    """
    if "numpy" in sys.modules:
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module("numpy.random")
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if name.startswith(_IN_STACKS_OF_SEEDING) and isinstance(path, str) and path.endswith(".py"):
            linecache.getlines(path)


def compile_in_this_process(variables: MutableMapping[str, str]) -> None:
    """Set the variable without which inductor starts a pool of children as soon as it is imported."""
    variables.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def compile_stack() -> None:
    """Load what ``torch.compile`` needs and let inductor look for vector instructions, which starts a compiler.

    Parts that this release lacks or that cannot be loaded here are left to the cell, whose failure then is on record.
    """
    compile_in_this_process(os.environ)
    for name in _COMPILE_MODULES:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    for name in ("torch._inductor.cpu_vec_isa", "torch._inductor.codecache"):
        with contextlib.suppress(Exception):
            importlib.import_module(name).pick_vec_isa()
            return


def torch_for(request: Dict[str, Any]) -> None:
    """In a cell: import what the request's file needs, before its clock starts."""
    importlib.import_module("torch")
    if request.get("needs_compile"):
        compile_stack()


def freeze() -> None:
    """Collect once and put all that lives now beyond the collector, so that a fork's collections cost nothing."""
    gc.collect()
    gc.freeze()


def device_initialised() -> bool:
    """Whether a device context exists in this process: forking would break it."""
    torch = sys.modules.get("torch")
    for name in ("cuda", "xpu"):
        is_initialised = getattr(getattr(torch, name, None), "is_initialized", None)
        if is_initialised is not None and is_initialised():
            return True
    return False

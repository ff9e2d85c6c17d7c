"""Whose code a frame of a traceback is."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from types import CodeType, FrameType, TracebackType
from typing import Dict, List, NamedTuple, Optional

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Frame(NamedTuple):
    """A Python frame.

    Args:
        name: ``module:function``, for the case file and for a script with the file's stem as module.
        module: Its module's name.
        origin: ``case``, ``local`` (beside the case file), ``torch.testing``, ``torch``, ``numpy.testing``, ``numpy``,
            ``unittest``, ``pytest``, ``stdlib`` or ``other``.
    """

    name: str
    module: str
    origin: str

    @property
    def in_torch(self) -> bool:
        """Whether it is torch's own code."""
        return self.origin in ("torch", "torch.testing")


class Places:
    """Knows the case file and where the standard library lies.

    Args:
        file: The case file or script.
        folder: Where its local modules lie; the file's own folder when None.
    """

    def __init__(self, file: str, folder: Optional[str] = None) -> None:
        self._file = os.path.realpath(file)
        self._folder = (os.path.dirname(self._file) if folder is None else os.path.realpath(folder)) + os.sep
        paths = sysconfig.get_paths()
        self._installed = tuple(os.path.realpath(paths[key]) + os.sep for key in ("purelib", "platlib"))
        self._standard = tuple(os.path.realpath(paths[key]) + os.sep for key in ("stdlib", "platstdlib"))
        self._known: Dict[str, str] = {}

    def frames(self, trace: Optional[TracebackType]) -> List[Frame]:
        """The frames of a traceback, outermost first, without the worker's own."""
        found = []
        for frame, _ in traceback.walk_tb(trace):
            if not frame.f_code.co_filename.startswith(_OWN + os.sep + "worker"):
                found.append(self._frame(frame))
        return found

    def first_of_case(self, trace: Optional[TracebackType]) -> Optional[TracebackType]:
        """The part of a traceback that begins in the case file; all of it when that has no frame in it."""
        part = trace
        while part is not None:
            if os.path.realpath(part.tb_frame.f_code.co_filename) == self._file:
                return part
            part = part.tb_next
        return trace

    def _frame(self, frame: FrameType) -> Frame:
        module = str(frame.f_globals.get("__name__", "?"))
        code = frame.f_code
        origin = self._origin(module, code)
        shown = os.path.splitext(os.path.basename(self._file))[0] if origin == "case" else module
        return Frame("%s:%s" % (shown, code.co_name), module, origin)

    def _origin(self, module: str, code: CodeType) -> str:
        by_name = _origin_of_module(module)
        if by_name is not None:
            return by_name
        if code.co_filename not in self._known:
            self._known[code.co_filename] = self._origin_of_file(code.co_filename)
        return self._known[code.co_filename]

    def _origin_of_file(self, name: str) -> str:
        if name.startswith("<frozen"):
            return "stdlib"
        path = os.path.realpath(name)
        if path == self._file:
            return "case"
        if path.startswith(self._installed) or os.sep + "site-packages" + os.sep in path:
            return "other"
        if path.startswith(self._standard):
            return "stdlib"
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        if cache and path.startswith(os.path.realpath(cache) + os.sep):
            return "torch"
        if path.startswith(self._folder) and not path.startswith(os.path.realpath(sys.prefix) + os.sep):
            return "local"
        return "other"


def _origin_of_module(module: str) -> Optional[str]:
    top = module.partition(".")[0]
    if top in ("torch", "numpy"):
        return "%s.testing" % top if (module + ".").startswith(top + ".testing.") else top
    if top in ("unittest", "pytest", "_pytest"):
        return top.lstrip("_")
    return None

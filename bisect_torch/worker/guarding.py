"""The guard in a cell: ``BISECT_TORCH_GUARD=1`` guards what the tool runs."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
import warnings
from typing import Optional, Sequence

from bisect_torch.numerics.guard import settings


def enable() -> None:
    """Enable the guard that the environment asks for: now, or when the script has imported torch.

    torch is not imported for it: scripts that set variables for torch do so before their own import.

    Raises:
        ValueError: The variable says nothing sensible.
    """
    asked = settings.from_environment()
    if asked is None:
        return
    if "torch" in sys.modules:
        _enable(asked)
    else:
        sys.meta_path.insert(0, _AfterTorch(asked))


def _enable(asked: settings.Settings) -> None:
    from bisect_torch.numerics import Guard, GuardWarning

    with warnings.catch_warnings():
        # Threads that run now are the tool's own and never touch torch.
        warnings.simplefilter("ignore", GuardWarning)
        Guard(asked.device, asked.limit).enable()


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Finds torch as ever, and enables the guard once it is loaded."""

    def __init__(self, asked: settings.Settings) -> None:
        self._asked = asked

    def find_spec(
        self, name: str, path: Optional[Sequence[str]], target: Optional[types.ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(name)
        if found is not None and found.loader is not None:
            found.loader = _Loader(found.loader, self._asked)
        return found


class _Loader(importlib.abc.Loader):
    """The loader it is given, which enables the guard afterwards."""

    def __init__(self, loader: "importlib.abc.Loader", asked: settings.Settings) -> None:
        self._loader = loader
        self._asked = asked

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[types.ModuleType]:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _enable(self._asked)

"""Where Python may write bytecode: for modules of the environment, and for nothing that is the user's.

A case file, its neighbours and a project under test are read where they lie; no ``__pycache__`` is made beside them.
"""

from __future__ import annotations

import os
import site
import sys
from importlib.machinery import SourceFileLoader
from typing import Tuple


def keep_to_the_environment() -> None:
    """Have the import system of this process write bytecode only for what the environment consists of.

    Workers and cells are started with ``-B``, which what they start with their own flags (multiprocessing's ``spawn``)
    inherits: nothing is written there. Here it is taken back for torch, whose parts are imported as cells need them: an
    import without bytecode takes 5 s instead of 2. Bytecode that is there is read as ever.
    """
    inside = _own_folders()
    write = SourceFileLoader.set_data

    def set_data(self: SourceFileLoader, path: str, data: bytes, *, _mode: int = 0o666) -> None:
        if os.path.realpath(path).startswith(inside):
            write(self, path, data, _mode=_mode)

    SourceFileLoader.set_data = set_data  # type: ignore[assignment,method-assign]
    sys.dont_write_bytecode = False


def _own_folders() -> Tuple[str, ...]:
    """Standard library, site-packages and the staged copy of the tool, each with a separator at its end."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [os.path.dirname(os.__file__), *site.getsitepackages(), package]
    return tuple(os.path.realpath(folder) + os.sep for folder in folders)

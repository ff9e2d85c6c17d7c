"""A room's door of which the names are loaded when they are used first."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable


def opened(room: str, **files: str) -> Callable[[str], object]:
    """The ``__getattr__`` of a room's ``__init__.py``.

    No name may be that of one of the room's files: once such a file is loaded, the name is the file's.

    Args:
        room: The room's full name.
        files: File to the names that it gives, with spaces between.
    """
    places = {name: file for file, names in files.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        found: object = getattr(importlib.import_module(f"{room}.{places[name]}"), name)
        setattr(sys.modules[room], name, found)  # the next look-up does not come here
        return found

    return find

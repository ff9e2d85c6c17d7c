"""bisect-torch: the public names for case files.

They are loaded when they are first used, so that the command line does not pay for them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own takes milliseconds to import, in which the program cannot listen to Ctrl-C yet
if TYPE_CHECKING:
    from typing import Any

    from bisect_torch.worker.api import Skip, case, check, record, skip, thorough

__all__ = ["Skip", "case", "check", "record", "skip", "thorough"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bisect_torch.worker import api

    globals().update({known: getattr(api, known) for known in __all__})
    return globals()[name]

"""Libraries that others would load for nothing.

pyarrow imports numpy when it is loaded, and pandas at the first array that it makes, to see whether it was given one of
theirs; it does without where they are not installed. The tool never gives it one: importing both takes 0.3 s. The same
with its own parts for the storage of clouds and of Hadoop: results are files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

UNUSED = frozenset({"numpy", "pandas", "pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs"})


class LeftOut:
    """A finder that says of some libraries, first on ``sys.meta_path``, that they are not installed.

    Args:
        names: Of the libraries.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None: others may find it.

        Raises:
            ModuleNotFoundError: It is left out.
        """
        if name in self._names:
            raise ModuleNotFoundError(f"{name} is left out of this process", name=name)
        return None

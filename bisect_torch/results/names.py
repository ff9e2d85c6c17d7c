"""Which instances a results file has: one column of it, for a shell that completes their names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bisect_torch.errors import UsageError
from bisect_torch.results import compute as pc

_COLUMN = "instance"


def instance_names(path: Path) -> tuple[str, ...]:
    """The names of a file's instances, each once, in the order of its rows. What only its journal has is left out.

    Raises:
        UsageError: It is no results file that can be read.
    """
    try:
        table = pq.read_table(path, columns=[_COLUMN], use_threads=False)
        return tuple(pc.unique(table[_COLUMN]).to_pylist())
    except (pa.ArrowException, OSError, KeyError) as error:
        said = str(error).partition("\n")[0]
        raise UsageError(f"{path} has no names of instances: {said}", hint="name another results file") from None

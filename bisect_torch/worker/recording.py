"""Named facts that a case or script keeps of its own cell."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, List, Optional

MOST_BYTES = 16 * 1024
"""Of JSON, for all facts of a cell together: a results file holds thousands of cells."""

_recorded: Dict[str, Any] = {}


def record(**facts: Any) -> None:
    """Keep facts of the running cell; they come back as the JSON object in the column ``measurements``.

    What was recorded before an exception, a failed assertion or a skip is kept. A name that is recorded again has the
    later value. What a cell that crashed or ran out of time had recorded is lost.

    Args:
        facts: Name to value: text, number, boolean, None, or a list (also of lists) of such. JSON has no infinity and
            no NaN: they are kept as the texts ``inf``, ``-inf`` and ``nan``.

    Raises:
        TypeError: A value is of another type; a tensor or numpy number is given by its ``item()`` or ``tolist()``.
        ValueError: All facts of the cell together take more than :data:`MOST_BYTES` bytes of JSON.
    """
    added = {name: _plain(name, value) for name, value in facts.items()}
    together = {**_recorded, **added}
    size = len(_as_json(together))
    if size > MOST_BYTES:
        raise ValueError(
            "record(%s): the facts of a cell may take %d bytes of JSON, these take %d"
            % (", ".join(facts), MOST_BYTES, size)
        )
    _recorded.update(added)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(name, item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(
        "record(%s=…): texts, numbers, booleans, None and lists of such can be kept, not %s"
        % (name, type(value).__name__)
    )


def _as_json(facts: Dict[str, Any]) -> str:
    return json.dumps(facts, separators=(",", ":"))


def recorded() -> Optional[str]:
    """What has been recorded so far, as JSON; None where nothing was."""
    return _as_json(_recorded) if _recorded else None


def forget_records() -> None:
    """A new cell begins."""
    _recorded.clear()


def also(**facts: Any) -> Dict[str, Any]:
    """Record what the tool saw, where the case has left room for it. Gives what the cell's facts have then to be."""
    try:
        record(**facts)
    except ValueError:
        return {}
    return {"measurements": recorded()}


_thorough: List[bool] = []


def thorough() -> bool:
    """Whether the run was started with ``--thorough``: a case then compares everything that it otherwise samples."""
    return bool(_thorough)


def set_thorough(thorough: bool) -> None:
    """Before a file is loaded: what its request says."""
    _thorough[:] = [True] if thorough else []

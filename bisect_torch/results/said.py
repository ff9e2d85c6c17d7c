"""What a recheck has said before, so that a job that runs every day says a thing once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bisect_torch import own_digest
from bisect_torch.analysis.rechecking import Change, Rechecked
from bisect_torch.errors import InfrastructureError, UsageError

FORMAT = 1
_NOTHING: dict[str, Any] = {"answer": None, "unjudged": None}


def read_said(path: Path) -> dict[str, dict[str, Any]]:
    """Row to what was said of it; nothing where there is no file yet.

    Raises:
        UsageError: It is no such file, or of a newer format.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise UsageError(
            f"--state {path}: cannot be read: {problem}",
            hint="name the file that an earlier --state wrote, or one that is not there yet",
        ) from None
    hint = "name another file; without one everything is said anew"
    try:
        document = own_digest.from_json(content, also_without=True)
        form, rows = document["recheck_state"], document["rows"]
        known = {str(row): {"answer": said["answer"], "unjudged": said["unjudged"]} for row, said in rows.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"--state {path}: not a state file of recheck", hint=hint) from None
    if form != FORMAT:
        raise UsageError(f"--state {path}: format {form}; this bisect-torch knows {FORMAT}", hint=hint)
    return known


def news(rows: Iterable[Rechecked], said: dict[str, dict[str, Any]]) -> list[Rechecked]:
    """Rows of which something else must be said than before.

    A day on which a row cannot be judged is said once, and does not make the old verdict news when it comes back.
    """
    return [row for row in rows if _is_news(row, said.get(_key(row), _NOTHING))]


def write_said(path: Path, rows: Iterable[Rechecked], said: dict[str, dict[str, Any]]) -> None:
    """Remember what is said now; rows that did not take part stay as they were.

    Raises:
        InfrastructureError: It cannot be written.
    """
    known = {**said, **{_key(row): _updated(row, said) for row in rows}}
    try:
        own_digest.write_json(path, {"recheck_state": FORMAT, "rows": known})
    except OSError as problem:
        raise InfrastructureError(
            f"--state {path}: cannot be written: {problem.strerror}", hint="name another file with --state"
        ) from problem


def _key(row: Rechecked) -> str:
    return json.dumps(row.row)


def _is_news(row: Rechecked, before: dict[str, Any]) -> bool:
    if row.change is Change.UNJUDGED:
        return bool(before["unjudged"] != row.reason)
    return bool(before["answer"] != row.answer)


def _updated(row: Rechecked, said: dict[str, dict[str, Any]]) -> dict[str, Any]:
    before = said.get(_key(row), _NOTHING)
    if row.change is Change.UNJUDGED:
        return {"answer": before["answer"], "unjudged": row.reason}
    return {"answer": row.answer, "unjudged": None}

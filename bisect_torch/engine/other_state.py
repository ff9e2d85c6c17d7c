"""Whether a suite and the editable projects of a run are as they were in an earlier one; if not, what differs.

Results hold one hash of all files. Which files stand behind a hash is kept in the store, so that one can be named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bisect_torch import own_digest
from bisect_torch.cases import Discovered
from bisect_torch.engine.request import RunRequest
from bisect_torch.environments import Project
from bisect_torch.model import CaseKind

_OF_SUITE = "(beside the tests)"


def describe_suite(discovered: Sequence[Discovered]) -> dict[str, str] | None:
    """What a results file keeps of the suite of a run; None where it has none."""
    suite = _suite(discovered)
    if suite is None:
        return None
    words = hashlib.sha256(json.dumps(suite.cases[0].argv).encode()).hexdigest()
    return {"words": words, "files": suite.file.sha256, "beside": suite.file.local_modules[_OF_SUITE]}


def keep_files(request: RunRequest) -> None:
    """Keep the names of the files behind the hashes of a run. Where that fails, a later run names none."""
    folder = request.environment_options.store.expansions
    suite = _suite(request.discovered)
    kept = [] if suite is None else [(suite.file.sha256, suite.covered)]
    kept += [(project.files, project.differing) for project in request.projects if project.files]
    for digest, files in kept:
        path = _list_of(folder, digest)
        if not path.exists():
            own_digest.write_kept(path, {"files": dict(files)})


def why_again(request: RunRequest) -> str | None:
    """That what the last run of this suite, or of these projects, saw no longer counts, and why; None where it does."""
    own = describe_suite(request.discovered)
    names = [project.describe()["name"] for project in request.projects]
    if own is None and not names:
        return None
    for run in reversed(request.file.runs):
        suite = _mapping(run.get("suite"))
        same_projects = [each.get("name") for each in _projects(run)] == names
        if suite.get("words") == (own or {}).get("words") and (own is not None or same_projects):
            store = request.environment_options.store.expansions
            why = what_differs(run, request.discovered, request.projects, store)
            return why and f"the {'tests run' if own else 'cases run'} again: {why}"
    return None


def what_differs(
    run: Mapping[str, object], discovered: Sequence[Discovered], projects: Sequence[Project], store: Path
) -> str | None:
    """What is not as it was in a run, besides files of tests; None where all is.

    Args:
        run: Its part of a results file's manifest.
        store: The folder in which :func:`keep_files` kept the names.
    """
    earlier = _projects(run)
    if len(earlier) != len(projects):
        return "other projects are installed by --with-editable"
    for was, project in zip(earlier, projects, strict=True):
        name = project.folder.name
        if was.get("commit") != project.commit:
            return f"{name} is at another commit"
        if (was.get("files") or "") != project.files:
            files = _names(store, str(was.get("files") or ""))
            return f"{name} is not as it was{_named(files, project.differing)}"
    suite, now = _suite(discovered), describe_suite(discovered)
    was = _mapping(run.get("suite"))
    if suite is None or now is None:
        return None
    case_files = run.get("case_files")
    # An older version kept the suite's whole hash alone, among those of its files.
    same = was.get("beside") == now["beside"] or (isinstance(case_files, list) and suite.file.sha256 in case_files)
    if not same:
        files = _names(store, str(was.get("files") or "unknown"))
        return f"what lies beside the tests is not as it was{_named(files, suite.covered)}"
    return None


def _suite(discovered: Sequence[Discovered]) -> Discovered | None:
    return next((item for item in discovered if item.file.kind is CaseKind.PYTEST), None)


def _named(was: Mapping[str, str] | None, now: Mapping[str, str]) -> str:
    """The first file that differs, after a colon; empty where it is not known."""
    if was is None:
        return ""
    names = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
    if not names:
        return ""
    first = names[0]
    how = "has changed" if first in was and first in now else "is new" if first in now else "is gone, or as committed"
    return f": {first} {how}" + (f", and {len(names) - 1} more" if names[1:] else "")


def _names(store: Path, digest: str) -> dict[str, str] | None:
    """The files behind a hash; none behind that of a project as it was committed; None where they are not known."""
    if not digest:
        return {}
    kept = own_digest.read_kept(_list_of(store, digest)) if digest.isalnum() else None
    return None if kept is None else _mapping(kept.get("files"))


def _list_of(store: Path, digest: str) -> Path:
    return store / f"files-{digest}.json"


def _projects(run: Mapping[str, object]) -> list[dict[str, Any]]:
    found = run.get("projects")
    return [_mapping(each) for each in found] if isinstance(found, list) else []


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

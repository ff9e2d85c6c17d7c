"""The copy of this package that children inside an environment import: names for case files, worker, numerics."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from bisect_torch.environments.store import Store, remove_tree

_PACKAGE = Path(__file__).resolve().parent.parent
_PARTS = ("worker", "numerics")


def staged_package(store: Store) -> Path:
    """The folder ``bisect_torch`` in the store of names, worker and numerics; its parent goes on sys.path.

    There is one per content: a run keeps the code that it started with when the tool is upgraded meanwhile.
    """
    sources = _all_sources()
    home = store.staged / _name(sources)
    target = home / "bisect_torch"
    if _whole(target, sources):
        return target
    name = f"staged-{home.name}"
    with store.guard(name):
        if not _whole(target, sources):  # else another run was quicker
            _make(sources, store.new_tmp(name), home)
    return target


def staged_name() -> str:
    """Name of the folder in which :func:`staged_package` puts it: it tells the content."""
    return _name(_all_sources())


def numerics_digest() -> str:
    """SHA-256 (hex) over the torch code that case files may use."""
    return _digest(_sources("numerics"))


def _all_sources() -> dict[str, bytes]:
    return {"__init__.py": (_PACKAGE / "__init__.py").read_bytes(), **_sources(*_PARTS)}


def _name(sources: dict[str, bytes]) -> str:
    return _digest(sources)[:16]


def _digest(sources: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for relative, content in sources.items():
        digest.update(f"{relative}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _make(sources: dict[str, bytes], made: Path, home: Path) -> None:
    try:
        for relative, content in sources.items():
            path = made / "bisect_torch" / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        remove_tree(home)  # damaged, if it is there at all
        os.rename(made, home)
    finally:
        remove_tree(made)


def _sources(*parts: str) -> dict[str, bytes]:
    files = [file for part in parts for file in sorted((_PACKAGE / part).rglob("*.py")) if file.is_file()]
    return {str(path.relative_to(_PACKAGE)): path.read_bytes() for path in files}


def _whole(target: Path, sources: dict[str, bytes]) -> bool:
    try:
        return all((target / relative).read_bytes() == content for relative, content in sources.items())
    except OSError:
        return False

"""A project that is installed as editable: which state of its files a run saw."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PASSED_OVER = frozenset({"__pycache__", "node_modules", "venv", "build", "dist"})
_READ_BYTES = 1 << 20
_BUILD_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "MANIFEST.in")


@dataclass(frozen=True)
class Project:
    """An editable project at the time of a run.

    Args:
        folder: Where it lies.
        commit: Full hash of git's HEAD; None where the folder is in no repository.
        dirty: Files differ from that commit, or there are new ones.
        files: SHA-256 (hex) of what differs; without a repository, of all files; empty where nothing differs.
    """

    folder: Path
    commit: str | None
    dirty: bool
    files: str

    @property
    def state(self) -> str:
        """What identifies its code, wherever it lies."""
        return f"{self.folder.name} {self.commit or 'no commit'} {self.files}".strip()

    def describe(self) -> dict[str, object]:
        """What a results file keeps of it."""
        return {"name": self.folder.name, "commit": self.commit, "dirty": self.dirty, "files": self.files or None}

    def __str__(self) -> str:
        if self.commit is None:
            return f"{self.folder.name} (in no git repository)"
        return f"{self.folder.name} at {self.commit[:12]}{' with uncommitted changes' if self.dirty else ''}"


def project_at(folder: Path) -> Project:
    """The state of the project in a folder."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return Project(folder, None, False, _digest(_all_files(folder), folder))
    changed = _git(folder, "diff", "HEAD", "--no-ext-diff", "--binary", "--", ".") or ""
    new = (_git(folder, "ls-files", "--others", "--exclude-standard", "-z", "--", ".") or "").split("\0")
    paths = sorted(folder / name for name in new if name and not _made(name))
    if not changed and not paths:
        return Project(folder, commit.strip(), False, "")
    digest = hashlib.sha256(changed.encode("utf-8", "surrogateescape"))
    digest.update(_digest(paths, folder).encode())
    return Project(folder, commit.strip(), True, digest.hexdigest())


def _made(name: str) -> bool:
    """Whether a new file is a result of ours, or what a build backend leaves: that is no change of the project."""
    *folders, last = name.split("/")
    return last.endswith((".pyc", ".parquet", ".journal")) or any(
        each in _PASSED_OVER or each.endswith(".egg-info") for each in folders
    )


def build_digest(folder: Path) -> str:
    """SHA-256 (hex) of the files that say how a project is built and what it needs."""
    return _digest([folder / name for name in _BUILD_FILES if (folder / name).is_file()], folder)


def _git(folder: Path, *words: str) -> str | None:
    """What git says; None where it fails, or is not there."""
    from bisect_torch.child_processes import run_process

    try:
        answer = run_process(["git", "-C", folder, *words], timeout_s=60)
    except OSError:
        return None
    return answer.stdout if answer.returncode == 0 else None


def _all_files(folder: Path) -> list[Path]:
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] != "." and name not in _PASSED_OVER]
        folders[:] = [name for name in folders if not os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))]
        names = [name for name in names if not _made(os.path.relpath(os.path.join(parent, name), folder))]
        found += [Path(parent, name) for name in names]
    return sorted(found)


def _digest(paths: Iterable[Path], folder: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        try:
            status = path.stat()
            small = path.is_file() and status.st_size <= _READ_BYTES
            content = path.read_bytes() if small else f"{status.st_size} {status.st_mtime_ns}".encode()
        except OSError:
            content = b"unreadable"
        digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode("utf-8", "surrogateescape") + content)
    return digest.hexdigest()

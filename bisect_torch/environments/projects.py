"""A project that is installed as editable: which state of its files a run saw."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bisect_torch import own_files
from bisect_torch.own_files import OwnFiles

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
        differing: Name to a hash of each file that this covers.
    """

    folder: Path
    commit: str | None
    dirty: bool
    files: str
    differing: Mapping[str, str] = field(default_factory=dict, compare=False)

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


def project_at(folder: Path, own: OwnFiles = own_files.NONE) -> Project:
    """The state of the project in a folder.

    Args:
        own: Files that are the tool's own, and no part of it; nor are its reports that git does not track.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        paths = [path for path in _all_files(folder) if path not in own]
        return Project(folder, None, False, _digest(paths, folder), _each(paths, folder))
    changed, names = _changes(folder, own)
    new = (_git(folder, "ls-files", "--others", "--exclude-standard", "-z", "--", ".") or "").split("\0")
    reports = own_files.untracked_reports(folder)
    candidates = (folder / name for name in new if name and not _made(name))
    paths = sorted(path for path in candidates if path not in reports and path not in own)
    if not changed and not paths:
        return Project(folder, commit.strip(), False, "")
    digest = hashlib.sha256(changed.encode("utf-8", "surrogateescape"))
    digest.update(_digest(paths, folder).encode())
    return Project(
        folder, commit.strip(), True, digest.hexdigest(), _each([*(folder / name for name in names), *paths], folder)
    )


def _each(paths: Iterable[Path], folder: Path) -> dict[str, str]:
    return {os.path.relpath(path, folder): _digest([path], folder) for path in paths}


def _changes(folder: Path, own: OwnFiles) -> tuple[str, list[str]]:
    """What git says of the files that it tracks and that differ, without the tool's own; and their names."""
    words = ("diff", "HEAD", "--no-ext-diff")
    changed = _git(folder, *words, "--binary", "--", ".") or ""
    if not changed:
        return "", []
    names = (_git(folder, *words, "--name-only", "--relative", "-z", "--", ".") or "").split("\0")
    others = [name for name in names if name and folder / name not in own]
    left_out = [f":(exclude,literal){name}" for name in names if name and folder / name in own]
    if left_out:
        changed = _git(folder, *words, "--binary", "--", ".", *left_out) or ""
    return changed, others


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

"""The stamp of a finished environment, and the sweep that finds what changed since.

Files of an environment are hard links into uv's cache and so shared with other environments: what is written through
one link comes back in all, without an error. The stamp therefore holds size and modification time of every file.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisect_torch import own_digest
from bisect_torch.model import Build, BuildKind, Environment
from bisect_torch.threads import map_in_threads

STAMP_NAME = "bisect-torch.json"
FORMAT = 1

Files = dict[str, dict[str, list[int]]]
"""Folder relative to the environment, to file name, to size in bytes and modification time in ns. For a symbolic link,
of the link itself."""

_CODE = (".py", ".pth", ".pyc", ".pyd", ".dylib")
_BYTECODE_FOLDER = "__pycache__"


@dataclass(frozen=True)
class Stamp:
    """What was written last into an environment.

    Args:
        environment: As it was found by the control case; ``root`` is where the stamp lies.
        tool_version: Of this tool.
        files: Every file.
    """

    environment: Environment
    tool_version: str
    files: Files


@dataclass(frozen=True)
class Change:
    """A difference between an environment and its stamp: ``path`` (relative) is ``missing``, ``changed`` or ``new``."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path} is {self.what}"


def read_files(root: Path) -> Files:
    """Size and modification time of every file below ``root``, without the stamp itself."""
    found: Files = {}
    pending = [""]
    while pending:
        folder = pending.pop()
        entries: dict[str, list[int]] = {}
        # Reading by descriptor spares the kernel the long way down to each file: a sixth of the time.
        descriptor = os.open(os.path.join(root, folder), os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(descriptor) as scan:
                for entry in scan:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(f"{folder}/{entry.name}" if folder else entry.name)
                    else:
                        status = entry.stat(follow_symlinks=False)
                        entries[entry.name] = [status.st_size, status.st_mtime_ns]
        finally:
            os.close(descriptor)
        if entries:
            found[folder] = entries
    found.get("", {}).pop(STAMP_NAME, None)
    return found


def compare(expected: Files, actual: Files) -> list[Change]:
    """What changed. New files count when they could be imported in place of others; bytecode may come and go."""
    changes: list[Change] = []
    for folder, entries in expected.items():
        now = actual.get(folder, {})
        if now == entries:
            continue
        bytecode = folder.endswith(_BYTECODE_FOLDER)
        for name, seen in entries.items():
            if name not in now:
                if not bytecode:
                    changes.append(Change(f"{folder}/{name}".lstrip("/"), "missing"))
            elif now[name] != seen:
                changes.append(Change(f"{folder}/{name}".lstrip("/"), "changed"))
    for folder, entries in actual.items():
        if folder.endswith(_BYTECODE_FOLDER):
            continue
        known = expected.get(folder, {})
        for name in entries:
            if name not in known and (name.endswith(_CODE) or ".so" in name):
                changes.append(Change(f"{folder}/{name}".lstrip("/"), "new"))
    return changes


def make_read_only(root: Path) -> None:
    """Take the write permission from every file. Modification times stay; the links in uv's cache change with it."""
    for folder, names in read_files(root).items():
        for name in names:
            path = os.path.join(root, folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode) and mode & 0o222:
                os.chmod(path, stat.S_IMODE(mode) & ~0o222)


def write(environment: Environment, tool_version: str) -> None:
    """Write the stamp of what lies in ``environment.root`` now, and see that it reached the disk."""
    values = {
        "format": FORMAT,
        "tool_version": tool_version,
        "environment": _environment_values(environment),
        "files": read_files(environment.root),
    }
    path = environment.root / STAMP_NAME
    with path.open("wb") as stream:
        stream.write(own_digest.to_json(values))
        stream.flush()
        os.fsync(stream.fileno())


def read(root: Path) -> Stamp | None:
    """The stamp in ``root``; None when there is none that can be read."""
    try:
        values = own_digest.from_json((root / STAMP_NAME).read_bytes(), also_without=True)
        if values["format"] != FORMAT:
            return None
        environment = _environment(root, values["environment"])
        return Stamp(environment, str(values["tool_version"]), _files(values["files"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_environment(root: Path) -> Environment | None:
    """The environment that the stamp in ``root`` is of, in a fifth of the time that reading all of it takes."""
    try:
        values = own_digest.beginning((root / STAMP_NAME).read_bytes(), "files")
        return _environment(root, values["environment"]) if values["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        found = read(root)  # one of an older version has no digest
        return None if found is None else found.environment


def _files(values: Files) -> Files:
    """
    Raises:
        ValueError: It is no table of files.
    """
    if not all(isinstance(entries, dict) for entries in values.values()):
        raise ValueError("no table of files")
    return values


def sweep(root: Path) -> tuple[Environment | None, list[Change]]:
    """The environment in ``root`` if it is as it was stamped; else None and what changed (empty: there is no stamp)."""
    stamp = read(root)
    if stamp is None:
        return None, []
    try:
        changes = compare(stamp.files, read_files(root))
        is_there = stamp.environment.python.exists()
    except (OSError, ValueError) as error:  # also a path that no file can have: the stamp is an old, damaged one
        return None, [Change(os.fspath(getattr(error, "filename", None) or root), "unreadable")]
    if not changes and not is_there:
        # The interpreter that the environment was made from is gone: the link in bin/ leads nowhere.
        changes = [Change(os.path.relpath(stamp.environment.python, root), "a link to an interpreter that is gone")]
    return (None, changes) if changes else (stamp.environment, [])


# --- which package owns a file


def records(root: Path) -> Iterator[tuple[str, Path]]:
    """Normalised name and ``.dist-info`` folder of every installed distribution."""
    for info in sorted(root.glob("lib*/python*/site-packages/*.dist-info")):
        if not info.parent.parent.parent.is_symlink():
            yield (
                info.name.removesuffix(".dist-info").rpartition("-")[0].lower().replace("_", "-").replace(".", "-"),
                info,
            )


def record_rows(info: Path) -> Iterator[tuple[Path, str, int]]:
    """Path, ``sha256=…`` (may be empty) and size of each file in a RECORD that states them."""
    with (info / "RECORD").open(newline="", encoding="utf-8") as stream:
        for row in csv.reader(stream):
            if len(row) == 3 and row[1] and row[2].isdigit():
                yield Path(os.path.normpath(info.parent / row[0])), row[1], int(row[2])


def owners(root: Path, changes: list[Change]) -> list[str]:
    """Names of the packages that own the changed files, by their RECORDs.

    A package whose own RECORD changed or cannot be read owns whatever nobody else does.
    """
    paths = {root / change.path for change in changes}
    found: set[str] = set()
    claimed: set[Path] = set()
    for name, info in records(root):
        try:
            listed = {path for path, _, _ in record_rows(info)} & paths
        except (OSError, ValueError, csv.Error):
            listed = set()
            found.add(name)
        if info / "RECORD" in paths:
            found.add(name)
        if listed:
            found.add(name)
            claimed |= listed
    for path in paths - claimed:
        # A new file, or one of a package whose whole folder is gone: its first folder is the best name there is.
        inside = path.parts[path.parts.index("site-packages") + 1 :] if "site-packages" in path.parts else ()
        if inside and len(inside) > 1:
            found.add(inside[0].partition("-")[0].lower().replace("_", "-"))
    return sorted(found)


def verify_shared(root: Path, others: Iterable[Path]) -> list[tuple[str, Change]]:
    """Files that differ from what their package's RECORD says: package name and change.

    uv checks a file when it downloads it, and never again: what it links from its cache may have been changed through
    another environment. Sizes are compared for all. Contents are read where that can have happened (more than two
    links) and no stamp of another environment knows the file with this very size and time: what was stamped was
    good then.

    Args:
        others: The environments of the store.
    """
    known = [found.files for found in map(read, others) if found is not None]
    wrong: list[tuple[str, Change]] = []
    unknown: list[tuple[str, Path, str]] = []
    for name, info in records(root):
        try:
            for path, digest, size in record_rows(info):
                what = _differs(path, size)
                if what:
                    wrong.append((name, Change(os.path.relpath(path, root), what)))
                elif digest.startswith("sha256=") and not _is_known(path, root, known):
                    unknown.append((name, path, digest))
        except (OSError, ValueError, csv.Error):
            wrong.append((name, Change(os.path.relpath(info / "RECORD", root), "unreadable")))
    digests = map_in_threads(lambda row: _digest(row[1]), unknown, threads=os.cpu_count() or 1)
    for (name, path, digest), actual in zip(unknown, digests, strict=True):
        if actual != digest.removeprefix("sha256=").rstrip("="):
            wrong.append((name, Change(os.path.relpath(path, root), "changed")))
    return wrong


def _differs(path: Path, size: int) -> str | None:
    """Whether the size alone shows a change. Scripts are rewritten for the environment: they have one link."""
    try:
        status = path.lstat()
    except OSError:
        return "missing"
    shared = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    return "changed" if shared and status.st_size != size else None


def _is_known(path: Path, root: Path, known: list[Files]) -> bool:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_nlink <= 2:
        return True
    seen = [status.st_size, status.st_mtime_ns]
    folder = os.path.relpath(path.parent, root)
    return any(files.get(folder, {}).get(path.name) == seen for files in known)


def _digest(path: Path) -> str:
    import base64

    sha256 = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            sha256.update(block)
    return base64.urlsafe_b64encode(sha256.digest()).rstrip(b"=").decode()


# --- the environment as JSON


def _environment_values(environment: Environment) -> dict[str, Any]:
    build = environment.build
    return {
        "build": {
            "kind": build.kind.value,
            "version": build.version,
            "name": build.name,
            "day": None if build.day is None else build.day.isoformat(),
            "git_commit": build.git_commit,
            "pythons": list(build.pythons),
            "download_bytes": build.download_bytes,
        },
        "python": os.path.relpath(environment.python, environment.root),
        "python_version": environment.python_version,
        "lock_hash": environment.lock_hash,
        "packages": dict(environment.packages),
        "torch_version": environment.torch_version,
        "git_commit": environment.git_commit,
        "cuda": environment.cuda,
        "backend": environment.backend,
    }


def _environment(root: Path, values: Mapping[str, Any]) -> Environment:
    build = values["build"]
    return Environment(
        build=Build(
            kind=BuildKind(build["kind"]),
            version=build["version"],
            name=build["name"],
            day=None if build["day"] is None else datetime.date.fromisoformat(build["day"]),
            git_commit=build["git_commit"],
            pythons=tuple(build["pythons"]),
            download_bytes=build["download_bytes"],
        ),
        root=root,
        python=root / values["python"],
        python_version=values["python_version"],
        lock_hash=values["lock_hash"],
        packages=dict(values["packages"]),
        torch_version=values["torch_version"],
        git_commit=values["git_commit"],
        cuda=values["cuda"],
        backend=values["backend"],
    )

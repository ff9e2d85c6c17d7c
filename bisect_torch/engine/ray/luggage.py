"""What travels to the nodes: case files with the modules beside them that they import, scripts, files of a command.

A node does not see the user's folders. What cells say there of a file is told with the user's path.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from bisect_torch.cases import Discovered
from bisect_torch.errors import UsageError
from bisect_torch.model import CaseFile, CaseKind

_WORKING_DIRECTORY = "cwd"


@dataclass(frozen=True)
class Luggage:
    """Files as they were read.

    Args:
        content: Path below the folder in which it is unpacked, to bytes.
        written_ns: The same to when the user's file was written, in nanoseconds: what a cell reads is told with it.
        folders: Name of a folder there to the user's folder that it stands for.
        files: The user's path of a case file to its path there; of a command, those of the working directory.
        programs: Which of the files can be started.
    """

    content: Mapping[str, bytes]
    written_ns: Mapping[str, int]
    folders: Mapping[str, Path]
    files: Mapping[Path, str]
    programs: frozenset[str] = frozenset()

    def unpack(self, folder: Path) -> Unpacked:
        """Write everything into an empty folder."""
        for name in self.folders:
            (folder / name).mkdir(parents=True)
        for name, content in self.content.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            os.utime(path, ns=(self.written_ns[name],) * 2)
            if name in self.programs:
                path.chmod(0o755)
        return Unpacked(
            files={path: folder / name for path, name in self.files.items()},
            folders={folder / name: path for name, path in self.folders.items()},
            working_directory=folder / _WORKING_DIRECTORY,
        )


@dataclass(frozen=True)
class Unpacked:
    """The same on a node.

    Args:
        files: The user's path of a case file to its path here.
        folders: Folder here to the user's folder.
        working_directory: Stands for the user's.
    """

    files: Mapping[Path, Path]
    folders: Mapping[Path, Path]
    working_directory: Path

    def here(self, file: CaseFile) -> CaseFile:
        """The case file as it lies here."""
        return replace(file, path=self.files[file.path])


def packed(discovered: Sequence[Discovered], working_directory: Path) -> Luggage:
    """What a run needs on every node.

    What lies below the working directory keeps its place in it, so that relative paths mean the same.

    Raises:
        UsageError: A file has changed since it was read, or cannot travel.
    """
    folders = {_WORKING_DIRECTORY: working_directory}
    from_where: dict[str, tuple[Path, str | None]] = {}
    files: dict[Path, str] = {}
    programs = set()
    for item in discovered:
        file = item.file
        if file.kind is CaseKind.COMMAND:
            files[file.path] = _WORKING_DIRECTORY
            for path, name, digest in _of_command(file, item.cases[0].argv, working_directory):
                from_where[name] = path, digest
                if os.access(path, os.X_OK):
                    programs.add(name)
            continue
        name = _name_of(file.path.parent, folders, working_directory)
        files[file.path] = f"{name}/{file.path.name}"
        from_where[files[file.path]] = file.path, file.sha256
        for module, digest in file.local_modules.items():
            from_where[f"{name}/{module}"] = file.path.parent / module, digest
    read = {name: _read(*where) for name, where in from_where.items()}
    content = {name: content for name, (content, _) in read.items()}
    written_ns = {name: at for name, (_, at) in read.items()}
    return Luggage(content, written_ns, folders, files, frozenset(programs))


def _name_of(folder: Path, folders: dict[str, Path], working_directory: Path) -> str:
    """How the user's folder is called where it is unpacked."""
    if folder.is_relative_to(working_directory):
        return (PurePosixPath(_WORKING_DIRECTORY) / folder.relative_to(working_directory).as_posix()).as_posix()
    for name, known in folders.items():
        if known == folder:
            return name
    folders[name := f"folder-{len(folders)}"] = folder
    return name


def _of_command(file: CaseFile, words: Sequence[str], folder: Path) -> Iterator[tuple[Path, str, str | None]]:
    """The files among the words, and the program itself where it is one of the user's; with their SHA-256, if known."""
    named: dict[str, str | None] = dict(file.local_modules)
    if os.sep in words[0] and not Path(words[0]).is_absolute():
        named[words[0]] = None
    for word, digest in named.items():
        path = folder / word
        if Path(word).is_absolute() or not path.resolve().is_relative_to(folder.resolve()):
            raise UsageError(
                f"{word}: it is not below the working directory, and does not travel to the nodes of a cluster",
                hint="run from a folder that has all files that the command names",
            )
        yield path, f"{_WORKING_DIRECTORY}/{os.path.normpath(word)}", digest


def _read(path: Path, digest: str | None) -> tuple[bytes, int]:
    """What a file holds, and when it was written."""
    try:
        written_ns = path.stat().st_mtime_ns
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror or error}", hint="it must travel to the nodes: make it readable"
        ) from None
    if digest is not None and hashlib.sha256(content).hexdigest() != digest:
        raise UsageError(f"{path}: it has changed since this run began", hint="run again")
    return content, written_ns

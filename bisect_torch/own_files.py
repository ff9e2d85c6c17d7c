"""Files that this tool has written itself: they are part of no project's state, and of no suite's.

What a process writes to while it looks at a project would else make another project of it each time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bisect_torch import own_digest

_MOST_REMEMBERED = 500
_MARK_BYTES = 4096
_TEXT_BYTES = 1 << 18
_MARKS = {
    ".html": b'<meta name="generator" content="bisect-torch ',
    ".svg": b"<dc:title>bisect-torch</dc:title>",  # of its creator
    ".png": b"tEXtSoftware\0bisect-torch",
    ".xml": b'<testsuites name="bisect-torch"',
    ".csv": b"case_file,case,instance,device,build,verdict,signature,detail,api_absent,",
    ".json": b'"name":"process_name","pid":1,"tid":0,"args":{"name":"bisect-torch"}',  # a profile
    ".md": b"*Found with `bisect-torch`, which runs the same code in an isolated, locked environment",
}
"""What stands in the first bytes of each kind of report; in Markdown, anywhere. Other JSON counts."""

_Place = tuple[int, int]


@dataclass(frozen=True)
class OwnFiles:
    """What the tool writes to, and has written to.

    Args:
        paths: Resolved; named by options, or results.
        places: Where stdout and stderr go: resolved path to device and inode. Another file of that name counts.
    """

    paths: frozenset[Path] = frozenset()
    places: Mapping[Path, _Place] = field(default_factory=dict)

    def __contains__(self, path: Path) -> bool:
        if path.name not in self._names:  # there may be thousands
            return False
        real = path.resolve()
        return real in self.paths or (real in self.places and _place(real) == self.places[real])

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(path.name for path in (*self.paths, *self.places))


NONE = OwnFiles()


def own_files(written: Iterable[Path], ledger: Path) -> OwnFiles:
    """Those of this process, and where the output of earlier ones lies below the working directory.

    Args:
        written: Files that options name.
        ledger: What :func:`remember` wrote.
    """
    return OwnFiles(frozenset(path.resolve() for path in written), {**_earlier(ledger), **_redirected()})


def _earlier(ledger: Path) -> dict[Path, _Place]:
    """Without what git tracks by now: it has become a part of the project."""
    here = Path.cwd().resolve()
    kept = {Path(name): (place[0], place[1]) for name, place in (own_digest.read_kept(ledger) or {}).items()}
    found = {path: place for path, place in kept.items() if path.is_relative_to(here) and _place(path) == place}
    for folder in {path.parent for path in found}:
        for name in _tracked(folder, [path.name for path in found if path.parent == folder]) or ():
            found.pop(folder / name, None)
    return found


def remember(own: OwnFiles, ledger: Path) -> None:
    """Keep where stdout and stderr went. Where that fails, they count for a later run, which runs the tests again."""
    if not own.places:
        return
    known = own_digest.read_kept(ledger) or {}
    places = {**known, **{str(path): list(place) for path, place in own.places.items()}}
    if places != known:
        own_digest.write_kept(ledger, dict(list(places.items())[-_MOST_REMEMBERED:]))


def _redirected() -> dict[Path, _Place]:
    """The regular files that stdout and stderr of this process go to."""
    found = {}
    for descriptor in (1, 2):
        try:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and (path := _path_of(descriptor)) is not None:
                place = status.st_dev, status.st_ino
                if _place(path) == place:
                    found[path] = place
        except OSError:  # it is closed
            continue
    return found


def _path_of(descriptor: int) -> Path | None:
    import fcntl

    if hasattr(fcntl, "F_GETPATH"):  # macOS
        named = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
        return Path(os.fsdecode(named.rstrip(b"\0"))).resolve()
    link = Path(f"/proc/self/fd/{descriptor}")
    return link.resolve() if link.exists() else None


def _place(path: Path) -> _Place | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def untracked_reports(folder: Path) -> frozenset[Path]:
    """Reports of this tool directly in a folder that git knows, but not them.

    Further down they may be data of tests; so they may where no git says what belongs to the project.
    """
    found = [path for path in folder.iterdir() if path.suffix in _MARKS and path.is_file() and _is_report(path)]
    tracked = _tracked(folder, [path.name for path in found]) if found else set()
    return frozenset() if tracked is None else frozenset(path for path in found if path.name not in tracked)


def _is_report(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            start = file.read(_TEXT_BYTES if path.suffix == ".md" else _MARK_BYTES)
    except OSError:
        return False
    mark = _MARKS[path.suffix]
    return start.startswith(mark) if path.suffix == ".csv" else mark in start


def _tracked(folder: Path, names: Collection[str]) -> set[str] | None:
    """Those that git tracks; None where the folder is in no repository, or there is no git."""
    from bisect_torch.child_processes import run_process

    try:
        answer = run_process(["git", "--literal-pathspecs", "-C", folder, "ls-files", "-z", "--", *names], timeout_s=60)
    except OSError:
        return None
    return set(answer.stdout.split("\0")) if answer.returncode == 0 else None

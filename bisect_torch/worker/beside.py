"""Which files a cell reads beside its case file: an edited ``inputs.pt`` makes another cell of it.

The cell itself only writes down what it opens, when it opens it, since it may crash. Its supervisor looks at the files
once it is gone. What Python code opens is seen, also in a process that the cell forks; what native code opens is not.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import os
import re
import stat
import sys
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, Optional, Tuple, TypeVar

try:  # without a frame of its own, which torch.compile would count
    from posix import _path_normpath as _normpath  # type: ignore[attr-defined,unused-ignore]
except ImportError:
    from os.path import normpath as _normpath

MOST_FILES = 1000
"""Beyond these a cell is said to have read too many to look at."""

LARGE_BYTES = 256 * 2**20
"""Of a larger file size and time are looked at, not its content: hashing takes a second for a GiB or two."""

ABSENT = "absent"
CHANGED = "changed"
MANY = "many"
UNREADABLE = "unreadable"
OWN = "own@"

_NOTES = ".opened"
_LINE = re.compile(r"(-?\d{1,20}) (-?\d{1,20}) (\d{1,20}) (/.*)", re.DOTALL)
_PASSED_OVER = "<frozen importlib: bisect_torch>"
"""A file name of code that ``torch.compile`` does not trace, from 2.4.1 to 2.14.0."""

_Function = TypeVar("_Function", bound=Callable[..., Any])

Looks = Tuple[int, int, int]
"""Size in bytes, time of the last change in nanoseconds, inode. A size of -1: there is no such file."""


def _untraced(function: _Function) -> _Function:
    """Code that runs within the code under test: compiled calls would count it among their frames."""
    function.__code__ = function.__code__.replace(co_filename=_PASSED_OVER)
    return function


@_untraced
def looks_of(path: str) -> Optional[Looks]:
    """How a file looks now; None for what is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return -1, 0, 0
    return (found.st_size, found.st_mtime_ns, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def openings_of(request: Dict[str, Any], base: str) -> Optional[Openings]:
    """What to watch in the cell of a request; None where nothing is.

    Of a suite of tests all files are part of what a result is kept under, of a command those that its words name.

    Args:
        base: The folder in which cells have their temporary folders.
    """
    if request["kind"] not in ("case", "script"):
        return None
    # The working directory of a case is its own temporary folder.
    cwd = [request["cwd"]] if request["kind"] == "script" else []
    return Openings(request["file"], [os.path.dirname(request["file"]), *cwd], base, request["since_ns"])


class Openings:
    """Writes down which files a cell opens for reading.

    Python modules that are loaded are among them. Left out are the case file itself, what is hidden, and what belongs
    to the environment or to cells. A file that the cell has made itself before it reads it is no input. Elsewhere only
    what has changed lately counts: a cell of another build may have left it.

    To be made before a fork: there each page that is touched costs more than the rest.

    Args:
        file: The case file.
        folders: All that lies below these counts.
        base: The folder in which cells have their temporary folders.
        since_ns: From which time on, in nanoseconds since the epoch, a change elsewhere counts; 0 for never.
    """

    def __init__(self, file: str, folders: Iterable[str], base: str, since_ns: int = 0) -> None:
        self._since_ns = since_ns
        self._folders = tuple({spelt for folder in folders for spelt in _spellings(folder) if spelt != os.sep})
        self._others = (*_OF_THE_ENVIRONMENT, *_spellings(base))
        self._notes = ""
        self._encoding = sys.getfilesystemencoding()
        self._known: Dict[str, Optional[Looks]] = dict.fromkeys(
            os.path.join(folder, os.path.basename(file)) for folder in _spellings(os.path.dirname(file))
        )
        """What need not be looked at again; and how a file looked before the cell appended to it."""
        self._number = 0

    def begin(self, own_folder: str) -> None:
        """From now on, for the rest of this process.

        Args:
            own_folder: The cell's own temporary folder, where it is written down.
        """
        self._notes = os.path.join(own_folder, _NOTES)
        sys.addaudithook(self.heard)

    @_untraced
    def heard(self, event: str, arguments: Tuple[Any, ...]) -> None:
        """Python's audit hook. What it raised would be raised by the ``open`` of the code under test."""
        if event != "open":
            return
        try:
            self._opened(arguments[0], arguments[2])
        except RecursionError:
            return
        except Exception as problem:
            if not _is_ours(problem.__traceback__):
                raise  # a handler of a signal that came just now

    @_untraced
    def _opened(self, path: Any, flags: int) -> None:
        if isinstance(path, int) or self._number > MOST_FILES:
            return
        path = self._whole(path)
        if path.startswith(self._others) or "/site-packages/" in path or "/__pycache__/" in path:
            return
        inside = path.startswith(self._folders) and not self._is_hidden(path)
        if not inside and (not self._since_ns or path.startswith(_OF_THE_SYSTEM)):
            return
        appended_to = self._known.get(path)
        if path in self._known and appended_to is None:
            return
        looks = looks_of(path)
        if looks is None:
            return
        if not inside and looks[1] < self._since_ns and not flags & (os.O_TRUNC | os.O_CREAT):
            return
        if flags & os.O_TRUNC or (looks[0] < 0 and flags & os.O_CREAT):
            self._known[path] = None
        elif flags & os.O_ACCMODE == os.O_WRONLY:
            self._known.setdefault(path, looks)
        else:
            self._known[path] = None
            self._note(path, appended_to or looks)

    @_untraced
    def _whole(self, path: Any) -> str:
        """A path from the root on."""
        if not isinstance(path, (str, bytes)):
            path = os.fspath(path)
        if isinstance(path, bytes):
            path = path.decode(self._encoding, "surrogateescape")
        if path[:1] != os.sep:
            path = "%s/%s" % (os.getcwd(), path)
        return str(_normpath(path)) if "/." in path or "//" in path else path

    @_untraced
    def _is_hidden(self, path: str) -> bool:
        if "/." not in path:
            return False
        for top in self._folders:  # noqa: SIM110 - a generator has a frame of its own
            if path.startswith(top) and "/." not in path[len(top) - 1 :]:
                return False
        return True

    @_untraced
    def _note(self, path: str, looks: Looks) -> None:
        self._number += not path.endswith(".py")
        line = "%d %d %d %s\0" % (*looks, path)
        notes = os.open(self._notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(notes, line.encode("utf-8", "surrogateescape"))
        finally:
            os.close(notes)


@functools.lru_cache(maxsize=64)
def _spellings(folder: str) -> Tuple[str, str]:
    """A folder as it is written and as it really is, ready to be the beginning of a path."""
    return os.path.join(os.path.abspath(folder), ""), os.path.join(os.path.realpath(folder), "")


_OF_THE_ENVIRONMENT = tuple(
    spelt
    for folder in (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for spelt in _spellings(folder)
)
"""Found out once, before the first fork."""


_OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/")


def _is_ours(trace: Optional[TracebackType]) -> bool:
    """Whether an exception was raised by the code of this file, or by a function in C that it calls."""
    while trace is not None and trace.tb_frame.f_code.co_filename == _PASSED_OVER:
        trace = trace.tb_next
    return trace is None


class Contents:
    """What files hold, each read once as long as it looks the same."""

    def __init__(self) -> None:
        self._known: Dict[Tuple[str, Looks], str] = {}

    def of(self, path: str) -> str:
        """SHA-256 in hexadecimal; size and time of a large file; that it is absent or cannot be read."""
        looks = looks_of(path)
        if looks is None:
            return UNREADABLE
        if looks[0] < 0:
            return ABSENT
        if looks[0] > LARGE_BYTES:
            return "%d bytes %s" % (looks[0], _time(looks[1]))
        if (path, looks) not in self._known:
            try:
                self._known[path, looks] = _sha256(path)
            except OSError:
                return UNREADABLE
        return self._known[path, looks]


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _time(nanoseconds: int) -> str:
    """ISO 8601, UTC, to the microsecond; more does not come back the same from every file system."""
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.replace(microsecond=rest // 1000, tzinfo=None).isoformat() + "Z"


def read_files(own_folder: str, file: str, began_ns: int, contents: Contents) -> Dict[str, str]:
    """What a cell that is gone has read beside its case file, as the column ``local_modules`` keeps it.

    Args:
        own_folder: The cell's own temporary folder.
        file: The case file.
        began_ns: When it started, by the clock that files are dated with.
        contents: What is known of files.

    Returns:
        Path relative to the case file's folder (absolute, where they have nothing in common), to what it held (as
        :meth:`Contents.of` says; ``changed`` where that was not the same when the cell had ended), a space, and when it
        had been written: the time, behind ``own@`` where that was while the cell ran, by whomever. ``absent`` alone is
        a file that was looked for and not there. A single ``many`` stands for more than :data:`MOST_FILES`.
    """
    try:
        with open(os.path.join(own_folder, _NOTES), "rb") as notes:
            lines = notes.read().decode("utf-8", "surrogateescape").split("\0")[:-1]
    except OSError:
        return {}
    first: Dict[str, Looks] = {}
    for line in lines:
        written = _LINE.fullmatch(line)
        if written is None:  # the code under test has written there too: which files it read is not known
            return {"(not known)": MANY}
        size, time_ns, inode, path = written.groups()
        first.setdefault(path, (int(size), int(time_ns), int(inode)))
    if sum(not path.endswith(".py") for path in first) > MOST_FILES:
        return {"(more than %d files)" % MOST_FILES: MANY}
    folder = os.path.dirname(os.path.abspath(file))
    found = {}
    for path, looks in first.items():
        value = _value(path, looks, looks[1] >= began_ns, contents)
        if value is not None:
            found[_relative(path, folder)] = value
    return found


def _relative(path: str, folder: str) -> str:
    real = os.path.join(os.path.realpath(folder), "")
    if path.startswith(real):
        return path[len(real) :]
    # From the root on, the names of a user's folders would stand in it where nobody expects them.
    return path if os.path.commonpath([path, real]) == os.sep else os.path.relpath(path, folder)


def _value(path: str, looks: Looks, own: bool, contents: Contents) -> Optional[str]:
    """What is kept of one file; None for a file of the cell's own that is gone with it."""
    if looks[0] < 0:
        return ABSENT
    now = looks_of(path)
    if own and now is not None and now[0] < 0:
        return None
    if now != looks:
        what = CHANGED
    elif looks[0] > LARGE_BYTES:
        what = "%d bytes" % looks[0]
    else:
        what = contents.of(path)
    return "%s %s%s" % (what, OWN if own else "", _time(looks[1]))

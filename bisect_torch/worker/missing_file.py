"""A data file of the user's own that is not there: that says nothing about torch.

What torch itself looks for and does not find, in its package, its caches or on ``PATH``, is never taken for one, and no
file that something in the user's code may have been told to write: that it is not there may be what torch did wrong.
"""

from __future__ import annotations

import ast
import errno
import os
import re
import sys
import types
from typing import Dict, Iterator, List, Optional, Set

from bisect_torch.worker.origin import Frame

_OWN = ("case", "local")
_READERS = re.compile(
    r"torch\.serialization|(?:numpy|pandas|PIL|scipy\.io|pathlib)(?:\.\w+)*"
    r"|gzip|bz2|lzma|zipfile|tarfile|codecs|io|tokenize|json|csv|configparser|wave"
)
"""Modules that open a file for whom they are called by. A program that is started is no file to be read."""

_READS = re.compile(
    r"open|load\w*|read\w*|imread|fromfile|genfromtxt|exists|is_file|isfile|stat|getsize|print|debug|info|warning|error"
)
_BUILDS = re.compile(r"Path|PurePath|PosixPath|join|joinpath|with_name|str|fspath|abspath|absolute|resolve|format")
_WRITES = re.compile(r"_?(?:save|export|dump|write|tofile|download)\w*")
_STARTS = frozenset({"subprocess", "multiprocessing", "system", "popen", "spawn", "exec", "eval"})
"""Names by which code is run that does not stand there: what it writes is not known."""

_MOST_FILES = 100
_LARGEST_BYTES = 2**20


def missing_file(raised: BaseException, frames: List[Frame], file: str) -> Optional[str]:
    """What is to be said where the user's own data file is not there; None for all else.

    It is one where the user's code, or what opens files for it, was to read it, by a path that is relative or below the
    folder of the case file, and the name stands in the user's code only where something is read.

    Args:
        raised: What left the case, wrapped in nothing.
        frames: Of its traceback, outermost first.
        file: The case file or script.
    """
    if type(raised) is not FileNotFoundError or raised.errno != errno.ENOENT or raised.filename2 is not None:
        return None
    name = raised.filename
    if not isinstance(name, str) or not _was_to_be_read(frames) or os.path.exists(name):
        return None
    folder = os.path.dirname(os.path.abspath(file))
    if os.path.isabs(name) and not _lies_in(name, folder):
        return None
    if not _only_read(os.path.basename(name), _sources(file, folder)):
        return None
    shown = os.path.relpath(name, folder) if os.path.isabs(name) else name
    said = "it wants the file %s, which is not " % shown
    if os.path.isabs(name) or not os.path.exists(os.path.join(folder, name)):
        return said + "there"
    temporary = os.environ.get("TMPDIR", "")
    if temporary and _lies_in(os.getcwd(), temporary):
        return said + "in the folder of its own in which a case runs, but beside the case file"
    return said + "in the working directory, but beside the script"


def _was_to_be_read(frames: List[Frame]) -> bool:
    """Whether the user's code has called for it, and nothing stands below that but what opens files."""
    own = [place for place, frame in enumerate(frames) if frame.origin in _OWN]
    return bool(own) and all(_READERS.fullmatch(frame.module) for frame in frames[own[-1] + 1 :])


def _lies_in(path: str, folder: str) -> bool:
    spelt = (os.path.join(os.path.abspath(folder), ""), os.path.join(os.path.realpath(folder), ""))
    installed = os.path.join(os.path.realpath(sys.prefix), "")
    return os.path.join(path, "").startswith(spelt) and not os.path.realpath(path).startswith(installed)


def _sources(file: str, folder: str) -> List[ast.Module]:
    """The case file, and what it has imported from beside it."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    beside = sorted({path for path in modules if isinstance(path, str) and _lies_in(path, folder)})
    found = []
    for path in [file, *(each for each in beside if each != file)][:_MOST_FILES]:
        try:
            if os.path.getsize(path) <= _LARGEST_BYTES:
                with open(path, "rb") as stream:
                    found.append(ast.parse(stream.read()))
        except (OSError, SyntaxError, ValueError, RecursionError):  # an extension in C; a source that has gone
            continue
    return found


def _only_read(name: str, sources: List[ast.Module]) -> bool:
    """Whether a file's name stands in the code, and only where it is read or shown: nothing was told to write it."""
    uses = _Uses(sources)
    named = [node for node in uses.above if name in _text(node)]
    if not name or not named or _is_a_default_of_torch(name) or any(map(_may_write_anything, uses.above)):
        return False
    try:
        return all(map(uses.harmless, named))
    except RecursionError:  # what is nested so deeply is not followed
        return False


def _text(node: ast.AST) -> str:
    """What a literal says; empty for all else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_a_default_of_torch(name: str) -> bool:
    """Whether a function of torch writes a file of this name where it is given none."""
    for key, module in list(sys.modules.items()):
        if key.partition(".")[0] == "torch" and isinstance(module, types.ModuleType):
            for each in list(vars(module).values()):
                if isinstance(each, types.FunctionType):
                    defaults = [*(each.__defaults__ or ()), *(each.__kwdefaults__ or {}).values()]
                    if any(isinstance(default, str) and default == name for default in defaults):
                        return True
    return False


def _may_write_anything(node: ast.AST) -> bool:
    """Whether code writes a file by a name that is made elsewhere, or runs what does not stand there."""
    if isinstance(node, ast.alias):
        return node.name.partition(".")[0] in _STARTS
    if _called(node) in _STARTS:
        return True
    if not isinstance(node, ast.Call) or not _WRITES.fullmatch(_called(node.func)):
        return False
    inside = [each for argument in node.args for each in ast.walk(argument)]
    return not any(map(_text, inside)) or any(isinstance(each, ast.FormattedValue) for each in inside)


def _called(node: ast.AST) -> str:
    """The last word of a name; empty for all else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class _Uses:
    """Where values of the code go, as far as it shows."""

    def __init__(self, sources: List[ast.Module]) -> None:
        self.above: Dict[ast.AST, ast.AST] = {
            child: node for source in sources for node in ast.walk(source) for child in ast.iter_child_nodes(node)
        }
        own = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        self._own = {node.name for node in self.above if isinstance(node, own)}
        self._followed: Set[str] = set()

    def harmless(self, node: ast.AST) -> bool:
        """Whether a path goes nowhere but into what reads or shows it."""
        above = self.above[node]
        if isinstance(above, ast.Call):
            return self._call(above)
        if isinstance(above, ast.Attribute):  # PATH.open, PATH.parent
            return self.harmless(above)
        if isinstance(above, (ast.BinOp, ast.JoinedStr, ast.FormattedValue, ast.keyword, ast.Tuple, ast.List)):
            return self.harmless(above)
        if isinstance(above, (ast.Assign, ast.AnnAssign, ast.For)):
            targets = above.targets if isinstance(above, ast.Assign) else [above.target]
            return all(isinstance(each, ast.Name) and self._goes(each.id) for each in targets)
        return isinstance(above, (ast.Expr, ast.Compare, ast.Assert, ast.If, ast.withitem))

    def _call(self, call: ast.Call) -> bool:
        name = _called(call.func)
        if name in self._own:
            return False
        if _BUILDS.fullmatch(name):
            return self.harmless(call)
        return bool(_READS.fullmatch(name)) and (name != "open" or _opens_to_read(call))

    def _goes(self, name: str) -> bool:
        """The same for all that a variable's value is used for, in any of the files."""
        if name in self._followed:
            return True
        self._followed.add(name)
        return all(map(self.harmless, self._loads(name)))

    def _loads(self, name: str) -> Iterator[ast.AST]:
        for node in self.above:
            if _called(node) == name and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                yield node


def _opens_to_read(call: ast.Call) -> bool:
    """Of ``open(path, mode)`` and ``path.open(mode)``: all that stands there as a mode reads.

    A mode that is no literal is the second of two words, or has its name.
    """
    modes = [each.value for each in call.keywords if each.arg == "mode"]
    if not all(map(_text, [*call.args[1:2], *modes])):
        return False
    given = [_text(each) for each in (*call.args, *modes)]
    return not any(set(mode) & set("wax+") for mode in given if re.fullmatch(r"[rwaxbt+]{1,3}", mode))

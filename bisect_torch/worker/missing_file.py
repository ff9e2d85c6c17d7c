"""A data file of the user's own that is not there: that says nothing about torch.

Never one that torch looks for by itself, in its package, its caches or on ``PATH``. And never one that the user's code
may have had written: that it is not there may be what torch did wrong. So no code is looked at that writes at all.
"""

from __future__ import annotations

import ast
import errno
import os
import re
import sys
from typing import Iterator, List, Optional

from bisect_torch.worker.origin import Frame

_OWN = ("case", "local")
_READERS = re.compile(
    r"torch\.serialization|(?:numpy|pandas|PIL|scipy\.io|pathlib)(?:\.\w+)*"
    r"|gzip|bz2|lzma|zipfile|tarfile|codecs|io|tokenize|json|csv|configparser|wave"
)
"""Modules that open a file for whom they are called by. A program that is started is no file to be read."""

_MAY_WRITE = re.compile(
    r"save|write|dump|export|store|record|snapshot|trace|log_?dir|to_?file|to_(?:csv|json|pickle|parquet)|download"
    r"|copy|move|rename|replace|link|touch|exec|eval|spawn|fork|system|popen|subprocess|multiprocessing|runpy",
    re.IGNORECASE,
)
"""Names of what may write a file or run what does. Where one of them is meant otherwise, a file that is not there
remains an error of the build, as every exception is."""

_WRITING_MODE = re.compile(r"[rbt]*[wax+][rwaxbt+]*", re.IGNORECASE)
"""Of ``open``. The same text as a key, as in ``batch["x"]``, is none."""

_BY_KEY = frozenset({"get", "pop", "setdefault"})

_MOST_FILES = 100
_LARGEST_BYTES = 2**20


def missing_file(raised: BaseException, frames: List[Frame], file: str) -> Optional[str]:
    """What is to be said where the user's own data file is not there; None for all else.

    It is one where the user's code, or what opens files for it, was to read it, by a path that is relative, below the
    folder of the case file or written in that code, its name stands there in one place, and nothing there writes.

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
    last, texts = os.path.basename(name), _of_what_only_reads(list(_sources(file, folder)))
    if not last or sum(last in text for text in texts) != 1:
        return None
    below = _lies_in(name, folder)
    if os.path.isabs(name) and not below and not any(_leads_to(name, text) for text in texts):
        return None
    said = "it wants the file %s, which is not " % (os.path.relpath(name, folder) if below else name)
    if os.path.isabs(name):
        return said + "there"
    beside = os.path.exists(os.path.join(folder, name))
    temporary = os.environ.get("TMPDIR", "")
    if not (temporary and _lies_in(os.getcwd(), temporary)):
        return said + "in the working directory" + (", but beside the script" if beside else "")
    if beside:
        return said + "in the folder of its own in which a case runs, but beside the case file"
    return said + "beside the case file, nor in the folder of its own in which a case runs"


def _was_to_be_read(frames: List[Frame]) -> bool:
    """Whether the user's code has called for it, and nothing stands below that but what opens files."""
    own = [place for place, frame in enumerate(frames) if frame.origin in _OWN]
    return bool(own) and all(_READERS.fullmatch(frame.module) for frame in frames[own[-1] + 1 :])


def _lies_in(path: str, folder: str) -> bool:
    spelt = (os.path.join(os.path.abspath(folder), ""), os.path.join(os.path.realpath(folder), ""))
    installed = os.path.join(os.path.realpath(sys.prefix), "")
    return os.path.join(path, "").startswith(spelt) and not os.path.realpath(path).startswith(installed)


def _sources(file: str, folder: str) -> Iterator[str]:
    """Text of the case file, and of what it has imported from beside it."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    beside = sorted({path for path in modules if isinstance(path, str) and _lies_in(path, folder)})
    for path in [file, *(each for each in beside if each != file)][:_MOST_FILES]:
        try:
            if os.path.getsize(path) <= _LARGEST_BYTES:
                with open(path, encoding="utf-8") as stream:
                    yield stream.read()
        except (OSError, ValueError):  # an extension in C; a source that has gone
            continue


def _leads_to(name: str, text: str) -> bool:
    """Whether a literal is this absolute path, or a folder above it: ``/data`` of ``Path("/data") / "x.pt"``."""
    path = os.path.expanduser(text)
    return os.path.isabs(path) and os.path.normpath(path) != os.sep and _lies_in(name, path)


def _of_what_only_reads(sources: List[str]) -> List[str]:
    """The literals of the code; none where something in it may write, or cannot be read."""
    if any(map(_MAY_WRITE.search, sources)):
        return []
    try:
        texts = [text for source in sources for text in _texts(source)]
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [] if any(map(_WRITING_MODE.fullmatch, texts)) else texts


def _texts(source: str) -> Iterator[str]:
    """The literals of a source, without what stands there as a comment or as a key."""
    nodes = list(ast.walk(ast.parse(source)))
    others = {id(each) for node in nodes for each in _comments_and_keys(node)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in others:
            yield node.value


def _comments_and_keys(node: ast.AST) -> Iterator[Optional[ast.AST]]:
    if isinstance(node, ast.Expr):
        yield node.value
    elif isinstance(node, ast.Subscript):
        yield node.slice
        yield getattr(node.slice, "value", None)  # Python 3.8 wraps it
    elif isinstance(node, ast.Dict):
        yield from node.keys
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _BY_KEY:
        yield from node.args[:1]

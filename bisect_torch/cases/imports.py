"""Which neighbours a file imports, and whether it uses ``torch.compile``. By reading."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bisect_torch.cases.reading import dotted, parse
from bisect_torch.errors import UsageError

_COMPILE = (
    "torch.compile",
    "torch.compiler",
    "torch.cond",
    "torch.while_loop",
    "torch.export",
    "torch._dynamo",
    "torch._export",
    "torch._functorch",
    "torch._higher_order_ops",
    "torch._inductor",
    "torch.nn.attention.flex_attention",
)
# They are imported before the file's folder joins the search path, so a neighbour of that name is never used.
_NEVER_LOCAL = frozenset(sys.stdlib_module_names) | {"torch", "bisect_torch"}


def read_module(path: Path) -> ast.Module:
    """The syntax tree of a module.

    Raises:
        UsageError: It is not valid Python or cannot be read.
    """
    return parse(path, read_bytes(path))


def local_modules(
    path: Path,
    module: ast.Module,
    folder: Path | None = None,
    read: Callable[[Path], ast.Module] = read_module,
) -> dict[Path, ast.Module]:
    """Every neighbouring module that a file imports, directly or not, with its syntax tree.

    Imports anywhere in a file count, also those in functions.

    Args:
        folder: In which neighbours, modules and packages, are looked for; the file's own by default.
        read: Gives the tree of a neighbour.

    Raises:
        UsageError: A neighbour is not valid Python or cannot be read, if ``read`` says so.
    """
    folder = path.parent if folder is None else folder
    found: dict[Path, ast.Module] = {}
    waiting = list(_imported_files(folder, path, module))
    while waiting:
        file = waiting.pop()
        if file in found or file == path:
            continue
        found[file] = read(file)
        waiting.extend(_imported_files(folder, file, found[file]))
    return dict(sorted(found.items()))


def read_bytes(path: Path) -> bytes:
    """The file's content.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UsageError(
            f"{path}: cannot be read: {problem.strerror or problem}",
            hint="name another file, or give yourself the right to read it",
        ) from None


def sha256(path: Path) -> str:
    """Hash of a file's content, in hexadecimal."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def hidden_neighbours(path: Path) -> tuple[Path, ...]:
    """Neighbours that a file seems to import but never gets: torch or the standard library has a module of that name.

    Raises:
        UsageError: The file cannot be read.
    """
    names = {name.split(".")[0] for name in _imported_names(path.parent, path, read_module(path))}
    beside = (path.parent / f"{name}.py" for name in sorted(names & _NEVER_LOCAL))
    return tuple(file for file in beside if file.is_file() and file != path)


def _imported_files(folder: Path, file: Path, module: ast.Module) -> Iterator[Path]:
    for name in _imported_names(folder, file, module):
        words = name.split(".")
        if words[0] in _NEVER_LOCAL:
            continue
        for length in range(1, len(words) + 1):
            base = folder.joinpath(*words[:length])
            if (base / "__init__.py").is_file():
                yield base / "__init__.py"
            elif base.with_name(base.name + ".py").is_file():
                yield base.with_name(base.name + ".py")


def _imported_names(folder: Path, file: Path, module: ast.Module) -> Iterator[str]:
    package = file.parent.relative_to(folder).parts
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = list(package[: len(package) - node.level + 1]) if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # "from package import name": the name may be a module of its own.
            yield from ([base] if base else [])
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names if alias.name != "*")


def uses_compile(module: ast.Module) -> bool:
    """Whether it names ``torch.compile`` or what stands on it, or calls a ``compile`` method that is not ``re``'s."""
    modules = {"torch": "torch"}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_compile(alias.name):
                    return True
                modules[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            if any(_is_compile(f"{node.module}.{alias.name}") for alias in node.names):
                return True
            for alias in node.names:
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return any(_names_compile(node, modules) for node in ast.walk(module) if isinstance(node, ast.Attribute))


def _names_compile(node: ast.Attribute, modules: dict[str, str]) -> bool:
    name = dotted(node)
    if name is None:
        return node.attr == "compile"  # nn.Sequential(…).compile()
    first, _, rest = name.partition(".")
    if first in modules:
        return _is_compile(f"{modules[first]}.{rest}")
    return node.attr == "compile"  # model.compile()


def _is_compile(name: str) -> bool:
    return any(name == known or name.startswith(known + ".") for known in _COMPILE)

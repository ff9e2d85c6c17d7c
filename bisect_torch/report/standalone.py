"""Of a case that needs nothing but torch, a plain script that does the same, where that is certain. Pure."""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bisect_torch.model import Scalar
from bisect_torch.report.excerpt import (
    imported_roots,
    is_case,
    looks_names_up,
    names_of_case,
    returned_values,
    share_lines,
)

_INSTALLED = frozenset({"torch", "numpy"})
"""What stands beside the standard library in every environment."""

_OF_THE_PROCESS = frozenset({"__name__", "__file__", "__spec__", "__package__", "__loader__"})
"""Names that have another value in a script."""

_OF_SYS = frozenset({"argv", "path", "flags", "orig_argv", "exit"})
_PROCESSES = frozenset({"multiprocessing", "concurrent", "pickle", "inspect", "importlib", "runpy", "unittest"})
"""Modules that look the function up by its module, or start others that do."""

_BOOLEAN = frozenset({"bool", "isinstance", "all", "any"})
_BOOLEAN_OF_TORCH = frozenset({"equal", "allclose", "is_tensor"})


@dataclass(frozen=True)
class Call:
    """How a case was called.

    Args:
        parameters: In the order of their declaration.
        seed: Of torch, random and numpy; None where nothing was seeded.
        returned_false: On one of the builds that are told of.
    """

    case: str
    parameters: Mapping[str, Scalar]
    device: str
    seed: int | None = None
    returned_false: bool = False

    @property
    def words(self) -> str:
        """The parameters as they would stand in the call: ``dtype="bfloat16", batch=65552``."""
        return _arguments(self.parameters)


def standalone(source: str, call: Call) -> str | None:
    """The script: the source without bisect_torch, then the seeds and the call; None where it might do something else.

    Args:
        source: A case file, or the part of it that the case uses (:func:`bisect_torch.report.excerpt.excerpt`).
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    function = _only_case(tree, call.case)
    if function is None or not _is_plain(tree, function):
        return None
    named = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    arguments: dict[str, Scalar] = {"device": call.device} if "device" in named else {}
    arguments |= call.parameters
    if not all(map(_can_be_written, arguments.values())):
        return None
    if call.returned_false and not _returns_nothing_but_booleans(tree, function):
        return None
    dropped = _lines_of_bisect_torch(tree, function)
    lines = re.split(r"\r\n|\n|\r", source)
    kept = "\n".join(line for number, line in enumerate(lines, start=1) if number not in dropped)
    if not _same_but_for_bisect_torch(tree, kept):
        return None
    text = re.sub(r"\n{4,}", "\n\n\n", kept).strip("\n")
    return "\n".join([text, "", "", *_seeds(tree, call.seed), *_run(function, call, arguments)]) + "\n"


def _only_case(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    names = names_of_case(tree)
    cases = [node for node in tree.body if is_case(node, names)]
    if len(cases) != 1 or not isinstance(cases[0], ast.FunctionDef) or cases[0].name != name:
        return None
    return cases[0]


def _is_plain(tree: ast.Module, function: ast.FunctionDef) -> bool:
    """Whether it needs nothing but torch, numpy and the standard library, and cannot tell that it is no case file."""
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    ours = [node for node in imports if _of_bisect_torch(node)]
    others = {root for node in imports if node not in ours for root in imported_roots(node)}
    bound = {alias.asname or alias.name.partition(".")[0] for node in ours for alias in node.names}
    decorator = {id(each) for each in ast.walk(function.decorator_list[0])}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in decorator}
    return (
        all(node in tree.body for node in ours)
        and not used & (bound | _OF_THE_PROCESS)
        and all(set(imported_roots(node)) == {"bisect_torch"} for node in ours)
        and others <= _INSTALLED | (sys.stdlib_module_names - _PROCESSES)
        and not any("multiprocessing" in name for node in imports for name in _modules(node))
        and _is_bound(tree, "torch")
        and not any(_asks_sys(node) for node in ast.walk(tree))
        and not looks_names_up(tree)
        and not share_lines(tree.body)
        and function.args.vararg is None
    )


def _of_bisect_torch(node: ast.Import | ast.ImportFrom) -> bool:
    return "bisect_torch" in set(imported_roots(node))


def _modules(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    yield from (prefix + alias.name for alias in node.names)


def _is_bound(tree: ast.Module, module: str) -> bool:
    """Whether the file's own ``import module`` makes that name, always."""
    imports = (node for node in tree.body if isinstance(node, ast.Import))
    names = (alias for node in imports for alias in node.names if alias.asname is None)
    return any(alias.name.partition(".")[0] == module for alias in names)


def _asks_sys(node: ast.AST) -> bool:
    """Whether it looks at what a script has otherwise, or leaves the process, which is no end of a script."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "sys"
    return (
        isinstance(node, ast.Attribute)
        and node.attr in _OF_SYS
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
    )


def _can_be_written(value: Scalar) -> bool:
    # A name in angle brackets may stand for something private that was replaced.
    return not (isinstance(value, float) and not math.isfinite(value)) and not (isinstance(value, str) and "<" in value)


def _returns_nothing_but_booleans(tree: ast.Module, function: ast.FunctionDef) -> bool:
    """Whether what it returns is Python's own True, False or None, for which ``is not False`` means what it says."""
    rebound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    rebound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    rebound |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return not rebound & (_BOOLEAN | {"torch"}) and all(map(_is_boolean, returned_values(function)))


def _is_boolean(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return value.value is None or isinstance(value.value, bool)
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Not)
    if isinstance(value, ast.BoolOp):
        return all(map(_is_boolean, value.values))
    if isinstance(value, ast.Compare):
        return all(isinstance(each, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for each in value.ops)
    if not isinstance(value, ast.Call):
        return False
    called = value.func
    if isinstance(called, ast.Attribute):
        return called.attr in _BOOLEAN_OF_TORCH and isinstance(called.value, ast.Name) and called.value.id == "torch"
    return isinstance(called, ast.Name) and called.id in _BOOLEAN


def _lines_of_bisect_torch(tree: ast.Module, function: ast.FunctionDef) -> set[int]:
    nodes: list[ast.stmt | ast.expr] = [
        node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)) and _of_bisect_torch(node)
    ]
    nodes.append(function.decorator_list[0])
    return {number for node in nodes for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _same_but_for_bisect_torch(tree: ast.Module, text: str) -> bool:
    try:
        found = ast.parse(text)
    except SyntaxError:
        return False
    names = names_of_case(tree)
    expected = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and _of_bisect_torch(node):
            continue
        if isinstance(node, ast.FunctionDef) and is_case(node, names):
            node = ast.FunctionDef(**{**dict(ast.iter_fields(node)), "decorator_list": []})
        expected.append(ast.dump(node))
    return expected == [ast.dump(node) for node in found.body]


def _seeds(tree: ast.Module, seed: int | None) -> Iterator[str]:
    """As a worker seeds before each case: what is not imported here cannot be used here."""
    if seed is None:
        return
    imported = {
        root
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for root in imported_roots(node)
    }
    yield from (f"import {name}" for name in ("random", "numpy") if name in imported and not _is_bound(tree, name))
    if "random" in imported:
        yield f"random.seed({seed})"
    yield f"torch.manual_seed({seed})"
    if "numpy" in imported:
        yield f"numpy.random.seed({seed % 2**32})"


def _run(function: ast.FunctionDef, call: Call, arguments: Mapping[str, Scalar]) -> Iterator[str]:
    words = f"{call.case}({_arguments(arguments)})"
    if call.returned_false:
        yield f'assert {words} is not False, "it returned False"'
    elif returned_values(function):
        yield f"print({words})"
    else:
        yield words


def _arguments(arguments: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{key}={_literal(value)}" for key, value in arguments.items())


def _literal(value: Scalar) -> str:
    quoted = isinstance(value, str) and "'" not in value and '"' not in value and "\\" not in repr(value)
    return f'"{value}"' if quoted else repr(value)

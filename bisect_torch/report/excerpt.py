"""Of a file with many cases, the part that one of them needs, where that can be told truly."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bisect_torch.analysis.python_text import tree_of

_UNKNOWABLE = frozenset({"globals", "locals", "vars", "eval", "exec", "compile", "__import__", "modules", "importlib"})
"""With one of these a name may be used without being written."""

_PURE = frozenset({"bool", "dict", "float", "frozenset", "int", "list", "range", "set", "str", "tuple"})
"""A value made by these alone may go when nothing uses it."""


@dataclass(frozen=True)
class Excerpt:
    """What of a source is shown.

    Args:
        whole: Nothing was left out.
    """

    text: str
    whole: bool


@functools.lru_cache(maxsize=64)
def excerpt(source: str, case: str) -> Excerpt:
    """The case's own function with all imports and every helper, class and value that it needs, in the file's order.

    Whatever runs for its effect stays too: top-level calls, loops, conditions, assignments to attributes, values that a
    call makes, functions with other decorators. Left out are other cases, and definitions that nothing kept uses. The
    whole file is returned where it has one case only, where the case is not found, where names may be looked up by
    text (``globals()``, ``eval``, …), and where two statements share a line.
    """
    whole = Excerpt(source, whole=True)
    tree = tree_of(source)
    if tree is None:
        return whole
    decorators = names_of_case(tree)
    cases = [node for node in tree.body if is_case(node, decorators)]
    if len(cases) < 2 or case not in {_name(node) for node in cases} or looks_names_up(tree) or share_lines(tree.body):
        return whole
    kept = _needed(tree.body, {id(node) for node in cases if _name(node) != case})
    text = _cut(source, tree.body, kept)
    same = [ast.dump(node) for node in tree.body if id(node) in kept] == [
        ast.dump(node) for node in ast.parse(text).body
    ]
    return Excerpt(text, whole=False) if same else whole


def _name(node: ast.stmt) -> str:
    return node.name if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else ""


def names_of_case(tree: ast.Module) -> frozenset[str]:
    """How this file calls the decorator."""
    return frozenset(
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "bisect_torch"
        for alias in node.names
        if alias.name == "case"
    )


def is_case(node: ast.stmt, names: frozenset[str]) -> bool:
    """Whether a statement declares a case, with nothing but that decorator.

    Args:
        names: By what the file calls ``bisect_torch.case``.
    """
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or len(node.decorator_list) != 1:
        return False
    found = node.decorator_list[0]
    called = found.func if isinstance(found, ast.Call) else found
    if isinstance(called, ast.Attribute):
        return called.attr == "case" and isinstance(called.value, ast.Name) and called.value.id == "bisect_torch"
    return isinstance(called, ast.Name) and called.id in names


def returned_values(function: ast.FunctionDef) -> list[ast.expr]:
    """The values that it returns itself, not those of functions inside it."""
    found: list[ast.expr] = []
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            found.append(node.value)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def imported_roots(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """First parts of the names of what is imported; ``.`` for a relative import."""
    if isinstance(node, ast.ImportFrom):
        yield "." if node.level else (node.module or "").partition(".")[0]
    else:
        yield from (alias.name.partition(".")[0] for alias in node.names)


def looks_names_up(tree: ast.Module) -> bool:
    """Whether something in it can reach a name that its text does not show."""
    return any(
        (isinstance(node, ast.Name) and node.id in _UNKNOWABLE)
        or (isinstance(node, ast.Attribute) and node.attr in _UNKNOWABLE - {"compile"})
        for node in ast.walk(tree)
    )


def share_lines(body: Sequence[ast.stmt]) -> bool:
    """Whether two statements stand on one line: then no line belongs to one alone."""
    return any(_first_line(after) <= (before.end_lineno or before.lineno) for before, after in pairwise(body))


def _first_line(node: ast.stmt) -> int:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return node.lineno


def _needed(body: Sequence[ast.stmt], other_cases: set[int]) -> set[int]:
    """Identities of the statements to keep."""
    kept = {
        id(node)
        for place, node in enumerate(body)
        if id(node) not in other_cases and not _is_docstring(place, node) and _runs_for_its_effect(node)
    }
    while True:
        used = {name for node in body if id(node) in kept for name in _used(node)}
        more = {id(node) for node in body if id(node) not in kept and used & set(_bound(node))}
        if not more:
            return kept
        kept |= more


def _is_docstring(place: int, node: ast.stmt) -> bool:
    return place == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _runs_for_its_effect(node: ast.stmt) -> bool:
    """All but plain definitions: a function or class without decorators, a name for a value that no call makes."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return bool(node.decorator_list)
    if isinstance(node, ast.ClassDef):
        return bool(node.decorator_list or node.keywords) or not all(map(_is_torchs, node.bases))
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        calls = node.value is not None and any(map(_may_do_something, ast.walk(node.value)))
        return calls or not all(isinstance(target, ast.Name) for target in targets)
    return True


def _may_do_something(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return not (isinstance(node.func, ast.Name) and node.func.id in _PURE)
    return isinstance(node, (ast.Await, ast.NamedExpr))


def _is_torchs(base: ast.expr) -> bool:
    """``torch.nn.Module`` and the like keep no list of what derives from them."""
    while isinstance(base, ast.Attribute):
        base = base.value
    return isinstance(base, ast.Name) and base.id == "torch"


def _used(node: ast.stmt) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Global):
            yield from each.names


def _bound(node: ast.stmt) -> Iterator[str]:
    if _name(node):
        yield _name(node)
        return
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, (ast.Store, ast.Del)):
            yield each.id


def _cut(source: str, body: Sequence[ast.stmt], kept: set[int]) -> str:
    """The kept statements with the comments right above them, and at most two blank lines between parts."""
    lines = re.split(r"\r\n|\n|\r", source)
    pieces: list[str] = []
    last = 0
    for node in body:
        first, end = _first_line(node), node.end_lineno or node.lineno
        if id(node) in kept:
            start = first
            while start - 1 > last and lines[start - 2].lstrip().startswith("#"):
                start -= 1
            above = lines[last : start - 1]
            blank = min(2, sum(not line.strip() for line in above)) if pieces else 0
            pieces += [""] * blank + lines[start - 1 : end]
        last = end
    return "\n".join(pieces) + "\n"

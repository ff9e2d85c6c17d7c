"""Conditions on torch's version, or on what torch has, that decide whether a line of a text runs. Pure.

A line that has failed has run, so its conditions stood one way then; asked is which of them may stand the other way on
a newer release. ``hasattr(torch, "x")`` and ``version >= "2.6"`` only become true as releases go by, their opposites
only false; of other conditions on a version nothing is known, and all others do not count.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeGuard

from bisect_torch.analysis.python_text import tree_of

_VERSION = re.compile(r"^torch(?:\.version)?\.__version__$|^__version__$")
_LEAVING = re.compile(r"(?:^|\.)(?:exit|_exit|quit|skip|skipTest|SkipTest|Skipped)$")
_DEEPEST = 4  # names that stand for names


class _Way(Enum):
    """What a condition becomes on newer releases, if it changes."""

    TRUE = 1
    FALSE = -1
    EITHER = 0

    def turned(self) -> _Way:
        return _Way(-self.value)


@functools.lru_cache(maxsize=256)
def guard_of(source: str, line: int) -> int | None:
    """The line of a condition by which this line may run on the release where it failed, and not on a newer one.

    Args:
        line: The one that failed, from 1.

    Returns:
        None where no such condition is seen, and where the text is no Python.
    """
    known = _known(source)
    if known is None:
        return None
    tree, names = known
    return next((each.lineno for each in _guards(tree.body, line, names)), None)


@functools.lru_cache(maxsize=256)
def condition_in(source: str, case: str | None) -> int | None:
    """The first line at which a text goes by torch's version, or by what torch has.

    Args:
        case: Its function; other functions with decorators, which are other cases, take no part. None for a text
            that holds no cases.
    """
    known = _known(source)
    if known is None:
        return None
    tree, names = known
    own = [each for each in tree.body if case is None or not _is_another(each, case)]
    found = (each for part in own for each in ast.walk(part) if _goes_by_torch(each, names))
    return min((each.lineno for each in found), default=None)


@functools.lru_cache(maxsize=16)
def _known(source: str) -> tuple[ast.Module, Mapping[str, ast.expr]] | None:
    """A text is asked about each line of a traceback, and a file of tests about each test that fails."""
    tree = tree_of(source)
    return None if tree is None else (tree, _values(tree))


def _is_another(node: ast.stmt, case: str) -> bool:
    return isinstance(node, ast.FunctionDef) and bool(node.decorator_list) and node.name != case


def _goes_by_torch(node: ast.AST, names: Mapping[str, ast.expr]) -> TypeGuard[ast.stmt | ast.expr]:
    if isinstance(node, (ast.If, ast.IfExp)):
        return _way(node.test, names, _DEEPEST) is not None
    if isinstance(node, ast.Call):
        return _called(node) == "getattr" and len(node.args) > 2 and ast.unparse(node.args[0]).startswith("torch")
    if isinstance(node, ast.Try):
        caught = " ".join(ast.unparse(each.type) for each in node.handlers if each.type is not None)
        asks = any("torch" in ast.unparse(each) for each in node.body)
        return asks and any(name in caught for name in ("ImportError", "ModuleNotFoundError", "AttributeError"))
    return False


def _guards(body: Sequence[ast.stmt], line: int, names: Mapping[str, ast.expr]) -> Iterator[ast.If]:
    """From the outside in."""
    for place, node in enumerate(body):
        if not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        for before in body[:place]:
            if isinstance(before, ast.If) and (
                (_leaves(before.body) and _may_become(before.test, _Way.TRUE, names))
                or (_leaves(before.orelse) and _may_become(before.test, _Way.FALSE, names))
            ):
                yield before
        for inner in _blocks(node):
            if isinstance(node, ast.If) and _holds(inner, line):
                lost = _Way.FALSE if inner is node.body else _Way.TRUE
                if _may_become(node.test, lost, names):
                    yield node
            yield from _guards(inner, line, names)


def _blocks(node: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for each in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield each.body


def _holds(block: Sequence[ast.stmt], line: int) -> bool:
    return any(each.lineno <= line <= (each.end_lineno or each.lineno) for each in block)


def _leaves(block: Sequence[ast.stmt]) -> bool:
    """Whether what stands after it does not run."""
    last = block[-1] if block else None
    if isinstance(last, ast.Raise) and last.exc is not None:
        return _LEAVING.search(_called(last.exc)) is not None
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return _LEAVING.search(_called(last.value)) is not None
    return isinstance(last, (ast.Return, ast.Continue, ast.Break))


def _called(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def _may_become(test: ast.expr, wanted: _Way, names: Mapping[str, ast.expr]) -> bool:
    return _way(test, names, _DEEPEST) in (wanted, _Way.EITHER)


def _way(test: ast.expr, names: Mapping[str, ast.expr], deep: int) -> _Way | None:
    """None where it is about something else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        way = _way(test.operand, names, deep)
        return way.turned() if way else None
    if isinstance(test, ast.BoolOp):
        ways = {_way(each, names, deep) for each in test.values} - {None}
        return None if not ways else ways.pop() if len(ways) == 1 else _Way.EITHER
    if isinstance(test, ast.Name) and test.id in names and deep:
        return _way(names[test.id], names, deep - 1)
    if isinstance(test, ast.Compare):
        return _of_comparison(test, names)
    if isinstance(test, ast.Call):
        called = _called(test)
        if called in ("hasattr", "getattr"):
            return _Way.TRUE
        if called in names and deep:
            return _way(names[called], names, deep - 1)
        return _Way.EITHER if _about_version(test, names) else None
    return None


def _of_comparison(test: ast.Compare, names: Mapping[str, ast.expr]) -> _Way | None:
    left, right, by = test.left, test.comparators[0], test.ops[0]
    if isinstance(by, (ast.In, ast.NotIn)) and isinstance(right, ast.Call) and _called(right) in ("dir", "vars"):
        return _Way.TRUE if isinstance(by, ast.In) else _Way.FALSE
    of_left, of_right = _about_version(left, names), _about_version(right, names)
    if not of_left and not of_right:
        return None
    more = {ast.Gt: of_left, ast.GtE: of_left, ast.Lt: not of_left, ast.LtE: not of_left}.get(type(by))
    if more is None or len(test.ops) > 1 or (of_left and of_right):
        return _Way.EITHER
    return _Way.TRUE if more else _Way.FALSE


def _about_version(node: ast.expr, names: Mapping[str, ast.expr], deep: int = _DEEPEST) -> bool:
    """Whether torch's version takes part in it."""
    for each in ast.walk(node):
        if isinstance(each, (ast.Attribute, ast.Name)) and _VERSION.search(ast.unparse(each)):
            return True
        if isinstance(each, ast.Call) and _called(each).endswith("version") and _names_torch(each):
            return True  # importlib.metadata
        if isinstance(each, ast.Name) and deep and each.id in names and _about_version(names[each.id], names, deep - 1):
            return True
    return False


def _names_torch(call: ast.Call) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == "torch" for each in call.args)


def _values(tree: ast.Module) -> Mapping[str, ast.expr]:
    """What a name stands for that is given one value in the whole text, or is a function that only returns one."""
    found: dict[str, ast.expr | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.FunctionDef) and isinstance(only := node.body[-1], ast.Return) and only.value:
            name, value = node.name, only.value
        else:
            continue
        found[name] = None if name in found else value
    return {name: value for name, value in found.items() if value is not None}

"""Values that can be known by reading: literals, arithmetic on them, ranges, and names bound to such once."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_MOST_BITS = 4096
_MOST_ITEMS = 10_000

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


class NotLiteral(Exception):  # noqa: N818 - not an error: the file is expanded by running it
    """The value cannot be known without running the file."""


def evaluate(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of an expression.

    Args:
        names: Values of module-level names (see :func:`constants`).

    Raises:
        NotLiteral: It must be run to be known.
    """
    try:
        return _evaluate(node, names)
    except TypeError:  # [*5], {[]: 1}
        raise NotLiteral("type") from None


def _evaluate(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id]
        raise NotLiteral(node.id)
    if isinstance(node, ast.List):
        return _items(node.elts, names)
    if isinstance(node, ast.Tuple):
        return tuple(_items(node.elts, names))
    if isinstance(node, ast.Dict):
        if any(key is None for key in node.keys):
            raise NotLiteral("**")
        keys = [evaluate(key, names) for key in node.keys if key is not None]
        return dict(zip(keys, (evaluate(value, names) for value in node.values), strict=True))
    if isinstance(node, ast.Call):
        return _call(node, names)
    return _arithmetic(node, names)


def _items(nodes: list[ast.expr], names: Mapping[str, Any]) -> list[Any]:
    items: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            items += evaluate(node.value, names)
        else:
            items.append(evaluate(node, names))
    return items


def _call(node: ast.Call, names: Mapping[str, Any]) -> Any:
    makers: Mapping[str, Callable[..., Any]] = {"range": range, "list": list, "tuple": tuple, "dict": dict}
    if not isinstance(node.func, ast.Name) or node.func.id not in makers or node.func.id in names:
        raise NotLiteral(ast.dump(node.func))
    arguments = [evaluate(argument, names) for argument in node.args]
    if node.func.id == "dict":
        if any(keyword.arg is None for keyword in node.keywords) or arguments:
            raise NotLiteral("dict")
        return {str(keyword.arg): evaluate(keyword.value, names) for keyword in node.keywords}
    try:
        value = makers[node.func.id](*arguments)
        if len(value) > _MOST_ITEMS:
            raise NotLiteral("too long")
    except (TypeError, ValueError, OverflowError):
        raise NotLiteral(node.func.id) from None
    return value


def _arithmetic(node: ast.expr, names: Mapping[str, Any]) -> Any:
    try:
        if isinstance(node, ast.UnaryOp):
            return _UNARY[type(node.op)](evaluate(node.operand, names))
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            left, right = evaluate(node.left, names), evaluate(node.right, names)
            _refuse_large(node.op, left, right)
            value = _BINARY[type(node.op)](left, right)
            if isinstance(value, (str, list, tuple)) and len(value) > _MOST_ITEMS:
                raise NotLiteral("too long")
            return value
    except (TypeError, ValueError, ArithmeticError):
        raise NotLiteral("arithmetic") from None
    raise NotLiteral(type(node).__name__)


def _refuse_large(op: ast.operator, left: Any, right: Any) -> None:
    """``2**32`` is a size, ``9**9**9`` a trap."""
    if isinstance(op, (ast.Pow, ast.LShift)):
        bits = left.bit_length() if isinstance(left, int) else 64
        if abs(right) * (bits if isinstance(op, ast.Pow) else 1) > _MOST_BITS:
            raise NotLiteral("too large")
    if isinstance(op, ast.Mod) and isinstance(left, (str, bytes)):
        raise NotLiteral("formatting")
    if isinstance(op, ast.Mult):
        for side, other in ((left, right), (right, left)):
            if isinstance(side, (str, list, tuple)) and isinstance(other, int) and len(side) * other > _MOST_ITEMS:
                raise NotLiteral("too long")


def constants(module: ast.Module) -> dict[str, Any]:
    """Module-level names that are bound once, to a value that can be known.

    A list or dict counts only where nothing that runs while the file is imported could change it.
    """
    stores: dict[str, int] = {}
    for node in ast.walk(module):
        for name in _bound_names(node):
            stores[name] = stores.get(name, 0) + 1
    unsure = {name for name, count in stores.items() if count > 1}
    while True:
        known, used = _bindings(module, unsure)
        changeable = {name for name in used if isinstance(known.get(name), (list, dict))}
        if not changeable:
            return known
        unsure |= changeable


def _bindings(module: ast.Module, unsure: set[str]) -> tuple[dict[str, Any], set[str]]:
    """The known names, and the names that statements which cannot be evaluated here use."""
    known: dict[str, Any] = {}
    used: set[str] = set()
    for statement in module.body:
        target = _single_target(statement)
        value = getattr(statement, "value", None)
        if target is not None and target not in unsure and not isinstance(value, ast.Name):
            try:
                known[target] = evaluate(value, known)  # type: ignore[arg-type]
                continue
            except NotLiteral:
                pass
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            used |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return known, used


def _single_target(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def _bound_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return [node.id]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return list(node.names)
    return []

"""Which parts of a script's text can run, and which functions and classes stand there that nothing uses."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_BASES_OF_TESTS = frozenset({"TestCase", "object"})
"""A class of these is made without anything being called."""


def running_nodes(tree: ast.Module) -> list[ast.AST]:
    """All nodes but those inside of definitions that stand at the top and that nothing else names."""
    unused = _unused(tree)
    return [node for statement in tree.body if statement not in unused for node in ast.walk(statement)]


def uncalled_tests(tree: ast.Module) -> list[str]:
    """Names of functions and classes that a test runner would collect, and that nothing in the file uses."""
    return [each.name for each in _unused(tree) if _is_test(each)]


def _is_test(node: _Definition) -> bool:
    if isinstance(node, ast.ClassDef):
        return any(_last(base) == "TestCase" for base in node.bases) or node.name.startswith("Test")
    return node.name.startswith("test")


def _unused(tree: ast.Module) -> list[_Definition]:
    """Definitions at the top that what runs does not name, nor what that names in turn."""
    left = [node for node in tree.body if _is_inert(node)]
    running: list[ast.AST] = [node for node in tree.body if node not in left]
    while running:
        named = {name for node in running for name in _named(ast.walk(node))}
        running = [node for node in left if node.name in named]
        left = [node for node in left if node.name not in named]
    return left


def _is_inert(node: ast.stmt) -> TypeGuard[_Definition]:
    """Whether a statement defines something, and runs nothing of what stands in it."""
    if isinstance(node, ast.ClassDef):
        bases = all(_last(base) in _BASES_OF_TESTS for base in node.bases)
        return bases and not node.keywords and not node.decorator_list and all(map(_is_inert, _but_doc(node.body)))
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.decorator_list:
        return False
    defaults = [each for each in (*node.args.defaults, *node.args.kw_defaults) if each is not None]
    return not any(isinstance(part, ast.Call) for each in defaults for part in ast.walk(each))


def _but_doc(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if not isinstance(node, ast.Pass) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield node


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _named(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What is used by name, also as an attribute or as a text, which ``getattr`` may look up."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value

"""Read a file as text and say which cases it declares. Nothing in it is run."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisect_torch.cases.literals import NotLiteral, constants, evaluate
from bisect_torch.errors import UsageError
from bisect_torch.nearest import nearest_names
from bisect_torch.worker import declaration
from bisect_torch.worker.declaration import DeclarationError, Options, Scalar, Signature

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_API_MODULES = ("bisect_torch", "bisect_torch.worker.api")


@dataclass(frozen=True)
class Declared:
    """A case as it stands in the file.

    Args:
        options: Parsed; those that cannot be known without running are missing.
        parameters: None where a value cannot be known without running the file.
    """

    name: str
    line: int
    options: Options
    parameters: dict[str, list[Scalar]] | None


@dataclass(frozen=True)
class Reading:
    """What a file says.

    Args:
        is_case_file: It uses bisect-torch's ``case``; otherwise it is a script.
        dynamic: Which cases there are, or their parameters or options, is known only by running it.
    """

    module: ast.Module
    is_case_file: bool
    dynamic: bool = False
    cases: tuple[Declared, ...] = ()


def parse(path: Path, source: bytes) -> ast.Module:
    """The syntax tree of a Python file.

    Raises:
        UsageError: It is not valid Python, with file and line.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape is the author's, and Python says so when it runs
            return ast.parse(source, filename=str(path))
    except SyntaxError as problem:
        raise UsageError(f"{path}:{problem.lineno or 1}: {problem.msg}", hint=_syntax_hint(problem)) from None
    except (ValueError, RecursionError, MemoryError) as problem:
        raise UsageError(
            f"{path}:1: cannot be read as Python: {problem}", hint="a case file or script is text in Python"
        ) from None


def _syntax_hint(problem: SyntaxError) -> str | None:
    if "utf-8" in str(problem.msg) or "encoding" in str(problem.msg):
        return "save the file as UTF-8, or declare its encoding in the first line"
    if not problem.text:
        return None
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"the line is `{problem.text.strip()}`; if it is right in a newer Python: this tool reads it with {own}"


def read_cases(path: Path, module: ast.Module) -> Reading:
    """The cases that a file declares.

    Raises:
        UsageError: A case cannot be run as declared, two have the same name, or a file that imports ``case`` has none.
    """
    names = _ApiNames(module)
    if not names:
        return Reading(module, is_case_file=False)
    known = constants(module)
    cases: list[Declared] = []
    dynamic = False
    uses = sum(names.is_case(node) for node in ast.walk(module) if isinstance(node, ast.expr))
    for function, repeated in _functions(module.body):
        for decorator in function.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            if names.is_case(call.func if call else decorator):
                uses -= 1
                found, sure = _declared(path, function, decorator, known)
                cases.append(found)
                dynamic |= not sure or repeated
    dynamic |= uses > 0  # case() called as a function, or handed on
    if not cases and not dynamic:
        raise UsageError(f"{path}:{names.line}: imports case but declares no case", hint="put @case above a function")
    _refuse_duplicates(path, cases)
    return Reading(module, True, dynamic, tuple(cases))


def declares_cases(module: ast.Module) -> bool:
    """Whether it uses bisect-torch's ``case``: what stands in it is a case file, and no script."""
    names = _ApiNames(module)
    return any(names.is_case(node) for node in ast.walk(module))


class _ApiNames:
    """Under which names the file knows ``case`` and the module that has it. False when it does not."""

    def __init__(self, module: ast.Module) -> None:
        self._cases: set[str] = set()
        self._modules: set[str] = set()
        self.line = 1
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom) and node.module in _API_MODULES and not node.level:
                self._add_from(node)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in _API_MODULES:
                        self._modules.add(alias.asname or alias.name)
        if self._modules and not self._cases and not any(self.is_case(node) for node in ast.walk(module)):
            self._modules.clear()  # it imports bisect_torch for other things: a script

    def _add_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name in ("case", "*"):
                self._cases.add(alias.asname or "case")
                self.line = node.lineno

    def __bool__(self) -> bool:
        return bool(self._cases or self._modules)

    def is_case(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._cases and isinstance(node.ctx, ast.Load)
        return isinstance(node, ast.Attribute) and node.attr == "case" and dotted(node.value) in self._modules


def dotted(node: ast.AST) -> str | None:
    """``a.b.c`` for a chain of names; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else None
    return None


def _functions(body: list[ast.stmt], repeated: bool = False) -> Iterator[tuple[_Function, bool]]:
    """Functions at module level, and whether they stand in a loop.

    Those in branches count as well: on a build that does not take the branch the case does not apply. To ask one build
    which cases there are would lose those that only others declare.
    """
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield statement, repeated
            continue
        looping = repeated or isinstance(statement, (ast.For, ast.While))
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(statement, ast.ClassDef):
                yield from _functions(getattr(statement, field, []), looping)
        for handler in getattr(statement, "handlers", []):
            yield from _functions(handler.body, looping)


def _declared(path: Path, function: _Function, decorator: ast.expr, known: dict[str, Any]) -> tuple[Declared, bool]:
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    options: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    sure = True
    for keyword in keywords:
        try:
            if keyword.arg is None:
                raise NotLiteral("**")
            value = evaluate(keyword.value, known)
        except NotLiteral:
            sure = False
            continue
        (options if keyword.arg in declaration.OPTIONS else parameters)[keyword.arg] = value
    try:
        if isinstance(decorator, ast.Call) and decorator.args:
            raise DeclarationError("@case takes keywords only: @case or @case(dtype=[…], timeout=60)")
        if isinstance(function, ast.AsyncFunctionDef) or _yields(function):
            raise DeclarationError("a generator or coroutine function would never run; write a plain def that returns")
        parsed = declaration.parse_options(options)
        signature = _signature(function, decorator, sure)
        checked = declaration.check_parameters(parameters, signature)
    except DeclarationError as problem:
        hint = _option_hint(parameters)
        raise UsageError(f"{path}:{decorator.lineno}: case {function.name!r}: {problem}", hint=hint) from None
    return Declared(function.name, function.lineno, parsed, checked if sure else None), sure


def _option_hint(parameters: dict[str, Any]) -> str | None:
    for name in parameters:
        near = nearest_names(name, declaration.OPTIONS, cutoff=0.7)
        if near:
            return f"the option is called {near[0]!r}"
    return None


def _yields(function: _Function) -> bool:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _signature(function: _Function, decorator: ast.expr, sure: bool) -> Signature:
    arguments = function.args
    below = function.decorator_list[function.decorator_list.index(decorator) + 1 :]
    if below:  # another decorator may change what it takes: known when it runs
        return Signature(names=(), required=(), takes_any=True)
    plain = [argument.arg for argument in arguments.args]
    only = [argument.arg for argument in arguments.kwonlyargs]
    without = plain[: len(plain) - len(arguments.defaults)] if len(arguments.defaults) < len(plain) else []
    without += [name for name, default in zip(only, arguments.kw_defaults, strict=True) if default is None]
    return Signature(
        names=(*plain, *only),
        required=tuple(without) if sure else (),
        takes_any=arguments.kwarg is not None,
        positional_only=tuple(argument.arg for argument in arguments.posonlyargs),
    )


def _refuse_duplicates(path: Path, cases: list[Declared]) -> None:
    first: dict[str, int] = {}
    for case in cases:
        if case.name in first:
            raise UsageError(
                f"{path}:{case.line}: the case {case.name!r} was declared before, in line {first[case.name]}",
                hint="give one of the two functions another name",
            )
        first[case.name] = case.line

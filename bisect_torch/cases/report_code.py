"""From a block of a bug report to Python: prompts, output and notebook commands taken out. Nothing is run."""

from __future__ import annotations

import ast
import builtins
import re
import shlex
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from bisect_torch.cases.report_blocks import Block

_PROMPT = re.compile(r"^[ \t]*(?:>>>|\.\.\.)(?: (?P<code>.*))?$")
_CELL_PROMPT = re.compile(r"^[ \t]*(?:In \[\d*\]:|\.\.\.:)(?: (?P<code>.*))?$")
_MAGIC = re.compile(r"^\s*(?:[!%$]|pip3? install\b|Out\[\d+\]:)")
_INSTALL = re.compile(r"^\s*[!%$]?\s*(?:python3? -m )?pip3? install\s+(?P<what>.+)$")
_IMPLICIT = frozenset({"__name__", "__file__", "__doc__", "__spec__", "__package__", "__builtins__", "__annotations__"})
_BUILT_IN = frozenset(dir(builtins)) | _IMPLICIT


@dataclass(frozen=True)
class Code:
    """The Python of a block.

    Args:
        text: Can be parsed; empty where the block holds none.
        output: What stood beside it and is no code: what it printed, or prose.
        installs: Requirements of ``pip install`` lines in it.
    """

    block: Block
    text: str
    output: str = ""
    installs: tuple[str, ...] = ()

    @property
    def module(self) -> ast.Module:
        """Parsed; empty where it is no Python."""
        return _parsed(self.text) or ast.Module(body=[], type_ignores=[])

    @property
    def imports_torch(self) -> bool:
        """Whether it does so itself."""
        return any(name.partition(".")[0] == "torch" for name in imported(self.module))

    @property
    def only_imports(self) -> bool:
        """Whether that is all it does."""
        return all(isinstance(statement, (ast.Import, ast.ImportFrom)) for statement in self.module.body)

    @property
    def does_something(self) -> bool:
        """Whether it can be a repro. A word or a number in a block without a language is valid Python, too."""
        doing = (ast.Import, ast.ImportFrom, ast.Call, ast.FunctionDef, ast.ClassDef)
        return any(isinstance(node, doing) for node in ast.walk(self.module))

    @property
    def says_torch(self) -> bool:
        """Whether it uses the name torch without importing it, as a report that leaves its imports out does."""
        return "torch" in undefined(self.module)


def code_of(block: Block) -> Code:
    """The code in a block.

    All of it where it can be parsed, else the lines after its prompts, else its longest beginning that can be parsed,
    without the commands of a notebook or shell. What remains is output.
    """
    lines = block.text.split("\n")
    for prompt in (_PROMPT, _CELL_PROMPT):
        if any(prompt.match(line) for line in lines) and _parsed(block.text) is None:
            code, output = _prompted(lines, prompt)
            return _without_output(block, code, output)
    if _parsed(block.text) is not None:
        return _without_output(block, lines, [])
    kept = _dedented([line for line in lines if not _MAGIC.match(line)])
    commands = [line for line in lines if _MAGIC.match(line)]
    length = _longest_beginning(kept)
    return _without_output(block, kept[:length], kept[length:], commands)


def _prompted(lines: list[str], prompt: re.Pattern[str]) -> tuple[list[str], list[str]]:
    code, output = [], []
    for line in lines:
        match = prompt.match(line)
        if match:
            code.append(match["code"] or "")
        else:
            output.append(line)
    kept = _dedented([line for line in code if not _MAGIC.match(line)])
    length = _longest_beginning(kept)
    return kept[:length], [*kept[length:], *output]


def _dedented(lines: list[str]) -> list[str]:
    return textwrap.dedent("\n".join(lines)).split("\n")


def _longest_beginning(lines: list[str]) -> int:
    """Of how many lines the longest beginning is that can be parsed."""
    length = len(lines)
    while length:
        try:
            _parse("\n".join(lines[:length]) + "\n")
            return length
        except SyntaxError as problem:
            # Where Python stumbled, at the latest, the valid part ends.
            length = min(length - 1, problem.lineno or length)
        except (ValueError, RecursionError, MemoryError):
            length -= 1
    return 0


def _without_output(block: Block, code: list[str], output: list[str], commands: list[str] | None = None) -> Code:
    """Values that stand alone at the end, such as ``tensor([nan])``, are what the code printed."""
    text = textwrap.dedent("\n".join(code))
    code = text.split("\n")
    module = _parsed(text)
    unbound = undefined(module) if module is not None else set()
    end = len(code)
    for statement in reversed(module.body if module is not None else []):
        if not _is_shown_value(statement, unbound):
            break
        end = statement.lineno - 1
    shown, kept = code[end:], "\n".join(code[:end]).strip("\n")
    installs = tuple(dict.fromkeys(name for line in commands or () for name in _requirements(line)))
    said = "\n".join(line for line in [*shown, *output] if line.strip())
    remaining = _parsed(kept)
    return Code(block, kept + "\n" if remaining is not None and remaining.body else "", said, installs)


def _is_shown_value(statement: ast.stmt, unbound: set[str]) -> bool:
    if not isinstance(statement, ast.Expr):
        return False
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    if isinstance(statement.value, ast.Call):
        called = statement.value.func
        return isinstance(called, ast.Name) and called.id in ("tensor", "array", "Parameter") and called.id in unbound
    plain = (ast.Constant, ast.UnaryOp, ast.Tuple, ast.List)
    is_text = isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    return isinstance(statement.value, plain) and not is_text and names <= (unbound | {"nan", "inf", "tensor"})


def _requirements(command: str) -> Iterator[str]:
    match = _INSTALL.match(command)
    if match is None:
        return
    try:
        words = shlex.split(match["what"], comments=True)
    except ValueError:
        words = match["what"].split()
    takes_value = False
    for word in words:
        if takes_value or word.startswith("-"):
            takes_value = not takes_value and word in ("-i", "--index-url", "--extra-index-url", "-r", "-f")
        elif re.fullmatch(r"[A-Za-z0-9][\w.\-]*(?:\[[\w,]+\])?(?:[=<>~!].*)?", word):
            yield word


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape is the reporter's
        return ast.parse(text)


def _parsed(text: str) -> ast.Module | None:
    try:
        return _parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imported(module: ast.Module) -> set[str]:
    """Dotted names of every module that is imported anywhere in it; not those of its own package."""
    names = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


def defined(module: ast.Module) -> set[str]:
    """Every name that is bound anywhere in it, in whatever scope."""
    names = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return names


def undefined(module: ast.Module) -> set[str]:
    """Names that are used and bound nowhere; nothing where ``import *`` may bind any."""
    bound = defined(module)
    if "*" in bound:
        return set()
    used = {node.id for node in ast.walk(module) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used - bound - _BUILT_IN

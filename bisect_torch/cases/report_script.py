"""A script or a case file from the code of a bug report, as text."""

from __future__ import annotations

import ast
import io
import keyword
import re
import sys
import tokenize
from collections.abc import Iterable

from bisect_torch.cases.distributions import DISTRIBUTIONS
from bisect_torch.cases.report_code import Code, imported, undefined
from bisect_torch.errors import UsageError

_STANDARD = """collections copy functools gc io itertools json math multiprocessing operator os pickle random re
subprocess sys tempfile threading time unittest warnings"""

_PACKAGES = """cv2 diffusers einops pandas scipy sklearn torchaudio torchvision transformers"""

KNOWN_IMPORTS = {
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "optim": "import torch.optim as optim",
    "dist": "import torch.distributed as dist",
    "np": "import numpy as np",
    "Tensor": "from torch import Tensor",
    "pd": "import pandas as pd",
    **{name: f"import {name}" for name in _PACKAGES.split()},
    **{name: f"import {name}" for name in _STANDARD.split()},
}
"""Names that reports use without importing them, where everybody means the same."""


def missing_imports(code: Code) -> tuple[str, ...]:
    """Lines that import what the code uses and never binds, where the name leaves no doubt."""
    names = undefined(code.module)
    return tuple(line for name, line in KNOWN_IMPORTS.items() if name in names)


def unknown_names(code: Code) -> tuple[str, ...]:
    """Names that the code uses and never binds, and that nobody can guess."""
    return tuple(sorted(undefined(code.module) - set(KNOWN_IMPORTS)))


def script(code: Code) -> str:
    """The code as a script, with the imports that it lacks."""
    return "".join([_header(code), *_with_imports(code.text, missing_imports(code))])


def case_file(code: Code, name: str) -> str:
    """The code as the body of one case; its imports at the top of the file.

    Args:
        name: Of the case: an identifier (see :func:`case_name`).

    Raises:
        UsageError: The code cannot stand in a function.
    """
    lines = code.text.split("\n")
    future, imports, body = _taken_apart(code.module.body, lines)
    inside = _indented("\n".join(body))
    needs = 'needs=["compile"]' if "compile" in needed(code) else ""
    head = [*(f"{line}\n" for line in future), *(["\n"] if future else [])]
    top = [*missing_imports(code), *imports]
    if not any(line == "import torch" for line in top):
        top.insert(0, "import torch  # noqa: F401")
    head += [f"{line}\n" for line in top] + ["from bisect_torch import case\n", "\n\n"]
    decorator = f"@case({needs})\n" if needs else "@case\n"
    text = "".join([_header(code), *head, decorator, f"def {name}(device):\n", inside or "    pass\n"])
    try:
        compile(text, "<case>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as problem:
        raise UsageError(
            f"the code cannot stand in a function: {problem}", hint="without --case it is written as a script"
        ) from None
    return text


def case_name(stem: str) -> str:
    """A function's name from a file's."""
    name = re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_").lower() or "repro"
    return f"case_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name


def needed(code: Code) -> tuple[str, ...]:
    """Capabilities and devices that the code uses: ``compile``, ``cuda``, ``mps``, ``xpu``."""
    from bisect_torch.cases.imports import uses_compile

    found = ["compile"] if uses_compile(code.module) else []
    return (*found, *(device for device in ("cuda", "mps", "xpu") if _uses_device(code.module, device)))


def _uses_device(module: ast.Module, device: str) -> bool:
    """Moves something there by name. ``torch.cuda.is_available()`` alone only asks."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(rf"{device}(:\d+)?", node.value):
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == device:
            return True
    return False


def packages(code: Code) -> tuple[str, ...]:
    """What must be installed beside torch: requirements for ``--with``."""
    every = imported(code.module) | imported(ast.parse("\n".join(missing_imports(code))))
    tops = {name.partition(".")[0] for name in every} - _THERE - sys.stdlib_module_names
    wanted = [DISTRIBUTIONS.get(top, top) for top in sorted(tops)]
    stated = {re.split(r"[\[=<>~!]", each)[0].lower(): each for each in code.installs}
    return tuple(dict.fromkeys(stated.get(name.lower(), name) for name in wanted))


_THERE = frozenset({"torch", "numpy", "setuptools", "pkg_resources", "bisect_torch", "typing_extensions"})
"""What every environment holds."""


def _header(code: Code) -> str:
    return f"# From a bug report, the block at its line {code.block.line}.\n"


def _with_imports(text: str, imports: Iterable[str]) -> Iterable[str]:
    """``from __future__`` and a docstring stay first."""
    lines = text.split("\n")
    body = ast.parse(text).body
    first = 0
    for place, statement in enumerate(body):
        documents = place == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not documents and not _is_future(statement):
            break
        first = statement.end_lineno or 0
    yield "".join(f"{line}\n" for line in lines[:first])
    yield "".join(f"{line}\n" for line in imports)
    yield "\n".join(lines[first:])


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _taken_apart(body: list[ast.stmt], lines: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Lines of future imports, of imports, and all others. An import that shares its line with more stays there."""
    future: list[str] = []
    imports: list[str] = []
    gone: set[int] = set()
    starts = [statement.lineno for statement in body]
    ends = [statement.end_lineno or statement.lineno for statement in body]
    for place, statement in enumerate(body):
        own = (place == 0 or ends[place - 1] < starts[place]) and (
            place + 1 == len(body) or starts[place + 1] > ends[place]
        )
        if own and isinstance(statement, (ast.Import, ast.ImportFrom)):
            (future if _is_future(statement) else imports).extend(lines[starts[place] - 1 : ends[place]])
            gone |= set(range(starts[place] - 1, ends[place]))
    kept = [line for number, line in enumerate(lines) if number not in gone]
    return future, imports, _without_main_guard(kept)


def _without_main_guard(lines: list[str]) -> list[str]:
    """In a case ``__name__`` is another: what stands under ``if __name__ == "__main__":`` is to run all the same."""
    guard = re.compile(r"""^if\s+__name__\s*==\s*(['"])__main__\1\s*:\s*(#.*)?$""")
    return ['if True:  # was: if __name__ == "__main__"' if guard.match(line) else line for line in lines]


def _indented(text: str) -> str:
    """By four spaces, but not inside of strings that go over several lines."""
    text = text.strip("\n") + "\n"
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except tokenize.TokenError as error:
        raise UsageError(
            f"the code ends in the middle of a statement: {error.args[0]}",
            hint="without --case it is written as a script, to be mended there",
        ) from None
    inside = {
        number
        for token in tokens
        if token.start[0] != token.end[0] and token.type not in (tokenize.NEWLINE, tokenize.NL)
        for number in range(token.start[0] + 1, token.end[0] + 1)
    }
    # From Python 3.12 on an f-string is several tokens; its parts' lines are found from where it starts and ends.
    inside |= _f_string_lines(text)
    lines = text.split("\n")[:-1]
    if any(line.strip() == "\\" and number not in inside for number, line in enumerate(lines, start=1)):
        # Python takes such a line's indentation for that of the statement behind it.
        raise UsageError(
            "the code cannot stand in a function: one of its lines is a backslash alone",
            hint="without --case it is written as a script",
        )
    shifted = [
        line if number in inside or not line.strip() else f"    {line}" for number, line in enumerate(lines, start=1)
    ]
    return "".join(f"{line}\n" for line in shifted)


def _f_string_lines(text: str) -> set[int]:
    return {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.JoinedStr) and node.end_lineno is not None
        for number in range(node.lineno + 1, node.end_lineno + 1)
        if _is_triple(text, node)
    }


def _is_triple(text: str, node: ast.JoinedStr) -> bool:
    source = ast.get_source_segment(text, node) or ""
    return re.match(r"""(?i)[rbuf]*('''|\"\"\")""", source) is not None

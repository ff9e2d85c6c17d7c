"""Which of a report's blocks is the repro."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bisect_torch.cases.report_blocks import blocks, clean_text
from bisect_torch.cases.report_code import Code, code_of, defined, undefined
from bisect_torch.cases.report_script import KNOWN_IMPORTS
from bisect_torch.errors import UsageError
from bisect_torch.first_names import first_of

_PYTHON = frozenset({"python", "py", "python3", "py3", "pycon", "ipython", "python-repl", "python-console", "console"})
_MAYBE = frozenset({"", "none", "text", "txt", "plaintext", "code"})


@dataclass(frozen=True)
class Choice:
    """The repro of a report.

    Args:
        code: It.
        why: The rule that chose it, as a sentence's end.
        others: Further blocks that could be meant.
        continued: Those of them that use names which the chosen one binds, or bind names which it lacks.
        together: Numbers of the chosen one and these, counted from 1 over all blocks, in the order in which they run.
    """

    code: Code
    why: str
    others: tuple[Code, ...] = ()
    continued: tuple[Code, ...] = ()
    together: tuple[int, ...] = ()


def choose(report: str, numbers: Sequence[int] = ()) -> Choice:
    """The block that is the repro.

    Blocks in Python's name, or in none, that hold code are candidates. The only one is taken; of several, the first
    that imports torch, else the first that says ``torch`` without importing it. Where neither tells, the user must.
    To one that only imports, the first that uses what it imports is joined.

    Args:
        numbers: Of the blocks to take instead, counted from 1 over all blocks; several are joined in this order.

    Raises:
        UsageError: There is no code, there are several candidates and none uses torch, or a number names no code.
    """
    every = [code_of(block) for block in blocks(report)]
    if numbers:
        return _named(every, numbers)
    candidates = [code for code in every if code.does_something and code.block.language in _PYTHON | _MAYBE]
    if not candidates:
        raise UsageError(
            _no_code(every, report),
            hint="a report has its code between lines of ```; else save the code itself as repro.py",
        )
    if len(candidates) == 1:
        return Choice(candidates[0], "the only block of Python code")
    importing = [code for code in candidates if code.imports_torch]
    saying = [code for code in candidates if code.says_torch]
    chosen = next(iter(importing or saying), None)
    if chosen is None:
        raise UsageError(
            f"{len(candidates)} blocks hold Python and none uses torch: {_places(candidates)}",
            hint=f"name the repro: --block {every.index(candidates[0]) + 1}",
        )
    does = "imports torch" if importing else "uses torch"
    alike = importing or saying
    why = f"the only block that {does}" if len(alike) == 1 else f"the first of {len(alike)} blocks that {does}"
    others = [code for code in candidates if code is not chosen]
    first = [every.index(chosen)]
    if chosen.only_imports:
        user = next((code for code in others if not code.only_imports and _uses(code, chosen)), None)
        if user is not None:
            why = f"imports alone, with the code at line {user.block.line} that uses them"
            first.append(every.index(user))
            others.remove(user)
            chosen = _joined([chosen, user])
    before = [code for code in others if _lacks(chosen) & defined(code.module)]
    after = [code for code in others if code not in before and _uses(code, chosen)]
    together = [*map(every.index, before), *first, *map(every.index, after)]
    continued = tuple(code for code in others if code in before or code in after)
    return Choice(chosen, why, tuple(others), continued, tuple(place + 1 for place in together) if continued else ())


def number_of(report: str, code: Code) -> int:
    """The number of a block, counted from 1 over all blocks."""
    return [block.line for block in blocks(report)].index(code.block.line) + 1


def _named(every: Sequence[Code], numbers: Sequence[int]) -> Choice:
    for number in numbers:
        if not 1 <= number <= len(every):
            raise UsageError(
                f"--block {number}: the report has {len(every)} blocks", hint=f"a number from 1 to {len(every)}"
            )
        if not every[number - 1].text:
            raise UsageError(
                f"--block {number}: no Python code at line {every[number - 1].block.line}",
                hint="name a block that holds Python; without --block it is chosen",
            )
    return Choice(_joined([every[number - 1] for number in numbers]), "named by --block")


def _joined(taken: Sequence[Code]) -> Code:
    """Several blocks as one, which stands where the first does."""
    return replace(
        taken[0],
        text="\n".join(code.text for code in taken),
        output="\n".join(code.output for code in taken if code.output),
        installs=tuple(dict.fromkeys(name for code in taken for name in code.installs)),
    )


def _uses(code: Code, other: Code) -> bool:
    """Whether a block lacks names that another one binds; torch itself is told of no block, unless all that the other
    one does is to import."""
    shared = undefined(code.module) & defined(other.module)
    return bool(shared if other.only_imports else shared - {"torch"})


def _lacks(code: Code) -> set[str]:
    """Names that a block uses and never binds, where nobody knows what they mean."""
    return undefined(code.module) - set(KNOWN_IMPORTS)


def _no_code(every: Sequence[Code], report: str) -> str:
    if not every:
        return "the report is empty"
    if [code.block.text.strip() for code in every] == [clean_text(report).strip()]:
        return "the report has no code block, and its text is no repro in Python"
    return f"no Python code in the report; blocks: {_places(every)}"


def _places(codes: Sequence[Code]) -> str:
    shown = [f"line {code.block.line}" + (f" ({code.block.language})" if code.block.language else "") for code in codes]
    return first_of(shown, 6)

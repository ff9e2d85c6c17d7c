"""``-k``: choose instances by an expression of names, ``and``, ``or``, ``not`` and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Protocol, TypeVar

from bisect_torch.errors import UsageError
from bisect_torch.first_names import first_of
from bisect_torch.model import Instance
from bisect_torch.nearest import likest_first, nearest_names

_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")

_Test = Callable[[str], bool]


def matching(instances: Iterable[Instance], expression: str) -> tuple[Instance, ...]:
    """The instances whose name, or whose file's name, fits the expression.

    A word fits where it occurs in ``file.py::case[dtype=float32]``, upper and lower case alike.

    Raises:
        UsageError: The expression cannot be understood.
    """
    fits = chooser(expression)
    return tuple(one for one in instances if fits(one.case.file.path.name, one.name))


class Kept(Protocol):
    """What results call a row: a series, an observation."""

    @property
    def case_file(self) -> str:
        """Path of its file."""

    @property
    def instance(self) -> str:
        """Its name."""


KeptRow = TypeVar("KeptRow", bound=Kept)


def fitting(rows: Sequence[KeptRow], expression: str) -> tuple[KeptRow, ...]:
    """The rows of results that fit the expression, as :func:`matching` has it.

    Raises:
        UsageError: The expression cannot be understood, or fits none of them.
    """
    fits = chooser(expression)
    found = tuple(one for one in rows if fits(PurePath(one.case_file).name, one.instance))
    if rows and not found:
        raise none_fits(expression, [f"{PurePath(one.case_file).name}::{one.instance}" for one in rows])
    return found


def none_fits(expression: str, names: Iterable[str], hint: str | None = None) -> UsageError:
    """The refusal of an expression that fits nothing.

    Args:
        names: Of all that there is, as ``file::instance``; at least one.
        hint: In place of the one that shows the first of them.
    """
    known = list(dict.fromkeys(names))
    which = "does not fit the only instance" if len(known) == 1 else f"fits none of {len(known)} instances"
    return UsageError(f"-k {expression!r} {which}", hint=hint or f"it looks at file::instance, such as {known[0]}")


def named_instances(instances: Iterable[Instance], name: str) -> tuple[Instance, ...]:
    """The instances of a case with this name, or the one that has it with its parameters."""
    return tuple(one for one in instances if name in (one.case.name, one.name))


def no_such_case(name: str, instances: Sequence[Instance]) -> UsageError:
    """The refusal of a name after ``::`` that no case of the file has, with those that it may have meant.

    Args:
        instances: All of the file.
    """
    case = name.partition("[")[0]
    rows = likest_first(name, (each.name for each in instances if each.case.name == case))
    if rows:  # the case is there, with other parameters: their names are long
        known = f"{case} has no parameters" if rows == [case] else f"{case} has: {first_of(rows, 3)}"
        return UsageError(f"there is no instance {name!r}", hint=known)
    names = list(dict.fromkeys(each.case.name for each in instances))
    near = nearest_names(name, names, most=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the file has: {first_of(names, 6)}"
    return UsageError(f"there is no case {name!r}", hint=hint)


def chooser(expression: str) -> Callable[[str, str], bool]:
    """Whether an instance, given as the name of its file and its own, fits the expression; see :func:`matching`.

    Raises:
        UsageError: The expression cannot be understood.
    """
    if not expression.strip():
        return lambda file, instance: True
    too_deep = UsageError(f"-k {expression[:40]!r}…: nested too deeply", hint="for example -k 'bmm and not float64'")
    # An instance may be named whole: between its brackets stand blanks, parentheses and words of ours, too.
    whole = expression.strip().lower()
    named = "[" in whole and whole.endswith("]")
    try:
        test = _Expression(expression).parse()
    except RecursionError:
        raise too_deep from None
    except UsageError:
        if not named:
            raise
        test = _nothing

    def fits(file: str, instance: str) -> bool:
        name = f"{file}::{instance}".lower()
        try:
            return (named and whole in name) or test(name)
        except RecursionError:
            raise too_deep from None

    return fits


def _nothing(name: str) -> bool:
    return False


class _Expression:
    """Recursive descent: ``or`` binds least, then ``and``, then ``not``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def parse(self) -> _Test:
        test = self._either()
        if self._next < len(self._tokens):
            raise self._error(f"did not expect {self._tokens[self._next]!r}")
        return test

    def _error(self, reason: str) -> UsageError:
        return UsageError(f"-k {self._text!r}: {reason}", hint="for example: -k 'bmm and not (float64 or layout=view)'")

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _either(self) -> _Test:
        tests = [self._both()]
        while self._peek() == "or":
            self._take()
            tests.append(self._both())
        return lambda name: any(test(name) for test in tests)

    def _both(self) -> _Test:
        tests = [self._negated()]
        while self._peek() == "and":
            self._take()
            tests.append(self._negated())
        return lambda name: all(test(name) for test in tests)

    def _negated(self) -> _Test:
        token = self._take()
        if token == "not":
            inner = self._negated()
            return lambda name: not inner(name)
        if token == "(":
            inside = self._either()
            if self._take() != ")":
                raise self._error("a parenthesis is not closed")
            return inside
        if token in ("", ")", "and", "or"):
            raise self._error(f"a name is missing before {token!r}" if token else "a name is missing at the end")
        return lambda name: token.lower() in name

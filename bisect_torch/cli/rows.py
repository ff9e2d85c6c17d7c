"""Rows of a results file, chosen by the names that a user gives."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from bisect_torch.errors import UsageError
from bisect_torch.model import Series
from bisect_torch.nearest import nearest_names
from bisect_torch.report.files import COMMANDS, COMMANDS_NAME
from bisect_torch.report.parameters import pairs
from bisect_torch.report.text import listed

if TYPE_CHECKING:
    from bisect_torch.report.findings import Findings

_OF_SEVERAL = re.compile(r" and \d+ others?\b| \(\d+×\)$")
"""How a line of a matrix ends that stands for several rows."""

_MOST = 6
"""Names that a hint lists."""


def is_named(name: str, series: Series) -> bool:
    """Whether ``name`` is that of the instance, its case, its file (with or without folders), or ``FILE::CASE``.

    Also as a matrix shows it, by its values: ``bmm[bfloat16,2]``.
    """
    case = series.instance.partition("[")[0]
    values = ",".join(value for _, value in pairs(series.instance) or ())
    file, inside, rest = name.rpartition("::")
    if inside:
        return rest in (series.instance, case) and _is_file(file, series)
    return name in (series.instance, case, f"{case}[{values}]") or _is_file(name, series)


def _is_file(name: str, series: Series) -> bool:
    """The case file's path, or the end of it from some folder on."""
    if series.case_file == COMMANDS:
        return name in (COMMANDS, COMMANDS_NAME)
    return name == series.case_file or series.case_file.endswith(f"/{name}")


def only_chosen(findings: Findings, names: Sequence[str], expression: str | None, results: Path) -> Findings:
    """Of what was found the rows that CASE and ``-k`` choose; all of it where neither is given.

    Raises:
        UsageError: A name or the expression fits no row.
    """
    if not names and expression is None:
        return findings
    return findings.only(_chosen_rows(findings.series, names, expression, results))


def unknown_case(name: str, results: Path, series: Iterable[Series], device: str | None = None) -> UsageError:
    """The error for a name that no row has, with what it may have meant."""
    where = f" on {device}" if device else ""
    return UsageError(f"{results} holds no case {name!r}{where}", hint=_meant(name, results, list(series)))


def _meant(name: str, results: Path, series: Sequence[Series]) -> str:
    """The names most like it; else those that hold it; else which there are."""
    every = f"bisect-torch judge {shlex.quote(str(results))} --unfold"
    if _OF_SEVERAL.search(name):
        return f"{every} has each row by its name"
    cases = dict.fromkeys(each.instance.partition("[")[0] for each in series)
    names = list(dict.fromkeys([*cases, *(each.instance for each in series)]))
    if "::" in name:
        names = [f"{PurePath(each.case_file).name}::{each.instance}" for each in series]
    elif name.endswith(".py"):
        names = [PurePath(each.case_file).name for each in series]
    within = [each for each in cases if name.lower() in each.lower()]
    near = within or nearest_names(name, names, most=3, cutoff=0.5)
    if near:
        return f"did you mean {listed(near, most=_MOST, last='or')}?"
    known = list(cases) if len(cases) > 1 else names
    return f"it has: {', '.join(known[:_MOST])}{f', …; {every} has all' if len(known) > _MOST else ''}"


def _chosen_rows(
    series: Sequence[Series], names: Sequence[str], expression: str | None, results: Path
) -> tuple[Series, ...]:
    """The series that have one of the names (any, where none is given) and fit the expression of ``-k``.

    Raises:
        UsageError: A name or the expression fits none of them.
    """
    from bisect_torch.cases import fitting

    for name in names:
        if not any(is_named(name, each) for each in series):
            raise unknown_case(name, results, series)
    named = [each for each in series if not names or any(is_named(name, each) for name in names)]
    return tuple(named) if expression is None else fitting(named, expression)

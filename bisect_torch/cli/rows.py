"""Rows of a results file, chosen by the names that a user gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bisect_torch.errors import UsageError
from bisect_torch.model import Series


def is_named(name: str, series: Series) -> bool:
    """Whether ``name`` is that of the instance, its case, its file (with or without the folder), or ``FILE::CASE``."""
    case, path = series.instance.partition("[")[0], Path(series.case_file)
    inside = (f"{series.case_file}::{series.instance}", f"{series.case_file}::{case}")
    return name in (series.instance, case, *inside, series.case_file, path.name)


def unknown_case(name: str, results: Path, series: Iterable[Series], device: str | None = None) -> UsageError:
    """The error for a name that no row has, with the nearest one."""
    import difflib

    names = list(dict.fromkeys(name for each in series for name in (each.instance, each.instance.partition("[")[0])))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    known = f"it has: {', '.join(names[:6])}{', …' if len(names) > 6 else ''}"
    where = f" on {device}" if device else ""
    return UsageError(f"{results} holds no case {name!r}{where}", hint=f"did you mean {near[0]}?" if near else known)


def chosen_rows(
    series: Sequence[Series], names: Sequence[str], expression: str | None, results: Path
) -> tuple[Series, ...]:
    """The series that have one of the names (any, where none is given) and fit the expression of ``-k``.

    Raises:
        UsageError: A name or the expression fits none of them.
    """
    from bisect_torch.cases import chooser

    for name in names:
        if not any(is_named(name, each) for each in series):
            raise unknown_case(name, results, series)
    named = [each for each in series if not names or any(is_named(name, each) for name in names)]
    if expression is None:
        return tuple(named)
    fits = chooser(expression)
    chosen = tuple(each for each in named if fits(Path(each.case_file).name, each.instance))
    if not chosen:
        raise UsageError(f"-k {expression!r} fits none of {len(named)} instances", hint="it looks at file::instance")
    return chosen

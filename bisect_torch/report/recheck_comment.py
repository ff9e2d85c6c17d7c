"""A comment for the upstream issue: short Markdown without anything private. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from bisect_torch.analysis.rechecking import Change, Rechecked
from bisect_torch.model import Environment, Point
from bisect_torch.report.phrases import does
from bisect_torch.report.recheck import Recheck, build_title, comes_from, summary_words
from bisect_torch.report.text import clean

_MOST_ROWS = 20
_SEEN = {
    Change.FIXED: "Each fix was seen",
    Change.NO_LONGER_BAD: "What is no longer bad checks nothing: it ran to its end",
}


def comments(found: Recheck) -> list[tuple[str | None, str]]:
    """Address of the issue (None where the cases name none) and the comment for it, one for each issue."""
    by_issue: dict[str | None, list[Rechecked]] = {}
    for row in found.news:
        if row.change is not Change.STILL_OK:
            issues = [each.issue for each in found.observations.get(row.row, ()) if each.issue]
            by_issue.setdefault(issues[0] if issues else None, []).append(row)
    return [(issue, _comment(rows, found)) for issue, rows in by_issue.items()]


def _comment(rows: Sequence[Rechecked], found: Recheck) -> str:
    commit = f" ({found.commit[:12]})" if found.commit else ""
    before = list(dict.fromkeys(row.before.build for row in rows))
    lines = [f"Checked again with **{_text(found.title)}**{commit}: {summary_words(rows)}.", ""]
    one = len(before) == 1
    lines += [
        f"| case | {_text(build_title(before[0], found.earlier)) if one else 'before'} | {_text(found.title)} |",
        "|---|---|---|",
    ]
    for row in rows[:_MOST_ROWS]:
        where = "" if one else f" ({_text(build_title(row.before.build, found.earlier))})"
        lines.append(f"| {_code(_name(row, found))} | {_verdict(row.before)}{where} | {_now(row)} |")
    if len(rows) > _MOST_ROWS:
        lines.append(f"| and {len(rows) - _MOST_ROWS} more | | |")
    lines += _origins(rows[:_MOST_ROWS], found)
    lines += ["", *_environments(before, rows, found), ""]
    return "\n".join(lines)


def _origins(rows: Sequence[Rechecked], found: Recheck) -> Iterable[str]:
    """Errors that may not be torch's, each under the table."""
    told = [(row, package) for row in rows if (package := comes_from(row, found))]
    if told:
        yield ""
    for row, package in told:
        yield f"{_code(_name(row, found))}: the error comes from {_text(package)}.  "


def _name(row: Rechecked, found: Recheck) -> str:
    files = {each.row[0] for each in found.rows}
    prefix = f"{PurePath(row.row[0]).name}: " if len(files) > 1 else ""
    device = f" on {row.row[2]}" if row.row[2] != "cpu" else ""
    return f"{prefix}{row.row[1]}{device}"


def _verdict(point: Point) -> str:
    if point.flaky:
        total = sum(point.counts.values())
        return f"flaky: ok in {point.counts.get('ok', 0)} of {total} runs"
    error = f", relative error {point.rel_error:.2g}" if point.rel_error and point.judgement.verdict.bad else ""
    words = does(point.judgement).removeprefix("is ")
    return _text(words) + error


def _now(row: Rechecked) -> str:
    if row.after is None or row.change is Change.UNJUDGED:
        return "not judged"
    return f"{_verdict(row.after)}, **{row.change.value}**"


def _environments(before: Iterable[str], rows: Sequence[Rechecked], found: Recheck) -> Iterable[str]:
    for name in before:
        environment = found.earlier.get(name)
        if environment is not None:
            yield f"Before: {_environment(environment)}.  "
    if found.environment is not None:
        yield f"Now: {_environment(found.environment)}.  "
    if found.machine:
        yield f"Machine: {_text(', '.join(found.machine))}.  "
    for change, what in _SEEN.items():
        points = [row.after for row in rows if row.change is change and row.after is not None]
        if points:
            fewest = min(point.processes for point in points)
            yield f"{what} in at least {fewest} processes, one of them an interpreter of its own."


def _environment(environment: Environment) -> str:
    commit = f" ({environment.git_commit[:12]})" if environment.git_commit else ""
    cuda = f", CUDA {environment.cuda}" if environment.cuda else ""
    return f"torch {_text(environment.torch_version)}{commit}, Python {environment.python_version}{cuda}"


def _text(text: str) -> str:
    """Neither Markdown nor HTML, and nobody is addressed by it."""
    return re.sub(r"([\\`*_{}\[\]<>|#@])", r"\\\1", clean(text))


def _code(text: str) -> str:
    """In backticks, where a vertical bar would still end a table's cell."""
    inside = clean(text).replace("`", "'").replace("|", "\\|")
    return f"`{inside}`"

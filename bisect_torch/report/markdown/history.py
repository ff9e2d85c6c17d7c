"""The matrix as a table for GitHub: versions down and cases across, or one line of ranges for each case where wide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from bisect_torch.analysis import fold
from bisect_torch.model import Point, Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown.syntax import code, prose, table
from bisect_torch.report.seen import seen
from bisect_torch.report.sentence import subject
from bisect_torch.report.text import listed

_MOST_COLUMNS = 6
_MOST_ROWS = 8
"""Builds beyond which neighbours that went alike share a row."""

_MOST_NAMES = 60
_SHORT = 30
"""Characters of what was seen that may stand in one row after another."""

_MEANINGS = {
    "ok": "ran to its end, and all that the case checks is as it expects",
    "wrong": "ran to its end without an exception from torch, but the values are not those that the case expects",
    "error": "a Python exception, or an exit status that says so",
    "crash": "ended by a signal, or without a result",
    "timeout": "no end within the time limit",
    "oom": "out of memory",
    "API absent": "this version does not have the feature",
    "flaky": "repeats in different processes differ",
    "skip": "the case says that it does not apply",
    "uninstallable": "no environment could be made",
    "broken": "something that is not torch is missing or at fault, which says nothing about torch",
    "infra": "the machine is at fault, which says nothing about torch",
    "undecidable": "the stored numbers leave it open",
    "not run": "no result for this version",
}


def history(findings: Findings, most: int) -> str:
    """Table and legend.

    Args:
        most: Lines of ranges at most.
    """
    groups = _groups(findings)
    telling = [group for group in groups if not _always_ok(group[0])]
    left = ""
    if len(groups) > _MOST_COLUMNS and telling:
        good = sum(len(group) for group in groups) - sum(len(group) for group in telling)
        are = "more instance is" if good == 1 else "more instances are"
        left = f"{good} {are} ok wherever judged." if good else ""
        groups = telling
    lines = [_ranges(groups, findings, most) if len(groups) > _MOST_COLUMNS else _versions_down(groups, findings)]
    lines += [left] if left else []
    return "\n\n".join([*lines, _legend(point for group in groups for point in group[0].answers)])


def seen_in_matrix(findings: Findings) -> bool:
    """Whether the matrix has room for what was seen on each build: all rows went alike."""
    return len(_groups(findings)) == 1


def _groups(findings: Findings) -> list[tuple[Series, ...]]:
    return [part for case in _by_case(findings.series) for part in fold(case)]


def _by_case(series: Iterable[Series]) -> list[list[Series]]:
    found: dict[tuple[str, str], list[Series]] = {}
    for each in series:
        found.setdefault((each.case_file, each.instance.partition("[")[0]), []).append(each)
    return list(found.values())


def _always_ok(series: Series) -> bool:
    """Whether it is ok wherever it was judged, and was judged somewhere."""
    judged = [point for point in series.answers if point is not None and point.judgement.verdict.judged]
    return bool(judged) and all(point.solid and point.judgement.verdict is Verdict.OK for point in judged)


def name_of(series: Sequence[Series], findings: Findings) -> str:
    """What it is about: an instance as code, several as ``12 of 16 instances of bmm``."""
    if len(series) == 1:
        device = f" on {prose(series[0].device)}" if findings.several_devices else ""
        return code(findings.name_of(series[0])) + device
    return prose(subject(series, findings))


def word_of(point: Point | None) -> str:
    """One of the words that the legend explains."""
    if point is None:
        return "not run"
    if point.flaky:
        return "flaky"
    judgement = point.judgement
    return "API absent" if judgement.api_absent and judgement.verdict.bad else judgement.verdict.value


def cell(point: Point | None) -> str:
    """What happened, in words."""
    word = word_of(point)
    if point is None:
        return word
    if point.flaky:
        bad = ", ".join(f"{prose(name)} in {number}" for name, number in point.counts.items() if name != "ok")
        return f"**{word}**: {bad} of {sum(point.counts.values())}"
    kind = "" if word == "API absent" else point.judgement.signature.partition(":")[2]
    if point.judgement.verdict.bad and word != "API absent":
        word = f"**{word}**"
    return f"{word} {code(kind)}" if kind else word


def _versions_down(groups: Sequence[Sequence[Series]], findings: Findings) -> str:
    names = findings.build_names
    rows = [[cell(point) for point in points] for points in zip(*(group[0].answers for group in groups), strict=True)]
    heads = ["torch", *(name_of(group, findings) for group in groups)]
    if len(groups) == 1:
        shown = [_seen(groups[0][0], point, findings) for point in groups[0][0].points]
        if len(names) <= _MOST_ROWS:
            same = [len(text) > _SHORT and text == before for before, text in pairwise(["", *shown])]
            shown = ["the same" if again else text for again, text in zip(same, shown, strict=True)]
        if any(shown):
            heads.append("seen")
            rows = [[*row, text] for row, text in zip(rows, shown, strict=True)]
    if len(names) <= _MOST_ROWS:
        return table(heads, [[prose(name), *row] for name, row in zip(names, rows, strict=True)])
    spans = [list(places) for _, places in groupby(range(len(names)), key=lambda place: rows[place])]
    folded = table(heads, [[_span([names[place] for place in span]), *rows[span[0]]] for span in spans])
    return f"{folded}\n\nRun on {prose(listed(list(names), most=_MOST_NAMES))}."


def _seen(series: Series, point: Point | None, findings: Findings) -> str:
    return "" if point is None or point.flaky else prose(seen([(series, point)], findings))


def _span(names: Sequence[str]) -> str:
    if len(names) < 3:
        return prose(", ".join(names))
    return f"{prose(names[0])}&nbsp;…&nbsp;{prose(names[-1])}"


def _ranges(groups: Sequence[Sequence[Series]], findings: Findings, most: int) -> str:
    order = {_row(each): place for place, cause in enumerate(findings.causes) for each in cause.series}
    ranked = sorted(groups, key=lambda group: order.get(_row(group[0]), len(order)))
    rows = [[name_of(group, findings), _in_words(group[0])] for group in ranked[:most]]
    if len(groups) > most:
        rows.append([f"and {len(groups) - most} more", ""])
    names = prose(listed(list(findings.build_names), most=_MOST_NAMES))
    return f"{table(['case', 'torch'], rows)}\n\nRun on {names}."


def _row(series: Series) -> tuple[str, str, str]:
    return series.case_file, series.instance, series.device


def _in_words(series: Series) -> str:
    """``ok 2.4.1 … 2.6.0; wrong 2.7.0 … 2.14.0``; flaky builds stand together, however often each of them was wrong."""
    told = [(name, "**flaky**" if word_of(point) == "flaky" else cell(point)) for name, point in _pairs(series)]
    spans = [(what, [name for name, _ in span]) for what, span in groupby(told, key=lambda pair: pair[1])]
    return "; ".join(
        f"{what} {prose(names[0])}{f' … {prose(names[-1])}' if len(names) > 1 else ''}" for what, names in spans
    )


def _pairs(series: Series) -> Iterable[tuple[str, Point | None]]:
    return zip(series.builds, series.answers, strict=True)


def _legend(points: Iterable[Point | None]) -> str:
    words = {word_of(point) for point in points}
    return "; ".join(f"*{word}*: {meaning}" for word, meaning in _MEANINGS.items() if word in words) + "."

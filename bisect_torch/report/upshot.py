"""One line that counts the rows of a long run by what became of them, from the sentences that are told. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bisect_torch.analysis import alike
from bisect_torch.model import Point, Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.sentence import Sentence
from bisect_torch.report.text import plural

FEW = 5
"""Rows that are seen at one look."""

RowKey = tuple[str, str, str]


def upshot(findings: Findings, found: Iterable[Sentence]) -> str:
    """``20 instances on 15 builds: 12 changed (5 broke, 7 fixed), 6 the same wherever judged (6 ok), 2 flaky; 3 cells
    not judged``. Each row counts once; empty where there are few.

    Args:
        found: What is told of them.
    """
    rows = len(findings.series)
    if rows <= FEW:
        return ""
    changed: dict[RowKey, list[Sentence]] = {}
    same: dict[RowKey, list[Sentence]] = {}
    flaky: dict[RowKey, list[Sentence]] = {}
    for each in found:
        of_kind = flaky if each.kind == "flaky" else same if each.kind == "always" else changed
        for row in each.rows:
            of_kind.setdefault(row, []).append(each)
    different = alike(findings.series)
    ok = sum(number for series, number in different if ok_throughout(series))
    nowhere = sum(number for series, number in different if not judged_points(series))
    only_flaky = len(flaky.keys() - changed.keys())
    parts = [
        _part(len(changed), "changed", _words(changed), flaky.keys() & changed.keys()),
        _part(ok + len(same), "the same wherever judged", [*([f"{ok:,} ok"] if ok else []), *_words(same)]),
        _part(only_flaky, "flaky"),
        _part(nowhere, "judged nowhere"),
        # A search that has not come to its end says of these rows what it knows.
        _part(rows - len(changed) - ok - len(same) - only_flaky - nowhere, "of which nothing is told"),
    ]
    counts = findings.counts()
    cells = sum(number for verdict, number in counts.items() if not verdict.judged)
    not_run = findings.not_run()
    beside = [f"{plural(cells, 'cell')} not judged"] if cells else []
    beside += [f"{not_run:,} not run" if cells else f"{plural(not_run, 'cell')} not run"] if not_run else []
    what = plural(rows, "row" if findings.several_devices else "instance")
    text = f"{what} on {plural(len(findings.builds), 'build')}: {', '.join(filter(None, parts))}"
    return f"{text}; {', '.join(beside)}" if beside else text


def _part(number: int, what: str, words: Sequence[str] = (), flaky: Iterable[RowKey] = ()) -> str:
    """How many rows, and in brackets what they are; empty where there are none."""
    if not number:
        return ""
    also = len(list(flaky))
    details = ", ".join(words) + (f"; {also:,} flaky on other builds" if also else "")
    return f"{number:,} {what}" + (f" ({details})" if details else "")


def _words(told: Mapping[RowKey, Sequence[Sentence]]) -> list[str]:
    """What happened to how many rows, and of how many of them that is not confirmed."""
    counts = Counter(each[0].word if len(each) == 1 else "more than once" for each in told.values())
    words = [f"{number:,} {word}" for word, number in counts.most_common()]
    unsure = sum(not all(sentence.confirmed for sentence in each) for each in told.values())
    if unsure:
        words[-1] += f"; {unsure:,} not confirmed"
    return words


def judged_points(series: Series) -> list[Point]:
    """What was judged of a row."""
    return [point for point in series.answers if point is not None and point.judgement.verdict.judged]


def ok_throughout(series: Series) -> bool:
    """Whether a row is ok wherever it was judged, and was judged somewhere."""
    judged = judged_points(series)
    return bool(judged) and all(point.solid and point.judgement.verdict is Verdict.OK for point in judged)

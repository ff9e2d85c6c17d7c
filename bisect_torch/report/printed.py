"""Where rows that are ok print something else on one build than on the one before it. A mention, never a transition."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterator, Sequence

from bisect_torch.analysis.normalise import normalise, saying
from bisect_torch.model import Point, Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.sentence import key_of
from bisect_torch.report.text import clean, listed, shorten

_MOST_ROWS = 1000
"""Of those whose output varies. A matrix of more rows than that is of cases, which are judged by what they check."""

_MOST_BUILDS = 5
_MOST_LINES = 400
_MOST_NAMES = 6
_LONGEST = 60

_VERSION = re.compile(r"\b\d+\.\d+(?:\.\d+)*(?:(?:a|b|rc|\.dev|\.post)\d+)*\+\w+(?:\.\w+)*")
"""Of torch, as it tells it itself: ``2.7.0+cu126``. The part behind the plus is no number."""

_COMPLAINS = re.compile(r"^.*\b(?:FAIL(?:ED|URE)?|MISMATCH(?:ED)?|WRONG)\b.*$|^[ \t]*[Mm]ismatch.*$", re.MULTILINE)
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n", re.MULTILINE)
_HASH = re.compile(r"\b[0-9a-f]{40}\b")
_NOT_FINITE = re.compile(r"\b(nan|inf)\b", re.IGNORECASE)

_LOGGED = re.compile(r"\[(?:Gloo|rank\d+|[DIWEF]\d{3,})\b|[DIWEF]\d{4} ")
"""How lines of torch's own logs begin."""

_UNIT = re.compile(r"(?<=#)\s*(?:[nuµm]?s|sec|seconds?|min(?:utes?)?|[kKMGT]?i?B)\b")
"""One moment takes 12 ms and the next 1.2 s."""

_Lines = tuple[tuple[str, str], ...]
"""Each line without what differs from run to run, and as it was printed."""


def printed_words(findings: Findings) -> list[str]:
    """One sentence for each pair of builds and pair of lines; numbers, versions, addresses and paths make none. And one
    for each row that prints on builds on which it is ok that it is not."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for series, before, after, old, new in _differing(findings):
        found.setdefault((before, after, old, new), []).append(clean(findings.name_of(series)))
    differing = {name for names in found.values() for name in names}
    return [
        *_complaints(findings, differing),
        *(_sentence(*key, names) for key, names in found.items()),
    ]


def _sentence(before: str, after: str, old: str, new: str, names: Sequence[str]) -> str:
    return (
        f"{listed(names, most=_MOST_NAMES)} {'is' if len(names) == 1 else 'are'} ok on {clean(before)} and "
        f"{clean(after)}, but what {'it prints' if len(names) == 1 else 'they print'} differs: {_quoted(old)}, then "
        f"{_quoted(new)}; an assert makes it a verdict, or --bad-if-output REGEX."
    )


def _complaints(findings: Findings, told: Container[str]) -> Iterator[str]:
    """Rows that are ok although they print that they are not."""
    lines: dict[tuple[str, str, str], dict[str, str]] = {}
    for each in findings.holding("stderr_tail", _TRACEBACK):
        if '"ignored in ' not in each.warnings:  # which is told elsewhere
            raised = saying(each.stderr_tail or "")[-1]
            lines.setdefault((each.case_file, each.instance, each.device), {})[each.build_name] = raised
    for each in findings.holding("stdout_tail", _COMPLAINS):
        if found := _COMPLAINS.search(each.stdout_tail or ""):
            lines.setdefault((each.case_file, each.instance, each.device), {})[each.build_name] = found[0].strip()
    for series in findings.series if lines else ():
        name = clean(findings.name_of(series))
        printed = lines.get(key_of(series), {})
        ok = [each.build for each in series.answers if each and each.solid and each.judgement.verdict is Verdict.OK]
        builds = [build for build in ok if build in printed]
        if builds and name not in told:
            where = listed([clean(build) for build in builds], most=_MOST_BUILDS)
            yield (
                f"{name} prints {_quoted(printed[builds[0]])} on {where} and is ok all the same, since it ends with 0; "
                "an assert makes it a verdict, or --bad-if-output REGEX."
            )


def _quoted(line: str) -> str:
    return f'"{shorten(clean(line), _LONGEST)}"' if line else "nothing"


def _differing(findings: Findings) -> Iterator[tuple[Series, str, str, str, str]]:
    """Series, the first two neighbouring builds that differ, and the first lines in which they do."""
    if len(findings.distinct("stdout_tail")) < 2:
        return
    varying = findings.varying(("stdout_tail",))
    rows = (
        series
        for series in findings.series
        if varying is None or (series.case_file, series.instance, series.device) in varying
    )
    for series in itertools.islice(rows, _MOST_ROWS):
        for before, after in _neighbours(series):
            lines = _first_difference(_outputs(findings, series, before), _outputs(findings, series, after))
            if lines is not None:
                yield series, before, after, *lines
                break


def _neighbours(series: Series) -> Iterator[tuple[str, str]]:
    """Builds that were judged one after the other, and are both ok."""
    before: Point | None = None
    for point in series.answers:
        if point is None or not point.judgement.verdict.judged:
            continue
        good = point.solid and point.judgement.verdict is Verdict.OK
        if good and before is not None:
            yield before.build, point.build
        before = point if good else None


def _outputs(findings: Findings, series: Series, build: str) -> set[str]:
    return {str(text or "") for (text,) in findings.facts(series, build, ("stdout_tail",))}


def _first_difference(old: set[str], new: set[str]) -> tuple[str, str] | None:
    """None where some run on one build printed what some run on the other did."""
    if old & new:
        return None
    before, after = ([_lines(text) for text in sorted(texts)] for texts in (old, new))
    if not before or not after or _plain(before) & _plain(after):
        return None
    for one, other in itertools.zip_longest(before[0], after[0], fillvalue=("", "")):
        if one[0] != other[0]:
            return one[1], other[1]
    return None


def _plain(texts: Sequence[_Lines]) -> set[tuple[str, ...]]:
    return {tuple(plain for plain, _ in lines) for lines in texts}


def _lines(text: str) -> _Lines:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _LOGGED.match(line)]
    return tuple((_without_numbers(line), line) for line in lines[:_MOST_LINES])


def _without_numbers(line: str) -> str:
    """A number that is none says something: it is kept, unlike all others."""
    line = _NOT_FINITE.sub(r"not_finite_\1", _HASH.sub("#", _VERSION.sub("#", line)))
    return _UNIT.sub("", normalise(line))

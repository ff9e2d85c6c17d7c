"""What was seen in a cell, in one line: numbers for wrong values, the message for an exception."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

from bisect_torch.analysis import Tolerances
from bisect_torch.analysis.normalise import saying
from bisect_torch.model import Observation, Outcome, Point, Series, Verdict
from bisect_torch.report.files import COMMANDS
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import clean, seconds_words, shorten

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
"""torch colours some of its messages."""

_FRAME = re.compile(r"^  File .*, line \d+.*$", re.MULTILINE)
_MARKERS = re.compile(r"\s*[~^]+[~^\s]*")
"""A line of a traceback that points at a part of the line above it."""

_AT_ADDRESS = re.compile(r"(?: object)? at 0x[0-9a-fA-F]+\b")

_MODELS = 6
_LINE = 120
_MOST = 240
"""Characters of a message; the whole one is in the results."""


def seen(ends: Sequence[tuple[Series, Point]], findings: Findings) -> str:
    """What the first of these cells showed, with the largest error of all of them. Empty for ``ok``.

    Args:
        ends: The same end of the same transition in one or more series.
    """
    series, point = ends[0]
    judgement = point.judgement
    if not judgement.verdict.bad:
        return ""
    observations = findings.observed(series, point.build)
    words = []
    if judgement.verdict is Verdict.WRONG:
        errors = [each.rel_error for _, each in ends if each.rel_error is not None]
        words = [*_wrong(observations, errors, findings.tolerances), *_beginning(observations)]
    words += _failed(observations)
    if "exit" in judgement.signature and not words:
        words += _last_printed(observations)
    if judgement.signature.startswith("crash:exit "):
        words.append("the process ended without a word before the case had come to its end, as by os._exit")
    return "; ".join(words) or shorten(clean(judgement.detail), _MOST)


def _last_printed(observations: Iterable[Observation]) -> Iterable[str]:
    """Of one that ends with a status alone: its last line."""
    for each in observations:
        lines = [line.strip() for text in (each.stdout_tail, each.stderr_tail) for line in (text or "").splitlines()]
        if any(lines):
            last = [line for line in lines if line][-1]
            yield f'its last line was "{shorten(clean(last), _LINE)}"'
            return


def _wrong(
    observations: Iterable[Observation], errors: Sequence[float], tolerances: Tolerances | None
) -> Iterable[str]:
    returned = [each for each in observations if each.outcome == Outcome.RETURNED.value]
    worst = max(returned, key=lambda each: each.wrong_elements or 0, default=None)
    # The error counts finite elements only: it says nothing about a NaN or an infinity where a number should be.
    if errors and not (worst and (worst.nan_mismatches or worst.inf_mismatches)):
        yield f"relative error {max(errors):.2g}"
    if worst is None:
        return
    if worst.mismatch:
        yield shorten(clean(worst.mismatch), _MOST)
    now = tolerances if worst.error_bins is not None else None  # under these nobody has counted
    if worst.wrong_elements and worst.elements:
        when = "" if now is None else " when it ran"
        yield f"{worst.wrong_elements:,} of {worst.elements:,} elements wrong{when}{_criterion(worst)}"
    if now is not None:
        yield f"now judged element by element: rtol {now.rtol:g}, atol {now.atol:g}"
    if worst.first_wrong_index and worst.actual_value and worst.expected_value:
        where = clean(worst.first_wrong_index)
        yield f"first at {where}: {clean(worst.actual_value)} instead of {clean(worst.expected_value)}"
    if worst.explained_by:
        yield f"exactly what this would give: {clean(worst.explained_by)}"


def _criterion(of: Observation) -> str:
    """What the elements were counted by: a small one may be beyond it while the relative error of the whole is tiny."""
    if of.criterion != "elementwise" or of.rtol is None or of.atol is None:
        return ""
    return f" (elementwise: rtol {of.rtol:g}, atol {of.atol:g})"


def _beginning(observations: Iterable[Observation]) -> Iterable[str]:
    """Where the wrongness starts, as the case measured it: a sampled comparison shows only where it was first met."""
    for each in observations:
        measured = each.measured
        known = {"batch": measured.get("first_wrong_batch"), "flat index": measured.get("first_wrong_flat_index")}
        places = [f"{what} {number:,}" for what, number in known.items() if isinstance(number, int)]
        if places:
            yield f"wrong from {', '.join(places)} on"
            return


def explanations(ends: Sequence[tuple[Series, Point]], findings: Findings) -> str:
    """Which fault models explain how many of several wrong cells. Empty for one cell, and where no model explains any.

    Args:
        ends: As for :func:`seen`.
    """
    counts: Counter[str | None] = Counter()
    for series, point in ends:
        if point.judgement.verdict is Verdict.WRONG:
            found = (each.explained_by for each in findings.observed(series, point.build))
            counts[next((each for each in found if each), None)] += 1
    if len(ends) < 2 or not any(counts):
        return ""
    words = [f"{clean(model)} in {number:,}" for model, number in counts.most_common() if model is not None]
    return "; ".join([*words[:_MODELS], *_left_over(words, counts[None])])


def uses(ends: Sequence[tuple[Series, Point]], findings: Findings) -> str:
    """``uses torch.float4, which``: what is to be told as absent, or as gone, is a name of torch and no row.

    Args:
        ends: Cells that lack the name, as for :func:`seen`; it is told where it is the same in all of them.
    """
    verb = "uses" if len({(of.case_file, of.instance, of.device) for of, _ in ends}) == 1 else "use"
    name = absent_words(each.absent_name for series, point in ends for each in findings.observed(series, point.build))
    return f"{verb} {name}, which" if name else f"{verb} a name of torch that"


def absent_words(names: Iterable[str | None]) -> str:
    """``torch.float4``, ``the keyword dtype``: what torch does not have; empty where it is not one and the same."""
    different = set(names)
    told = clean(different.pop() or "") if len(different) == 1 else ""
    return f"the keyword {told[:-1]}" if told.endswith("=") else told


def _left_over(words: Sequence[str], unexplained: int) -> Iterable[str]:
    if len(words) > _MODELS:
        yield f"{len(words) - _MODELS} more models"
    if unexplained:
        yield f"no model in {unexplained:,}"


def _gist(message: str, *, assertion: bool) -> str:
    """What a message says, in at most :data:`_MOST` columns.

    Mostly that is its first line. Where this only introduces the next ("Failed running …:", of torch.compile), that one
    says it. An assertion's numbers stand below its first line ("Tensor-likes are not close!").
    """
    plain = _AT_ADDRESS.sub("", _COLOUR.sub("", message))  # an address says nothing
    if assertion:
        plain = plain.replace("\\n", "\n")  # so pytest writes the lines of a text that it compares
        return shorten(" ".join(clean(line.strip()) for line in plain.splitlines() if line.strip()), _MOST)
    first, *more = [clean(line) for line in saying(plain)] or [""]
    return shorten(" ".join([shorten(first, _MOST // 2), *more]) if more else first, _MOST)


def _raising_line(traceback: str) -> str:
    """The source that raised, in one line: of an ``assert`` without a message it is all there is to tell.

    Args:
        traceback: As it is stored. Up to Python 3.12 it has the first line of a statement alone: " …" then says that
            it goes on. Empty where it has no source.
    """
    frames = list(_FRAME.finditer(traceback))
    if not frames:
        return ""
    lines = []
    for line in traceback[frames[-1].end() + 1 :].splitlines():
        if not line.startswith("    "):
            break
        if not _MARKERS.fullmatch(line):
            lines.append(line.strip())
    text = " ".join(lines)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a user wrote
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return f"{text} …"
    return text if len(lines) == 1 else ast.unparse(tree)


def _failed(observations: Iterable[Observation]) -> Iterable[str]:
    """The message of the first that failed; where a crash or a timeout came, which phase or limit."""
    for each in observations:
        message = each.root_message or each.message
        if message:
            yield _gist(message, assertion=(each.root_type or each.error_type) in ("AssertionError", "Failed"))
            return
        if each.error_type == "AssertionError" and (line := _raising_line(each.traceback or "")):
            yield shorten(clean(line), _MOST)
            return
        if each.outcome == Outcome.TIMED_OUT.value and each.timeout_s:
            loading = ", loading torch included" if each.case_file == COMMANDS else ""
            yield f"no end within {seconds_words(each.timeout_s)}{loading}"
            return
        if each.outcome in (Outcome.SIGNALLED.value, Outcome.RETURNED.value) and each.signal and each.phase == "exit":
            yield "at the exit of the process, after the case had come to its end"
            return

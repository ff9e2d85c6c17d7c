"""The text at the end of a run: matrix, sentences, counts, what could not be judged, what to do next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from bisect_torch.analysis import alike
from bisect_torch.model import BuildKind, Series, Verdict
from bisect_torch.report.beside import unlike_words
from bisect_torch.report.doubts import variable_words
from bisect_torch.report.drift import drift_words, drifts
from bisect_torch.report.findings import Findings
from bisect_torch.report.handoff import same_commit_words
from bisect_torch.report.marks import marks_of
from bisect_torch.report.matrix import Row, draw, draw_unfolded
from bisect_torch.report.remarks import remarks
from bisect_torch.report.retyped import shell_line, typed
from bisect_torch.report.sentence import Sentence
from bisect_torch.report.sentences import sentences
from bisect_torch.report.text import Line, clean, listed, plural, seconds_words, width_of, wrap
from bisect_torch.report.unchecked import unchecked_words
from bisect_torch.report.unjudged import unjudged
from bisect_torch.report.upshot import judged_points, ok_throughout, upshot

if TYPE_CHECKING:
    from bisect_torch.analysis import Tolerances

_STYLES = {
    "broke": "bold red",
    "became silent": "bold red",
    "changed": "yellow",
    "disappeared": "yellow",
    "flaky": "magenta",
    "always": "red",
    "fixed": "green",
    "appeared": "green",
}
_LABEL = 18
_MOST_LEFT_OUT = 6
_NO_WORD = re.compile(r"[\s()]|^(?:and|or|not)$")


def rows_of(findings: Findings) -> list[Row]:
    """The rows of the static matrix, in the order of the series."""
    several = len({each.device for each in findings.series}) > 1
    marks = {id(each.answers): marks_of(each) for each, _ in alike(findings.series)}
    return [
        Row(
            each.case_file,
            each.instance,
            each.device if several else "",
            marks[id(each.answers)],
            findings.name_of(each),
        )
        for each in findings.series
    ]


def summary(findings: Findings, width: int, *, unfolded: bool = False) -> list[Line]:
    """The whole text, in lines of at most ``width`` columns (addresses and the names of rows may be longer).

    Args:
        unfolded: A line of the matrix for each row.
    """
    if findings.interrupted and not any(point for each in findings.series for point in each.points):
        return _interrupted("interrupted before anything was judged", findings)
    found = sentences(findings)
    lines: list[Line] = []
    if findings.series and unfolded:
        lines += [*draw_unfolded(rows_of(findings), findings.build_names, width), ()]
    elif findings.series:
        how = f"bisect-torch judge {_path(findings)} --unfold" if findings.results is not None else ""
        lines += [*draw(rows_of(findings), findings.build_names, width, unfolded=how), ()]
    for sentence in _once(found, findings):
        lines += [*_sentence(sentence, width), ()]
    # What few runs have is loaded for these alone.
    if findings.twins:
        lines += _dependencies(findings, width)
    if findings.recorded("predicted_verdict"):
        lines += _predictions(findings, width)
    if findings.recorded("outputs"):
        lines += _decoding(findings, width)
    lines += _notes(findings, found, width)
    lines += _upshot(findings, found, width)
    lines += _counts(findings, width)
    lines += _where(findings, width)
    return lines


def _once(found: Iterable[Sentence], findings: Findings) -> Iterator[Sentence]:
    """What else differs between two builds is told at their first change, and pointed to at the further ones."""
    told: dict[tuple[str, str, str], Sentence] = {}
    for each in found:
        words = dict(each.evidence).get("also differ", "")
        first = told.setdefault((each.before, each.after, words), each)
        device = f" on {clean(first.rows[0][2])}" if findings.several_devices else ""
        where = f"{clean(findings.name_of_row(first.rows[0]))}{device}"
        again = f"as at {where} above ({clean(each.before)} → {clean(each.after)})"
        if first is each or len(words) <= len(again):
            yield each
            continue
        evidence = [(label, again if label == "also differ" else text) for label, text in each.evidence]
        yield replace(each, evidence=tuple(pair for pair in evidence if pair[0] != "compare"))


def _sentence(sentence: Sentence, width: int) -> Iterable[Line]:
    style = _STYLES.get(sentence.kind, "")
    for text in wrap(sentence.text.split(" "), width, indent="  "):
        yield ((text, style),)
    for label, text in sentence.evidence:
        if text in (sentence.compare, sentence.bisect):  # whole on its line, to be opened or copied
            yield (("  " + text if width_of(text) + 2 <= width else text, ""),)
            continue
        head, *rest = wrap(text.split(" "), max(20, width - _LABEL - 2))
        yield (("  " + label.ljust(_LABEL), "dim"), (head, ""))
        for line in rest:
            yield ((" " * (_LABEL + 2) + line, ""),)


def _dependencies(findings: Findings, width: int) -> Iterable[Line]:
    from bisect_torch.report.dependencies import dependency_drifts, dependency_words

    found = dependency_drifts(findings)
    words = dependency_words(findings, found)
    for place, text in enumerate(words):
        style = "yellow" if place < len(found) else ""
        yield from (((line, style),) for line in wrap(text.split(" "), width, indent="  "))
    if words:
        yield ()


def _predictions(findings: Findings, width: int) -> Iterable[Line]:
    from bisect_torch.report.predictions import prediction_words, predictions

    head, *differing = prediction_words(predictions(findings), findings) or [""]
    if not head:
        return
    yield from (((line, "yellow" if differing else "green"),) for line in wrap(head.split(" "), width, indent="  "))
    for text in differing:
        yield from ((("  " + line, ""),) for line in wrap(text.split(" "), width - 2, indent="  "))
    yield ()


def _decoding(findings: Findings, width: int) -> Iterable[Line]:
    from bisect_torch.report.decoding import decoding, decoding_lines

    found = decoding(findings)
    return () if found is None else decoding_lines(found, width)


def note_words(findings: Findings, found: Sequence[Sentence]) -> list[str]:
    """What is to be said beside the sentences, a line each: what was ok throughout, what of it checked nothing, what
    no verdict tells; how builds differ besides torch; drift of bits; files beside a case file that were not the same;
    what could not be judged; what else the results file holds; notes of the run."""
    texts = [*_good(findings, found), *unchecked_words(findings), *remarks(findings), *_environments(findings)]
    texts += same_commit_words(findings)
    texts += drift_words(drifts(findings))
    texts += unlike_words(findings)
    texts += variable_words(findings)
    texts += map(str, unjudged(findings))
    if findings.earlier:
        from bisect_torch.report.earlier_texts import earlier_words

        texts += earlier_words(findings.earlier)
    return texts + [clean(note) for note in (*findings.unread, *findings.notes)]


def _notes(findings: Findings, found: Sequence[Sentence], width: int) -> Iterable[Line]:
    texts = [*_timeouts(findings), *note_words(findings, found)]
    for text in texts:
        yield from (((line, ""),) for line in wrap(text.split(" "), width, indent="  "))
    if texts:
        yield ()


def _good(findings: Findings, found: Sequence[Sentence]) -> Iterable[str]:
    """How many rows were ok wherever they were judged, so that silence about them is no doubt."""
    different = alike(findings.series)
    good = sum(number for series, number in different if ok_throughout(series))
    if good:
        what = "instance is" if good == 1 else "instances are"
        yield f"{good:,} {what} ok in every build that was judged."
    compared = any(len(judged_points(series)) > 1 for series, _ in different)
    changed = any(sentence.kind != "always" for sentence in found) or any(_differs(series) for series, _ in different)
    if compared and not changed and not findings.interrupted:
        yield "No verdict changed between these builds."


def _differs(series: Series) -> bool:
    """Whether judged builds gave different answers, be they the ends of a transition or not."""
    return len({point.judgement.signature for point in judged_points(series)}) > 1


def _timeouts(findings: Findings) -> Iterable[str]:
    """Of a hang a machine can only say that there was no end yet."""
    number = findings.counts()[Verdict.TIMEOUT]
    if number:
        it, hang = ("it hangs", "is") if number == 1 else ("they hang", "are")
        yield (
            f"{plural(number, 'cell')} had no end within the time limit. Whether {it} or {hang} only slow here, "
            "a longer one tells: --timeout, or timeout= of a case."
        )


def _environments(findings: Findings) -> Iterable[str]:
    """What a local interpreter holds; Python and CUDA where they are not the same in all builds."""
    for build in findings.builds:
        local = findings.environments.get(build.name)
        if build.kind is BuildKind.LOCAL and local is not None:
            yield f"{clean(build.name)} has torch {clean(local.torch_version)}."
    for what, attribute in (("Python", "python_version"), ("CUDA", "cuda")):
        spans: dict[str, list[str]] = {}
        for name in findings.build_names:
            environment = findings.environments.get(name)
            if environment is not None:
                spans.setdefault(str(getattr(environment, attribute) or "none"), []).append(clean(name))
        if len(spans) > 1:
            words = [f"{clean(value)} in {names[0]}{_to(names)}" for value, names in spans.items()]
            yield f"{what} is not the same in all builds: {listed(words, most=8)}."


def _to(names: Sequence[str]) -> str:
    if len(names) == 1:
        return ""
    return f" and {names[1]}" if len(names) == 2 else f" … {names[-1]}"


def count_words(findings: Findings) -> list[str]:
    """``27 ok``, ``2 wrong``, …, ``of these 3 flaky``, ``1 not run``."""
    not_run = findings.not_run()
    return [*_ran_words(findings), *([f"{not_run:,} not run"] if not_run else [])]


def _ran_words(findings: Findings) -> list[str]:
    counts = findings.counts()
    words = [f"{counts[verdict]:,} {verdict.value}" for verdict in Verdict if counts[verdict]]
    return [*words, *([f"of these {findings.flaky():,} flaky"] if findings.flaky() else [])]


def _took(findings: Findings, cells: int) -> str:
    """How long it took; where cells were known from before, how many, and how many ran in that time."""
    if findings.seconds is None:
        return ""
    took = f"in {seconds_words(findings.seconds)}"
    known = 0 if findings.ran is None else cells - findings.ran
    if not known:
        return f" {took}"
    ran = f", {findings.ran:,} run {took}" if findings.ran else ""
    return f", {'all' if known == cells else f'{known:,}'} known from before{ran}"


def _upshot(findings: Findings, found: Sequence[Sentence], width: int) -> Iterable[Line]:
    text = upshot(findings, found)
    return [((line, "bold"),) for line in wrap(text.split(" "), width, indent="  ")] if text else []


def _counts(findings: Findings, width: int) -> Iterable[Line]:
    not_run = findings.not_run()
    cells = sum(len(each.builds) for each in findings.series) - not_run
    beside = f"; {not_run:,} not run" if not_run else ""
    text = f"{plural(cells, 'cell')}{_took(findings, cells)}: {', '.join(_ran_words(findings)) or 'none'}{beside}"
    return [((line, "bold"),) for line in wrap(text.split(" "), width, indent="  ")]


def _measured(findings: Findings) -> bool:
    """Whether something is wrong by a number that other tolerances could judge otherwise."""
    wrong = {
        id(each.answers): [
            place
            for place, point in enumerate(each.answers)
            if point is not None and point.judgement.verdict is Verdict.WRONG
        ]
        for each, _ in alike(findings.series)
    }
    points = (each.points[place] for each in findings.series for place in wrong[id(each.answers)])
    return any(point is not None and point.rel_error is not None for point in points)


def _interrupted(text: str, findings: Findings) -> list[Line]:
    lines: list[Line] = [((text, "bold"),)]
    if findings.continue_with:
        lines.append((("continue with: ", "bold"), (clean(findings.continue_with), "")))
    return lines


def _where(findings: Findings, width: int) -> Iterable[Line]:
    if findings.results is not None:
        path = clean(typed(str(findings.results)))
        readers = "  (pandas, polars and DuckDB open it)"
        fits = len(f"results: {path}{readers}") <= width
        yield (("results: ", ""), (path, ""), *([(readers, "dim")] if fits else []))
    if findings.interrupted:
        yield from _interrupted("interrupted: what had finished is kept", findings)
        return
    if findings.continue_with:
        text = "the same command runs only what is new; --fresh runs all again"
        yield from (((line, "dim"),) for line in wrap(text.split(" "), width, indent="  "))
    if findings.results is not None and findings.tolerances is not None:
        yield from _what_is_open(findings, findings.tolerances, width)
    if findings.results is not None and findings.tolerances is None and _measured(findings):
        again = f"bisect-torch judge {_path(findings)} --rtol 1e-3 --atol 1e-5"
        yield from _command("other tolerances, no re-run:", again, width)
    if findings.results is not None and (without := _without_rows_at_fault(findings)):
        leaving_out = f"bisect-torch merge {_path(findings)} -k {shlex.quote(without)} -o other.parquet"
        yield from _command("the results without what was never judged, in a new file:", leaving_out, width)


def _command(what: str, words: str, width: int) -> Iterable[Line]:
    """What it is for, and a command that stands whole on a line, to be copied."""
    return [((line, "dim"),) for line in wrap([what, words], width, indent="  ")]


def _what_is_open(findings: Findings, tolerances: Tolerances, width: int) -> Iterable[Line]:
    """How what is undecidable is run again."""
    from bisect_torch.report.rejudged import undecidable_again

    line = undecidable_again(findings)
    if line is not None:
        given = f"rtol={tolerances.rtol:g}, atol={tolerances.atol:g}"
        yield from _command(f"once check() has {given} there:", f"{line} -o {_path(findings)}", width)


def _without_rows_at_fault(findings: Findings) -> str | None:
    """The expression of ``-k`` that leaves out the rows that were broken or infra, and never judged: they may be ones
    that should not be there. None where there are none, or nothing else, and where they cannot be told by few names."""
    fault = (Verdict.BROKEN, Verdict.INFRA)
    bad = {
        id(series.answers)
        for series, _ in alike(findings.series)
        if any(point is not None and point.judgement.verdict in fault for point in series.answers)
        and not judged_points(series)
    }
    at_fault = [each for each in findings.series if id(each.answers) in bad]
    rest = [each for each in findings.series if id(each.answers) not in bad]
    if not at_fault or not rest:
        return None
    from bisect_torch.cases import chooser  # what few runs need

    names = list(dict.fromkeys(each.instance.partition("[")[0] for each in at_fault))
    if len(names) > _MOST_LEFT_OUT or any(map(_NO_WORD.search, names)):
        return None
    expression = f"not {names[0]}" if len(names) == 1 else f"not ({' or '.join(names)})"
    fits = chooser(expression)
    # A word of -k fits within longer names, too.
    exact = all(fits(PurePath(each.case_file).name, each.instance) for each in rest)
    return expression if exact else None


def _path(findings: Findings) -> str:
    """The results file as a word of a command line."""
    return shell_line([typed(str(findings.results))])

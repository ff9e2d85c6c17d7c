"""All that a report has on one finding."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

from bisect_torch.analysis.causes import Cause
from bisect_torch.redaction.patterns import CWD
from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown.code import code_that_ran, script_name
from bisect_torch.report.markdown.ends import End, ends_of, shown
from bisect_torch.report.markdown.evidence import boundary, output_of, points, values
from bisect_torch.report.markdown.reproduce import further, run_again
from bisect_torch.report.markdown.shortening import Cuts, Detail, shortened
from bisect_torch.report.markdown.syntax import code, details, fence, html_code, prose
from bisect_torch.report.markdown.versions import collected
from bisect_torch.report.text import listed, plural
from bisect_torch.report.throughout import always_sentence, flaky_sentence

_MOST_ALIKE = 5


def described(cause: Cause, findings: Findings, detail: Detail, cuts: Cuts, *, seen_above: bool) -> str:
    """Everything below the sentence that goes into "Describe the bug".

    Args:
        seen_above: What was seen on each build stands in the matrix already.
    """
    ends = ends_of(cause, findings)
    end = shown(ends)
    numbers = values(end.seen) if end is not None else []
    told = set(findings.build_names) if seen_above else {end.build} if end is not None and numbers else set()
    parts = [*_changes(cause, findings, detail, told), *_alike(cause, findings)]
    if end is not None and numbers:
        which = f" ({code(findings.name_of(end.series))})" if len(cause.series) > 1 else ""
        parts.append(f"**Expected and got, on {prose(end.build)}**{which}\n\n{_list(numbers)}")
    if ends:
        if ends[-1].seen.issue:
            parts.append(f"The case names this issue: {code(ends[-1].seen.issue)}.")
        parts += code_that_ran(cause, ends, findings, detail, cuts)
        parts += run_again(cause, ends, findings, script_name(ends, findings) if detail.code_lines else None)
        parts += _output(ends, detail, cuts)
        parts.append(details(*further(ends, cause.main_change, findings)))
    return "\n\n".join(parts)


def environments(cause: Cause, findings: Findings, detail: Detail, cuts: Cuts) -> list[tuple[str, str]]:
    """Build and text of each environment that goes into "Versions", with the newer end first."""
    ends = ends_of(cause, findings)
    if not detail.older_environment and len(ends) > 1:
        ends = ends[-1:]
        cuts.note("the environments of the older ends (what differs is listed)")
    return [
        (
            end.build,
            details(
                f"{html_code(f'torch {end.build}')} ({end.words})", fence(collected(findings, end.build, end.seen))
            ),
        )
        for end in reversed(ends)
    ]


def _changes(cause: Cause, findings: Findings, detail: Detail, told: Container[str]) -> Iterator[str]:
    if len(cause.series) > 1:
        names = [findings.name_of(each) for each in cause.series]
        more = f" and {len(names) - detail.rows} more" if len(names) > detail.rows else ""
        likely = (
            ""
            if len({(each.case_file, each.instance.partition("[")[0]) for each in cause.series}) == 1
            else (". Likely one cause: the same on every build, with the same message and frame or fault model")
        )
        yield f"{len(names)} instances: {', '.join(map(code, names[: detail.rows]))}{more}{likely}."
    if cause.changes:
        yield "**Where it changed**"
    for change in cause.changes:
        aside = change is not cause.main_change and any(
            end.judgement.api_absent for end in (change[0].before, change[0].after)
        )  # that a feature came before it had its fault is no part of that
        facts = [boundary(change, findings)] if aside else points(change, findings, told=told)
        yield _list(facts, indent=len(cause.changes) > 1)
    if not cause.changes and not cause.flaky:
        fewest = min(point.processes for point in cause.judged)
        yield f"The same in at least {plural(fewest, 'process', 'processes')} on each build."
        always = always_sentence(cause.series, findings)
        if always is not None and (package := dict(always.evidence).get("error comes from")):
            yield f"The error comes from {prose(package)}."
    flaky = flaky_sentence(cause.series, findings) if cause.changes else None
    if flaky is not None:
        yield prose(flaky.text)


def _alike(cause: Cause, findings: Findings) -> Iterator[str]:
    if cause.same_history and cause.changes:
        names = [code(findings.name_of(each)) for each in cause.same_history[:_MOST_ALIKE]]
        names += [f"{len(cause.same_history) - len(names)} more"] if len(cause.same_history) > len(names) else []
        yield f"The same verdicts on every build, which need not be the same cause: {listed(names, most=len(names))}."


def _output(ends: Sequence[End], detail: Detail, cuts: Cuts) -> Iterator[str]:
    for end in ends:
        what, text = output_of(end.seen, end.point.judgement.verdict)
        if text and end.point.judgement.verdict.bad:
            where = f"{prose(end.build)} ({end.words})"
            yield f"**{what}** on {where}\n\n{fence(_output_text(text, detail, cuts), 'pytb')}"
    for end in ends:
        printed = (end.seen.stdout_tail or "").strip()
        if printed:
            block = fence(_output_text(printed, detail, cuts), "text")
            yield f"**Printed** on {prose(end.build)} ({end.words})\n\n{block}"


_TOOLS_OWN = re.compile(
    r"^ *File \"[^\"]*\bstaged(?:/\w+|>)/bisect_torch/worker/.*\n?|^Extension modules: .*\(total: \d+\)\n?",
    re.MULTILINE,
)
"""Frames of the worker in what faulthandler writes, and its list of modules, which tells nothing of the fault."""


def _output_text(text: str, detail: Detail, cuts: Cuts) -> str:
    own = _TOOLS_OWN.sub("", text).rstrip("\n").replace(f'File "{CWD}/', 'File "')
    kept, cut = shortened(own, detail.output_lines)
    if cut:
        cuts.note(f"the middle of tracebacks and output longer than {detail.output_lines} lines")
    return kept


def _list(items: Sequence[str], *, indent: bool = False) -> str:
    """A list; with ``indent`` all but the first item belong to the first."""
    return "\n".join(f"{'  ' if indent and place else ''}- {item}" for place, item in enumerate(items))

"""From findings to the text of the page. Pure: what it reads are the files of this package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from bisect_torch.report.decoding import decoding, decoding_lines
from bisect_torch.report.dependencies import dependency_drifts, dependency_words
from bisect_torch.report.findings import Findings
from bisect_torch.report.heads import heads
from bisect_torch.report.html import embedded
from bisect_torch.report.html.document import details, matrix
from bisect_torch.report.marks import DETAIL, FLAKY, OTHER_KIND
from bisect_torch.report.predictions import prediction_words, predictions
from bisect_torch.report.sentence import NO_LONGER_BAD, Sentence
from bisect_torch.report.sentences import sentences
from bisect_torch.report.summary import count_words, note_words
from bisect_torch.report.text import clean, plain, plural
from bisect_torch.report.title import about, title
from bisect_torch.shipped import tool_version

if TYPE_CHECKING:
    import jinja2

FIRST_SENTENCES = 8
"""Sentences that are seen at first."""

MOST_SENTENCES = 400
"""Sentences that are written out; of more, a line says how many there are."""

_TABLE_WIDTH = 100


def html(findings: Findings) -> str:
    """One self-contained HTML document: nothing is loaded, and no script of the results can run.

    Args:
        findings: With observations, for all but their details; what a case printed, names and messages may hold
            anything.

    Returns:
        Text that any UTF-8 encoder takes.
    """
    found = sentences(findings)
    shown = found[:MOST_SENTENCES]
    page = _environment().get_template("page.html.jinja")
    return page.render(
        title=clean(title(findings)),
        about=clean(about(findings)),
        facts=_facts(findings),
        counts=count_words(findings),
        findings=[_finding(each) for each in shown],
        first=FIRST_SENTENCES if len(shown) > FIRST_SENTENCES + 2 else len(shown),
        left_out=len(found) - len(shown),
        notes=[*_comparisons(findings), *note_words(findings, found)],
        decoding=_decoding(findings),
        keys=heads(findings.build_names, _TABLE_WIDTH).key,
        small=[*(dict((FLAKY, OTHER_KIND, DETAIL)).items()), ("≠", "ok, but other bits than before")],
        tool=tool_version(),
        uplot=embedded.UPLOT,
        policy=embedded.policy(),
        style=embedded.style(),
        plot_script=embedded.plot_script(),
        script=embedded.own_script(),
        licence=embedded.text_of("vendor", "uplot", "LICENSE"),
        matrix=embedded.as_json(matrix(findings, found, len(shown))),
        details=embedded.as_json(details(findings)),
    )


@cache
def _environment() -> jinja2.Environment:
    """Everything is escaped but what the template itself marks as safe: the package's own files and the JSON."""
    import jinja2

    loader = jinja2.FunctionLoader(lambda name: embedded.text_of("assets", name))
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def _facts(findings: Findings) -> list[str]:
    """What was run, in few words."""
    names = [clean(name) for name in findings.build_names]
    span = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}" if names else ""
    facts = [f"{plural(len(findings.series), 'row')}, {plural(len(names), 'build')}" + (f" ({span})" if span else "")]
    devices = dict.fromkeys(clean(each.device) for each in findings.series)
    machines = dict.fromkeys(clean(str(name)) for name in findings.distinct("machine") if name)
    days = sorted({clean(str(run.get("started_at")))[:10] for run in findings.runs if run.get("started_at")})
    facts += [", ".join(devices)] if devices else []
    facts += [", ".join(machines)] if machines else []
    facts += [days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"] if days else []
    return [*facts, *(["interrupted"] if findings.interrupted else [])]


def _finding(sentence: Sentence) -> dict[str, object]:
    """What the template writes; of an address, only one that leads to a public web site."""
    linked = sentence.compare is not None and sentence.compare.startswith("https://")
    return {
        "kind": NO_LONGER_BAD if sentence.word == NO_LONGER_BAD else sentence.kind,
        "text": sentence.text,
        "evidence": [pair for pair in sentence.evidence if pair[1] != sentence.compare],
        "attributed": dict(sentence.evidence).get("attributed to"),
        "compare": sentence.compare if linked else None,
    }


def _comparisons(findings: Findings) -> Iterable[str]:
    yield from dependency_words(findings, dependency_drifts(findings))
    yield from (text for text in prediction_words(predictions(findings), findings) if text)


def _decoding(findings: Findings) -> Sequence[str]:
    found = decoding(findings)
    return [] if found is None else plain(decoding_lines(found, _TABLE_WIDTH)).rstrip().splitlines()

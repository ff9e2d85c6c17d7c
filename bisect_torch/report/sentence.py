"""One finding as it is told: what all kinds of sentences share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bisect_torch.analysis.transitions import CONFIRMING_PROCESSES, ran_enough
from bisect_torch.model import Point, Series
from bisect_torch.report.findings import Findings
from bisect_torch.report.parameters import in_common
from bisect_torch.report.text import clean, listed

NO_LONGER_BAD = "no longer bad"
"""The word for what went from bad to ok and is not known to be fixed."""


@dataclass(frozen=True)
class Sentence:
    """One finding.

    Args:
        kind: Value of :class:`TransitionKind`, or ``flaky``, or ``always`` (the same bad verdict in every build).
        text: The sentence.
        evidence: Label and text of each line below it.
        instances: Names of what it is about.
        rows: Case file, instance and device of each.
        before: Build at the older end; for ``flaky`` and ``always``, the first build.
        after: Build at the newer end; for ``flaky`` and ``always``, the last build.
        compare: Address of the list of commits between the ends, where both are known to be public.
        bisect: The command that begins a bisection of the source between them, where one end is no release.
        word: What happened, in a word or two that claim no more than ``text``; empty for ``flaky``.
        confirmed: What ``text`` says is not told as not confirmed.
    """

    kind: str
    text: str
    evidence: tuple[tuple[str, str], ...]
    instances: tuple[str, ...]
    rows: tuple[tuple[str, str, str], ...]
    before: str
    after: str
    compare: str | None = None
    bisect: str | None = None
    word: str = ""
    confirmed: bool = True


def subject(series: Sequence[Series], findings: Findings) -> str:
    """``bmm_view``, or ``12 instances of bmm`` (all of them: ``all 12 instances of bmm``, ``both instances``)."""
    several = findings.several_devices
    if len({case_of(each) for each in series}) > 1:
        words = (f" on {clean(each.device)}" if several else "" for each in series)
        return listed([clean(findings.name_of(each)) + word for each, word in zip(series, words, strict=True)])
    device = f" on {clean(series[0].device)}" if several else ""
    if len(series) == 1:
        return clean(findings.name_of(series[0])) + device
    every = findings.instances_of.get(case_of(series[0]), ())
    if len(every) == len(series):
        amount = "both" if len(series) == 2 else f"all {len(series)}"
    else:
        amount = f"{len(series)} of {len(every)}"
    common = in_common({each.instance for each in series}, every) if len(every) > len(series) else ()
    which = f" ({clean(', '.join(f'{name}={value}' for name, value in common))})" if common else ""
    return f"{amount} instances of {clean(findings.case_of(series[0]))}{which}{device}"


def plural_verb(phrase: str, number: int) -> str:
    """``give`` for ``gives`` where the subject is several instances."""
    if number == 1:
        return phrase
    verb, space, rest = phrase.partition(" ")
    known = {"is": "are", "does": "do", "crashes": "crash", "raises": "raise", "has": "have", "passes": "pass"}
    return known.get(verb, verb.removesuffix("s")) + space + rest


def isolation(points: Iterable[Point]) -> Iterable[tuple[str, str]]:
    """A note where forks of a worker that had everything loaded answered otherwise than ``python file.py`` would."""
    words = dict.fromkeys(f"{clean(point.in_forks)} on {clean(point.build)}" for point in points if point.in_forks)
    if words:
        yield "in a shared process", f"{listed(list(words), most=4)}; an interpreter of its own is what counts"


def agreeing(point: Point) -> int:
    """Processes that gave the answer that counts."""
    return min(point.processes, point.counts.get(point.judgement.signature, point.processes))


def lacking(points: Iterable[Point], *, ends: int, enough: int = CONFIRMING_PROCESSES) -> str:
    """How many processes are needed, to follow how many there are; empty where there are enough.

    Args:
        points: Of all instances, at one end or at both.
        ends: One or two.
        enough: How many, see :func:`~bisect_torch.analysis.transitions.enough_processes`.
    """
    if all(ran_enough(point, enough) for point in points):
        return ""
    why = ", since other builds are flaky" if enough > CONFIRMING_PROCESSES else ""
    return f" ({' and '.join([str(enough)] * ends)} are needed{why})"


def key_of(series: Series) -> tuple[str, str, str]:
    """Case file, instance and device: what names a row."""
    return series.case_file, series.instance, series.device


def case_of(series: Series) -> tuple[str, str, str]:
    """Case file, case and device."""
    return series.case_file, series.instance.partition("[")[0], series.device

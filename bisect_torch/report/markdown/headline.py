"""The one plain sentence with which a report begins."""

from __future__ import annotations

from collections.abc import Sequence

from bisect_torch.analysis.causes import Cause
from bisect_torch.model import BuildKind, Judgement, Point, Transition, TransitionKind, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown.history import name_of
from bisect_torch.report.markdown.syntax import prose
from bisect_torch.report.phrases import did, does, noun
from bisect_torch.report.sentence import plural_verb, subject
from bisect_torch.report.sentences import newer_end, since_when, statement
from bisect_torch.report.text import clean
from bisect_torch.report.throughout import always_sentence, flaky_sentence

_GOOD_ENDS = (TransitionKind.FIXED, TransitionKind.APPEARED)


def headline(cause: Cause, findings: Findings) -> str:
    """Markdown. What the main change is, what the newest builds do, and that it is not confirmed where it is not."""
    name = name_of(cause.series, findings)
    change = cause.main_change
    if not change:
        sentence = flaky_sentence(cause.series, findings) or always_sentence(cause.series, findings)
        if sentence is not None:
            return f"{name} {prose(sentence.text.removeprefix(subject(cause.series, findings)))}"
        newest = cause.judged[-1]  # the same exception on every build, of which only some lack the name
        return f"{name} {prose(plural_verb(does(newest.judgement), len(cause.series)))} in {prose(newest.build)}."
    unsure = "" if all(each.confirmed for each in change) else ", not confirmed"
    return f"{name} {prose(_said(cause, change, findings))}{unsure}."


def _said(cause: Cause, change: Sequence[Transition], findings: Findings) -> str:
    first, number = change[0], len(cause.series)
    later = [change[0] for change in cause.changes if _after(change[0], first)]
    if not later or first.kind in _GOOD_ENDS:
        text = statement(change, findings)
        return text + _still(first, cause, findings)
    old, new = first.before, first.after
    until = later[0].before.build
    span = f"in {clean(until)}" if until == new.build else f"from {newer_end(first, findings)} to {clean(until)}"
    text = f"{plural_verb(did(new.judgement), number)} {span}{_before(first.kind, old)}"
    last = later[-1].after
    now = "ok" if last.judgement.verdict is Verdict.OK else plural_verb(does(last.judgement), number)
    return f"{text}; {now} from {since_when(later[-1], findings)}"


def _before(kind: TransitionKind, old: Point) -> str:
    build = clean(old.build)
    if kind is TransitionKind.BROKE:
        return f" (last good {build})"
    silent = f": {noun(old.judgement)} became silent" if kind is TransitionKind.BECAME_SILENT else ""
    return f", where {build} {_did(old.judgement)}{silent}"


def _did(judgement: Judgement) -> str:
    return "did not have it" if judgement.api_absent else did(judgement)


def _after(one: Transition, other: Transition) -> bool:
    order = one.series.builds
    return order.index(one.before.build) >= order.index(other.after.build)


def _still(first: Transition, cause: Cause, findings: Findings) -> str:
    """``; still so in 2.14.0 and in nightly 2.16.0.dev20261128``: the newest release, and the newest build."""
    if not first.after.judgement.verdict.bad or first.kind is TransitionKind.DISAPPEARED:
        return ""
    judged = [point.build for point in cause.judged if point.solid]
    releases = [name for name in judged if _kind(name, findings) is BuildKind.RELEASE]
    newest = [name for name in dict.fromkeys([*releases[-1:], *judged[-1:]]) if name != first.after.build]
    if not newest:
        return ""
    words = [f"nightly {clean(name)}" if _kind(name, findings) is BuildKind.NIGHTLY else clean(name) for name in newest]
    return f"; still so in {' and in '.join(words)}"


def _kind(name: str, findings: Findings) -> BuildKind | None:
    build = findings.build(name)
    return None if build is None else build.kind

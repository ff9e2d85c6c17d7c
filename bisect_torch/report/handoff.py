"""From a transition between builds to the commits between them: for ``git bisect`` in a source checkout. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from bisect_torch.model import Build, BuildKind, Transition, TransitionKind
from bisect_torch.releases.commits import Origin
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import clean, plural

COMPARE = "https://github.com/pytorch/pytorch/compare/{}...{}"

_UNRELEASED = (BuildKind.NIGHTLY, BuildKind.CANDIDATE)


@dataclass(frozen=True)
class Handoff:
    """What goes on from a transition.

    Args:
        compare: Address of the list of commits between the ends; None unless both are known to be public.
        bisect: The command that begins a bisection of the source; for ends of which one is no release.
        evidence: Label and text of each further line.
        same_commit: Both ends were built from one commit.
    """

    compare: str | None
    bisect: str | None
    evidence: tuple[tuple[str, str], ...]
    same_commit: bool


def handoff(transition: Transition, findings: Findings) -> Handoff:
    """What is known about the commits between the ends of a transition."""
    before, after = (findings.build(point.build) for point in (transition.before, transition.after))
    if before is None or after is None:
        return Handoff(None, None, (), same_commit=False)
    old, new = findings.origin(before.name), findings.origin(after.name)
    same = old is not None and new is not None and old.point == new.point
    compare = bisect = None
    if old is not None and new is not None and old.resolved and new.resolved and not same:
        compare = COMPARE.format(old.point[:12], new.point[:12])
        if before.kind in _UNRELEASED or after.kind in _UNRELEASED:
            bisect = bisect_command(transition.kind, old, new)
    return Handoff(compare, bisect, tuple(_evidence(before, after, old, new)), same)


def same_commit_words(findings: Findings) -> list[str]:
    """Neighbouring builds that were made from one commit: what differs between them is not torch's code."""
    groups: list[list[Build]] = []
    for before, after in pairwise(findings.builds):
        old, new = findings.origin(before.name), findings.origin(after.name)
        if old is None or new is None or old.point != new.point or BuildKind.LOCAL in (before.kind, after.kind):
            continue
        if groups and groups[-1][-1] is before:
            groups[-1].append(after)
        else:
            groups.append([before, after])
    return [
        f"{' and '.join(clean(build.name) for build in group)} were built from one commit, "
        f"{_point(findings, group[0])[:12]}: nothing that differs between them is torch's code."
        for group in groups
    ]


def _point(findings: Findings, build: Build) -> str:
    origin = findings.origin(build.name)
    return origin.point if origin is not None else ""


def _evidence(before: Build, after: Build, old: Origin | None, new: Origin | None) -> Iterable[tuple[str, str]]:
    if before.kind not in _UNRELEASED and after.kind not in _UNRELEASED:
        return
    if old is not None and new is not None:
        yield "built from", f"{clean(str(old))} → {clean(str(new))}"
        if old.point == new.point:
            yield "same commit", "this is no change of torch's code: look at what else differs, and at how it was built"
    if before.day is not None and after.day is not None:
        yield "days", f"{plural((after.day - before.day).days, 'day')}, {before.day} to {after.day}"
    without = [build for build, origin in ((before, old), (after, new)) if _lacks_main(build, origin)]
    if without and old is not None and new is not None and old.point != new.point:
        yield "commits of main", "in the messages of the commits of the nightly branch: --source CHECKOUT reads them"


def _lacks_main(build: Build, origin: Origin | None) -> bool:
    return build.kind is BuildKind.NIGHTLY and origin is not None and origin.main is None


def bisect_command(kind: TransitionKind, old: Origin, new: Origin) -> str:
    """What begins a bisection of the source between two commits.

    The newer end is git's "bad": other words than good and bad must be named where they would mislead.
    """
    terms = {
        TransitionKind.BROKE: "",
        TransitionKind.FIXED: "--term-old=broken --term-new=fixed ",
        TransitionKind.APPEARED: "--term-old=absent --term-new=there ",
        TransitionKind.DISAPPEARED: "--term-old=there --term-new=absent ",
    }.get(kind, "--term-old=before --term-new=after ")
    return f"git bisect start {terms}{new.point[:12]} {old.point[:12]}"

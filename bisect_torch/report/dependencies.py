"""Which cells come out differently with today's dependencies than with those of the release's day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bisect_torch import analysis
from bisect_torch.model import Transition
from bisect_torch.report.differences import difference_words
from bisect_torch.report.findings import Findings
from bisect_torch.report.phrases import does, instead_of
from bisect_torch.report.text import clean, listed, plural


@dataclass(frozen=True)
class DependencyDrift:
    """Instances that changed in the same way on the same builds.

    Args:
        before: Signature with the dependencies of the release's day.
        after: Signature with today's.
        change: In words: ``raises RuntimeError with today's dependencies, instead of being ok,``.
        confirmed: All ends ran in enough processes.
        packages: What differs in the last of these builds, in words.
    """

    instances: tuple[str, ...]
    builds: tuple[str, ...]
    before: str
    after: str
    change: str
    confirmed: bool
    packages: tuple[str, ...]


def dependency_drifts(findings: Findings) -> list[DependencyDrift]:
    """In the order of the rows; rows that changed alike are together."""
    by_row: dict[tuple[str, str, str, str, str], list[Transition]] = {}
    for series in findings.twins:
        for found in analysis.transitions(series):
            ends = found.before.judgement.signature, found.after.judgement.signature
            by_row.setdefault((series.case_file, series.instance, series.device, *ends), []).append(found)
    alike: dict[tuple[str, str, tuple[str, ...]], list[tuple[str, list[Transition]]]] = {}
    for (_, instance, _, before, after), changes in by_row.items():
        builds = tuple(each.before.build for each in changes)
        alike.setdefault((before, after, builds), []).append((instance, changes))
    return [
        DependencyDrift(
            instances=tuple(dict.fromkeys(instance for instance, _ in rows)),
            builds=builds,
            before=before,
            after=after,
            change=_change(rows[0][1][0]),
            confirmed=all(each.confirmed for _, changes in rows for each in changes),
            packages=_packages(findings, rows[-1][1][-1]),
        )
        for (before, after, builds), rows in alike.items()
    ]


def _change(found: Transition) -> str:
    old, new = found.before.judgement, found.after.judgement
    return f"{does(new)} with today's dependencies, instead of {instead_of(old, new)},"


def _packages(findings: Findings, change: Transition) -> tuple[str, ...]:
    old = findings.environments.get(change.before.build)
    new = findings.environments.get(change.after.build)
    return () if old is None or new is None else tuple(difference_words(old, new))


def dependency_words(findings: Findings, found: Sequence[DependencyDrift]) -> list[str]:
    """Sentences: one for each drift, one for all cells that came out alike, one for what could not be compared."""
    if not findings.twins:
        return []
    words = [_sentence(each) for each in found]
    compared = [each for each in findings.twins if all(point is not None and point.solid for point in each.answers)]
    differing = sum(len(each.instances) * len(each.builds) for each in found)
    alike = len(compared) - differing
    if alike > 0:
        words.append(f"With today's dependencies {plural(alike, 'cell')} came out as with those of the release's day.")
    left = len(findings.twins) - len(compared)
    if left:
        words.append(f"{plural(left, 'cell')} could not be compared with today's dependencies: {_why(findings)}")
    return words


def _why(findings: Findings) -> str:
    reasons = []
    for series in findings.twins:
        for point in series.answers:
            if point is None:
                reasons.append("not run")
            elif not point.solid:
                judgement = point.judgement
                reasons.append("flaky" if point.flaky else f"{judgement.verdict.value}: {clean(judgement.reason)}")
    return listed(list(dict.fromkeys(reasons)), most=3)


def _sentence(drift: DependencyDrift) -> str:
    what = clean(drift.instances[0]) if len(drift.instances) == 1 else plural(len(drift.instances), "instance")
    where = listed([clean(name) for name in drift.builds], most=4)
    unsure = "" if drift.confirmed else ", not confirmed"
    packages = f" (there differ: {'; '.join(drift.packages)})" if drift.packages else ""
    return f"Drift of dependencies: {what} {drift.change} on {where}{unsure}{packages}."

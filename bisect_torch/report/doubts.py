"""Why a change is not confirmed although enough processes agree: something besides the builds was not the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bisect_torch.engine.variables import unlike
from bisect_torch.model import Series
from bisect_torch.report.beside import left_between, left_words
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import clean, listed

_MOST_NAMES = 4

Ends = Sequence[tuple[Series, str, str]]
"""Series, older and newer build."""


def doubts(ends: Ends, findings: Findings) -> list[str]:
    """In words; empty where there are none."""
    left = left_between(ends, findings)
    words = [f"{left_words(each)} ({listed([clean(file) for file in each.files], most=_MOST_NAMES)})" for each in left]
    names = sorted({name for series, *builds in ends for name in _set_otherwise(series, builds, findings)})
    if names:
        words.append(f"{listed(list(map(clean, names)), most=_MOST_NAMES)} not set the same at both ends")
    return words


def doubted(findings: Findings) -> Findings:
    """The same, where what there are doubts about is not confirmed."""
    if not findings.unlike_files and not _vary(findings):
        return findings  # of a hundred thousand changes none need be looked at
    unsure = {
        id(each)
        for each in findings.transitions
        if each.confirmed and doubts([(each.series, each.before.build, each.after.build)], findings)
    }
    changed = (replace(each, confirmed=False) if id(each) in unsure else each for each in findings.transitions)
    return replace(findings, transitions=tuple(changed))


def variable_words(findings: Findings) -> list[str]:
    """A sentence for each case file whose cells did not all see the same variables."""
    found: dict[str, set[str]] = {}
    if _vary(findings):
        for series in findings.series:
            found.setdefault(series.case_file, set()).update(_set_otherwise(series, series.builds, findings))
    return [
        f"{clean(findings.file_names.get(file, file))}: {listed(list(map(clean, sorted(names))), most=_MOST_NAMES)} "
        "had not the same value on every build: what differs may come from that."
        for file, names in found.items()
        if names
    ]


def _set_otherwise(series: Series, builds: Sequence[str], findings: Findings) -> set[str]:
    """Names of variables that the cells of a row did not all see with one value."""
    if not _vary(findings):
        return set()
    states = list(_states(series, builds, findings))
    return {name for one, other in itertools.pairwise(states) for name in unlike(one, other)}


def _states(series: Series, builds: Sequence[str], findings: Findings) -> Iterator[Mapping[str, str]]:
    kept: dict[object, Mapping[str, Any]] = {
        run.get("run_id"): variables for run in findings.runs if isinstance(variables := run.get("variables"), dict)
    }
    for build in builds:
        for run_id, digest in findings.facts(series, build, ("run_id", "case_file_hash")):
            if run_id in kept:
                yield kept[run_id].get(str(digest), {})


def _vary(findings: Findings) -> bool:
    """Whether the runs did not all see the same: mostly they did, and no row need be looked at."""
    kept = [run["variables"] for run in findings.runs if "variables" in run]
    return any(one != other for one, other in itertools.pairwise(kept))

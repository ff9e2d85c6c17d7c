"""Which rows other tolerances cannot judge otherwise, and why: else silence about them reads as a judgement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bisect_torch.analysis import judge
from bisect_torch.analysis.columns import ROW, telling
from bisect_torch.model import Observation, Series, Verdict
from bisect_torch.report.findings import Findings
from bisect_torch.report.rerun import rows_again, split_words, words_of
from bisect_torch.report.text import clean, listed, plural

_FACTS = (
    *ROW, "outcome", "phase", "reason", "exit_code", "signal", "error_type", "root_type", "frame_origin", "frame",
    "missing_module", "absent_name", "failed_capability", "returned_false", "checks", "mismatch", "nan_mismatches",
    "inf_mismatches",
)  # fmt: skip

_NO_NUMBERS = "no check() stored numbers there, and what a case asserts or returns itself has no tolerance"
_AT_ANY = "another shape, dtype or structure, a NaN or an infinity is wrong at any tolerance"
_NO_VALUE = "there is no value to judge: an exception, a crash or a time limit ended them"
_MOST_NAMES = 6


def not_rejudged_words(findings: Findings) -> list[str]:
    """A sentence for each reason, with the rows that were judged and whose verdicts cannot depend on tolerances."""
    reasons: dict[tuple[str, str, str], set[str | None]] = {}
    for each in telling(findings.observations, _FACTS):
        verdict = judge(each).verdict
        if verdict.judged:
            row = (each.case_file, each.instance, each.device)
            reasons.setdefault(row, set()).add(_reason(each, verdict))
    rows: dict[str, list[Series]] = {}
    for series in findings.series:
        found = reasons.get((series.case_file, series.instance, series.device), {None})
        if None not in found:
            rows.setdefault(next(each for each in (_NO_NUMBERS, _AT_ANY, _NO_VALUE) if each in found), []).append(
                series
            )
    return [_words(series, reason, findings) for reason, series in rows.items()]


def undecidable_again(findings: Findings) -> str | None:
    """The line that runs what the tolerances leave open again, once they stand in the cases' ``check()``, without where
    results go; None where nothing is open, or what is is of a suite or a command.

    On every build of those rows: of an edited file, older results stand in no matrix.
    """
    rows = [
        series
        for series in findings.series
        if any(point is not None and point.judgement.verdict is Verdict.UNDECIDABLE for point in series.answers)
    ]
    builds = [name for name in findings.build_names if any(findings.observed(series, name) for series in rows)]
    seen = [next(each for name in builds for each in findings.observed(series, name)) for series in rows]
    runs: Mapping[object, Mapping[str, Any]] = {run.get("run_id"): run for run in findings.runs}
    of_files = [each for each in seen if not split_words(words_of(runs.get(each.run_id, {})))[1]]
    return rows_again(of_files, runs.get(of_files[0].run_id, {}), builds) if of_files else None


def _reason(observation: Observation, verdict: Verdict) -> str | None:
    """Why its verdict is the same under all tolerances; None where it need not be."""
    if verdict not in (Verdict.OK, Verdict.WRONG):
        return _NO_VALUE
    if not observation.checks:
        return _NO_NUMBERS
    if observation.mismatch or observation.nan_mismatches or observation.inf_mismatches:
        return _AT_ANY
    return None


def _words(rows: Iterable[Series], reason: str, findings: Findings) -> str:
    several = findings.several_devices
    names = [clean(findings.name_of(each)) + (f" on {clean(each.device)}" if several else "") for each in rows]
    return f"not judged again, {plural(len(names), 'row')} ({listed(names, most=_MOST_NAMES)}): {reason}"

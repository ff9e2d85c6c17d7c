"""What the page shows, as two JSON documents: columns over rows, cells and observations. Pure.

A row is an instance on a device, in the order of the findings; its cells follow it, one for each build. A cell's
observations follow one another in the order of the cells, as many as the cell's ``observations`` says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from bisect_torch.analysis.columns import telling
from bisect_torch.model import Build, BuildKind, Environment, Observation, Point, Series
from bisect_torch.report.drift import WHAT, drifting
from bisect_torch.report.findings import Findings
from bisect_torch.report.heads import tags
from bisect_torch.report.html.columns import column, rounded
from bisect_torch.report.html.long_texts import limit_for, shortened
from bisect_torch.report.marks import ABSENT, DETAIL, FLAKY, LETTERS, NOT_RUN, OTHER_KIND, marks_of
from bisect_torch.report.parameters import pairs
from bisect_torch.report.rerun import build_part, instance_part, run_part, words_of
from bisect_torch.report.sentence import NO_LONGER_BAD, Sentence
from bisect_torch.report.text import clean, plural
from bisect_torch.report.unjudged import hint, with_hint
from bisect_torch.results.schema import COLUMNS

SECTIONS = (
    (
        "how it ended",
        "outcome phase reason exit_code signal error_type message root_type root_message frame frame_origin "
        "missing_module absent_name capabilities failed_capability",
    ),
    (
        "values",
        "returned_false checks criterion check_path mismatch dtype reduction_length tolerance rtol atol rel_error "
        "max_abs_error reference_max_abs elements wrong_elements first_wrong_index actual_value expected_value "
        "nan_mismatches inf_mismatches explained_by digest reference_digest input_digest",
    ),
    (
        "circumstances",
        "elapsed_s timeout_s peak_rss_bytes peak_device_bytes output_bytes seed threads isolation worker "
        "device_name driver machine started_at issue run_id",
    ),
    ("build as it was seen", "local_version git_commit lock_hash python backend cuda case_file_hash"),
    ("texts", "traceback stack stdout_tail stderr_tail warnings measurements"),
)
"""Headings and columns of an observation. Left out are the histogram of errors and what only finds a cell again."""

_TEXTS = frozenset(SECTIONS[-1][1].split())
_ROUNDED = {
    "elapsed_s": rounded(3),
    **dict.fromkeys(("peak_rss_bytes", "peak_device_bytes"), rounded(4)),
    **dict.fromkeys(("rel_error", "max_abs_error", "reference_max_abs"), rounded(4)),
}
"""What is rounded before it is stored, so that few values are distinct."""

_DRIFT_BITS = {what: 1 << place for place, what in enumerate(WHAT)}
_SOURCE_CHARACTERS = 100_000


def matrix(findings: Findings, found: Sequence[Sentence], written: int) -> dict[str, object]:
    """What the matrix and its filters need: small, and read before the rest of the page.

    Args:
        found: All sentences.
        written: Of so many of them, which stand on the page, the places in the matrix are kept.
    """
    cases = list(dict.fromkeys((each.case_file, _case(each)) for each in findings.series))
    return {
        "verdicts": _verdicts(),
        "small": dict((FLAKY, OTHER_KIND, DETAIL)),
        "builds": [_build(each, findings) for each in findings.builds],
        "cases": [{"file": clean(findings.file_names[file]), "name": clean(case)} for file, case in cases],
        "rows": _rows(findings, cases),
        "cells": _marks(findings, found),
        "findings": _places(findings, found[:written]),
    }


def details(findings: Findings) -> dict[str, object]:
    """What the details of a cell and the plots need."""
    observed = findings.all_observed()
    return {
        "selects": column((each.instance for each in findings.series), instance_part),
        "cells": _cell_columns(findings),
        "sections": [{"title": title, "columns": names.split()} for title, names in SECTIONS],
        "columns": {each.name: [each.meaning, each.unit] for each in COLUMNS},
        "observations": _observation_columns(observed, findings),
        "packages": {clean(name): _packages(each) for name, each in findings.environments.items()},
        "sources": _sources(observed, findings.sources),
        "runs": {clean(str(run.get("run_id"))): _run(run) for run in findings.runs},
    }


def _verdicts() -> list[dict[str, str]]:
    known = [(name, letter, words) for name, (letter, words, _) in LETTERS.items()]
    known += [("absent", *ABSENT[:2]), ("not-run", *NOT_RUN[:2])]
    return [{"name": name, "letter": letter, "words": words} for name, letter, words in known]


def _case(series: Series) -> str:
    return series.instance.partition("[")[0]


# --- builds


def _build(build: Build, findings: Findings) -> dict[str, object]:
    environment = findings.environments.get(build.name)
    commit = findings.commit(build.name)
    origin = findings.origin(build.name)
    return {
        "name": clean(build.name),
        "head": clean(tags(findings.build_names).get(build.name, build.name)),
        "kind": build.kind.value,
        "day": build.day.isoformat() if build.day else None,
        "commit": commit and clean(commit),
        "public": origin is not None and origin.resolved,
        "rerun": build_part(build.name, build.kind),
        **(_environment(environment) if environment is not None else {}),
    }


def _environment(environment: Environment) -> dict[str, object]:
    return {
        "torch": clean(environment.torch_version),
        "python": clean(environment.python_version),
        "cuda": environment.cuda and clean(environment.cuda),
        "backend": clean(environment.backend),
        "lock": environment.lock_hash,
    }


def _packages(environment: Environment) -> list[str]:
    return [f"{clean(name)} {clean(version)}" for name, version in sorted(environment.packages.items())]


# --- rows and cells


def _rows(findings: Findings, cases: Sequence[tuple[str, str]]) -> dict[str, object]:
    place = {case: number for number, case in enumerate(cases)}
    seen: dict[tuple[str, str], Observation] = {}
    for each in telling(findings.observations, ("case_file", "instance", "parameters")):
        seen.setdefault((each.case_file, each.instance), each)
    parameters = [_parameters(each.instance, seen.get((each.case_file, each.instance))) for each in findings.series]
    names = list(dict.fromkeys(name for each in parameters for name in each))
    return {
        "number": len(findings.series),
        "instance": column((each.instance for each in findings.series), clean),
        "case": column(place[each.case_file, _case(each)] for each in findings.series),
        "device": column((each.device for each in findings.series), clean),
        "parameters": [
            {"name": clean(name), "values": column((each.get(name) for each in parameters), _clean_or_none)}
            for name in names
        ],
    }


def _parameters(instance: str, observation: Observation | None) -> Mapping[str, str]:
    """Name to value in words: as the cell had them, else as the instance's name tells them."""
    known: Any = json.loads(observation.parameters) if observation is not None else {}
    if known:
        return {str(name): str(value) for name, value in known.items()}
    return dict(pairs(instance) or ())


def _marks(findings: Findings, found: Sequence[Sentence]) -> dict[str, object]:
    """What a cell of the matrix looks like."""
    drift, edges = _drift(findings), _edges(findings, found)
    keys = [(id(series), build) for series in findings.series for build in series.builds]
    return {
        "verdict": column(_verdict(point) for series in findings.series for point in series.answers),
        "small": column(mark.small.strip() for series in findings.series for mark in marks_of(series)),
        "drift": column(drift.get(key, 0) for key in keys),
        "edge": column(edges.get(key, "") for key in keys),
    }


def _cell_columns(findings: Findings) -> dict[str, object]:
    points = [point for series in findings.series for point in series.points]
    judgements = [point.judgement if point is not None else None for point in points]
    numbers = (len(findings.observed(series, name)) for series in findings.series for name in series.builds)
    return {
        "signature": column((each.signature if each else None for each in judgements), _clean_or_none),
        "detail": column((each.detail if each else None for each in judgements), _clean_or_none),
        "reason": column(_reasons(findings), _clean_or_none),
        "counts": column(map(_counts, points), _clean_or_none),
        "in_forks": column((point.in_forks if point else None for point in points), _clean_or_none),
        "rel_error": column(rounded(3)(point.rel_error) if point else None for point in points),
        "observations": column(numbers),
    }


def _reasons(findings: Findings) -> Iterator[str | None]:
    """Why each cell could not be judged, and what to do about it."""
    local = {build.name for build in findings.builds if build.kind is BuildKind.LOCAL}
    for point in (point for series in findings.series for point in series.points):
        if point is None:
            yield None
            continue
        verdict, reason = point.judgement.verdict, point.judgement.reason
        yield with_hint(reason, hint(verdict, reason, local=point.build in local))


def _verdict(point: Point | None) -> str:
    if point is None:
        return "not-run"
    judgement = point.judgement
    return "absent" if judgement.api_absent and judgement.verdict.bad else judgement.verdict.value


def _counts(point: Point | None) -> str | None:
    """``ok 3`` or ``ok 2, wrong 1; 3 processes, one an interpreter of its own``."""
    if point is None or not point.counts:
        return None
    counts = ", ".join(f"{name} {number}" for name, number in point.counts.items())
    one = "one of them an" if point.processes > 1 else "an"
    own = f", {one} interpreter of its own" if point.own_process else ""
    return f"{counts}; {plural(point.processes, 'process', 'processes')}{own}"


def _drift(findings: Findings) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for series, _, after, what in drifting(findings):
        found[id(series), after.build] = found.get((id(series), after.build), 0) | _DRIFT_BITS[what]
    return found


def _edges(findings: Findings, told: Sequence[Sentence]) -> dict[tuple[int, str], str]:
    """The kind of the transition whose newer end a cell is, and where its older end is."""
    no_more = {(of, each.after) for each in told if each.word == NO_LONGER_BAD for of in each.rows}
    row = {(each.case_file, each.instance, each.device): id(each) for each in findings.series}
    found = {}
    for each in findings.transitions:
        key = (each.series.case_file, each.series.instance, each.series.device)
        of = row.get(key)
        if of is not None:
            doubt = "" if each.confirmed else ", not confirmed"
            kind = NO_LONGER_BAD if (key, each.after.build) in no_more else each.kind.value
            found[of, each.after.build] = f"{kind} after {clean(each.before.build)}{doubt}"
    return found


def _clean_or_none(text: str | None) -> str | None:
    return text and clean(text)


# --- observations


def _observation_columns(observed: Sequence[Observation], findings: Findings) -> dict[str, object]:
    runs = {str(run.get("run_id")): run for run in findings.runs}
    limit = limit_for(text for each in observed for text in _long(each))
    names = [name for _, names in SECTIONS for name in names.split()]
    return {
        **{name: column(_values(observed, name), _say(name, limit)) for name in names},
        "modules": column((each.local_modules for each in observed), _modules),
        "repeat": column(each.repeat for each in observed),
        "rerun": column(_commands(observed, runs)),
    }


def _values(observed: Iterable[Observation], name: str) -> Iterable[Any]:
    values = map(attrgetter(name), observed)
    rounding = _ROUNDED.get(name)
    return map(rounding, values) if rounding else values


def _long(observation: Observation) -> Iterable[str | None]:
    return (getattr(observation, name) for name in _TEXTS)


def _say(name: str, limit: int) -> Callable[[Any], Any]:
    """How a value of a column is shown."""
    if name in _TEXTS:
        return shortened(limit)
    return lambda value: clean(value) if isinstance(value, str) else value


def _modules(text: str) -> list[tuple[str, str]]:
    """Name and hash of each neighbouring module."""
    return [(clean(name), digest) for name, digest in json.loads(text).items()]


def _commands(observed: Iterable[Observation], runs: Mapping[str, Mapping[str, object]]) -> Iterable[str]:
    """For each observation; those with the same conditions share one, but each test of a suite has its own."""
    suites = {name for name, run in runs.items() if "--pytest" in words_of(run)}
    known: dict[tuple[object, ...], str] = {}
    for each in observed:
        key: tuple[object, ...] = (
            each.run_id,
            each.case_file,
            each.device,
            each.build_kind,
            each.python,
            each.backend,
            each.timeout_s,
        )
        key += (each.instance,) if each.run_id in suites else ()
        if key not in known:
            known[key] = run_part(each, runs.get(each.run_id, {}))
        yield known[key]


def _places(findings: Findings, found: Sequence[Sentence]) -> list[dict[str, object]]:
    """Rows and newer end of each sentence."""
    rows = {(each.case_file, each.instance, each.device): number for number, each in enumerate(findings.series)}
    place = {name: number for number, name in enumerate(findings.build_names)}
    return [
        {
            "rows": sorted(rows[row] for row in each.rows),
            "build": place.get(each.after, 0),
        }
        for each in found
    ]


def _sources(observed: Iterable[Observation], texts: Mapping[str, str]) -> dict[str, str]:
    """Hash to text of what ran in these cells."""
    wanted = {each.case_file_hash for each in observed}
    for modules in {each.local_modules for each in observed}:
        wanted |= set(json.loads(modules).values())
    say = shortened(_SOURCE_CHARACTERS)
    return {digest: say(texts[digest]) or "" for digest in sorted(wanted) if digest in texts}


def _run(run: Mapping[str, Any]) -> dict[str, str]:
    """What the page tells of a run: when, by which version, where."""
    host: Any = run.get("host") or {}
    told = {
        "started": run.get("started_at"),
        "tool": f"bisect-torch {run.get('tool_version', '?')}",
        "machine": ", ".join(str(host[name]) for name in ("cpu", "system", "architecture", "libc") if name in host),
        "cores": host.get("cores"),
    }
    return {name: clean(str(value)) for name, value in told.items() if value is not None}

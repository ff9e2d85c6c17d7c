"""The report as data, for ``--json``: the same findings, nothing that the text does not say."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

from bisect_torch.analysis.causes import Cause
from bisect_torch.model import Build, Environment, Point, Series
from bisect_torch.report.beside import unlike_words
from bisect_torch.report.decoding import decoding
from bisect_torch.report.decoding_data import decoding_data
from bisect_torch.report.dependencies import dependency_drifts
from bisect_torch.report.drift import drifts
from bisect_torch.report.earlier_texts import earlier_words
from bisect_torch.report.findings import Findings
from bisect_torch.report.predictions import Predicted, predictions
from bisect_torch.report.remarks import remarks
from bisect_torch.report.sentence import Sentence
from bisect_torch.report.sentences import sentences
from bisect_torch.report.unjudged import unjudged

FORMAT = 1
"""Version of this document. It grows when a key goes or changes its meaning; new keys may come without notice."""


MOST_ALIKE = 100
"""Rows of other causes with the same history that a cause names. Each stands in its own cause, too: were all named in
all of those, the document would grow with the square of the rows."""


def as_data(findings: Findings) -> dict[str, object]:
    """A document that ``json.dumps`` takes.

    Keys:
        format: :data:`FORMAT`.
        builds: In column order: ``name``, ``version``, ``kind``, ``day``, ``git_commit``, ``commit_of`` (``v2.15.0``,
            ``nightly branch``, ``release branch``, or null), ``main_commit`` (of a nightly build, or null), and
            ``torch_version``, ``python``, ``cuda``, ``backend``, ``lock_hash``, null where no environment was made.
        series: ``case_file``, ``case``, ``instance``, ``device`` and ``cells``: build name to null (not run) or
            ``verdict``, ``signature``, ``detail``, ``api_absent``, ``reason``, ``flaky``, ``counts`` (signature to
            number), ``processes``, ``own_process``, ``in_forks`` (the signature of all forks where all interpreters
            of their own gave another, which counts), ``elapsed_s``, ``rel_error`` (a number, ``"inf"`` or ``"nan"``).
        findings: ``kind``, ``word`` (what happened, as ``text`` claims it: a transition of the kind ``fixed`` may be
            ``no longer bad`` alone; empty for ``flaky``), ``text``, ``evidence`` (label to text), ``instances``,
            ``rows`` (``case_file``, ``instance``, ``device``), ``before``, ``after``, ``compare``,
            ``bisect`` (a command, or null).
        causes: Rows that are not ok everywhere, grouped by their likely cause (see
            :func:`bisect_torch.analysis.causes.causes`), the most severe first: ``rows`` (``case_file``, ``instance``,
            ``device``), ``changes`` (``kind``, ``before`` and ``after`` with ``build`` and ``signature``,
            ``confirmed``), ``same_history`` (rows, the first :data:`MOST_ALIKE` of them) and ``same_history_rows`` (how
            many there are).
        drift: ``what`` (``digest``, ``reference_digest``, ``input_digest``), ``before``, ``after``, ``instances``.
        unlike_files: Files beside a case file that may not have been the same for all cells of its ``rows``:
            ``case_file``, ``files``, ``differ`` (their contents did), ``reader`` and ``writer`` (a build that may see
            what another one has left, or null), ``rows`` (``case_file``, ``instance``, ``device``), ``text`` (all of it
            as a sentence).
        dependency_drift: What today's dependencies change: ``instances``, ``builds``, ``before`` and ``after``
            (signatures with those of the release's day and with today's), ``change``, ``confirmed``, ``packages`` (what
            differs, in words).
        predictions: null where no cell had one, else ``cells``, ``as_predicted``, ``simulated``, ``unjudged`` (numbers)
            and ``deviations``: ``case_file``, ``instance``, ``device``, ``build``, ``expected`` and ``seen``, these two
            with ``verdict`` and ``model`` (the fault model that explains a wrong value, or null).
        decoding: null where no cell recorded greedy outputs, else see
            :func:`bisect_torch.report.decoding_data.decoding_data`.
        unjudged: ``verdict``, ``reason``, ``cells`` (0 for a build that is not even known), ``builds``, ``hint``,
            ``text`` (all of it as a sentence).
        remarks: Sentences about what no verdict tells: exceptions that Python ignored, further tests of a script that
            failed, output that differs between builds that are ok.
        counts: Verdict to number of cells, with ``not_run`` and ``flaky``.
        notes, results, interrupted, seconds, continue_with: A list of strings, a path or null, a boolean, a number or
            null (results judged again), a command line or null.
        ran: Cells that ran in that time, once or more; null for results judged again, and of a search.
    """
    counts = {verdict.value: number for verdict, number in findings.counts().items()}
    return {
        "format": FORMAT,
        "builds": [_build(build, findings.environments.get(build.name), findings) for build in findings.builds],
        "series": [_series(each) for each in findings.series],
        "findings": [_sentence(each) for each in sentences(findings)],
        "causes": [_cause(each) for each in findings.causes],
        "drift": [
            {"what": each.what, "before": each.before, "after": each.after, "instances": list(each.instances)}
            for each in drifts(findings)
        ],
        "unlike_files": [
            {
                "case_file": each.case_file,
                "files": list(each.files),
                "differ": each.differ,
                "reader": each.reader or None,
                "writer": each.writer or None,
                "either": each.either,
                "rows": [dict(zip(("case_file", "instance", "device"), row, strict=True)) for row in each.rows],
                "text": text,
            }
            for each, text in zip(findings.unlike_files, unlike_words(findings), strict=True)
        ],
        "dependency_drift": [
            {**dataclasses.asdict(each), "instances": list(each.instances), "builds": list(each.builds)}
            for each in dependency_drifts(findings)
        ],
        "predictions": _predictions(predictions(findings)),
        "decoding": decoding_data(decoding(findings)),
        "unjudged": [
            {
                "verdict": each.verdict.value,
                "reason": each.reason,
                "cells": each.cells,
                "builds": list(each.builds),
                "hint": each.hint,
                "text": str(each),
            }
            for each in unjudged(findings)
        ],
        "remarks": remarks(findings),
        "counts": {**counts, "not_run": findings.not_run(), "flaky": findings.flaky()},
        "notes": [*findings.unread, *earlier_words(findings.earlier), *findings.notes],
        "results": None if findings.results is None else str(findings.results),
        "interrupted": findings.interrupted,
        "seconds": findings.seconds,
        "ran": findings.ran,
        "continue_with": findings.continue_with,
    }


def json_text(findings: Findings) -> str:
    """:func:`as_data` as text; ``findings.schema.json`` beside this file describes it."""
    return json.dumps(as_data(findings), indent=1) + "\n"


def _predictions(found: list[Predicted]) -> dict[str, object] | None:
    if not found:
        return None
    return {
        "cells": len(found),
        "as_predicted": sum(each.fits for each in found),
        "simulated": sum(each.simulated for each in found),
        "unjudged": sum(each.seen is None for each in found),
        "deviations": [
            {
                "case_file": each.series.case_file,
                "instance": each.series.instance,
                "device": each.series.device,
                "build": each.build,
                "expected": vars(each.expected),
                "seen": vars(each.seen),
            }
            for each in found
            if each.seen is not None and not each.fits
        ],
    }


def _build(build: Build, environment: Environment | None, findings: Findings) -> dict[str, object]:
    origin = findings.origin(build.name)
    return {
        "name": build.name,
        "version": build.version,
        "kind": build.kind.value,
        "day": None if build.day is None else build.day.isoformat(),
        "git_commit": findings.commit(build.name),
        "commit_of": origin.where or None if origin is not None else None,
        "main_commit": origin.main if origin is not None else None,
        "torch_version": environment and environment.torch_version,
        "python": environment and environment.python_version,
        "cuda": environment and environment.cuda,
        "backend": environment and environment.backend,
        "lock_hash": environment and environment.lock_hash,
    }


def _series(series: Series) -> dict[str, object]:
    return {
        "case_file": series.case_file,
        "case": series.instance.partition("[")[0],
        "instance": series.instance,
        "device": series.device,
        "cells": {
            build: None if point is None else _point(point)
            for build, point in zip(series.builds, series.points, strict=True)
        },
    }


def _point(point: Point) -> dict[str, object]:
    judgement = point.judgement
    return {
        "verdict": judgement.verdict.value,
        "signature": judgement.signature,
        "detail": judgement.detail,
        "api_absent": judgement.api_absent,
        "reason": judgement.reason,
        "flaky": point.flaky,
        "counts": dict(point.counts),
        "processes": point.processes,
        "own_process": point.own_process,
        "in_forks": point.in_forks,
        "elapsed_s": point.elapsed_s,
        "rel_error": _number(point.rel_error),
    }


def _number(value: float | None) -> float | str | None:
    """JSON has no infinity and no NaN."""
    return value if value is None or math.isfinite(value) else str(value)


def _cause(cause: Cause) -> dict[str, object]:
    return {
        "rows": [_row(each) for each in cause.series],
        "changes": [
            {
                "kind": change[0].kind.value,
                "before": _end(change[0].before),
                "after": _end(change[0].after),
                "confirmed": all(each.confirmed for each in change),
            }
            for change in cause.changes
        ],
        "same_history": [_row(each) for each in itertools.islice(cause.same_history, MOST_ALIKE)],
        "same_history_rows": len(cause.same_history),
    }


def _row(series: Series) -> dict[str, object]:
    return {"case_file": series.case_file, "instance": series.instance, "device": series.device}


def _end(point: Point) -> dict[str, object]:
    return {"build": point.build, "signature": point.judgement.signature}


def _sentence(sentence: Sentence) -> dict[str, object]:
    return {
        "kind": sentence.kind,
        "word": sentence.word,
        "text": sentence.text,
        "evidence": dict(sentence.evidence),
        "instances": list(sentence.instances),
        "rows": [{"case_file": file, "instance": name, "device": device} for file, name, device in sentence.rows],
        "before": sentence.before,
        "after": sentence.after,
        "compare": sentence.compare,
        "bisect": sentence.bisect,
    }

"""The matrix as CSV: one row for each cell, for a spreadsheet or pandas. The repeats are in the Parquet file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from bisect_torch.model import Point, Series
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import clean

COLUMNS = (
    "case_file", "case", "instance", "device", "build", "verdict", "signature", "detail", "api_absent", "flaky",
    "reason", "repeats", "processes", "own_process", "elapsed_s", "rel_error", "torch_version", "git_commit", "python",
    "cuda", "backend", "lock_hash",
)  # fmt: skip
"""The first line. ``verdict`` is empty for a cell that was not run; ``repeats`` counts those that were judged."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def csv_table(findings: Findings) -> str:
    """Comma-separated, quoted where needed, lines ended by ``\\n``, with a line of names.

    Text that a spreadsheet would take for a formula has an apostrophe before it; control characters are escapes.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for series in findings.series:
        for build, point in zip(series.builds, series.points, strict=True):
            writer.writerow([_safe(value) for value in _cells(series, build, point, findings)])
    return stream.getvalue()


def _cells(series: Series, build: str, point: Point | None, findings: Findings) -> Iterator[object]:
    yield from (series.case_file, series.instance.partition("[")[0], series.instance, series.device, build)
    if point is None:
        yield from [None] * 11
    else:
        judgement = point.judgement
        yield from (judgement.verdict.value, judgement.signature, judgement.detail, judgement.api_absent, point.flaky)
        yield from (judgement.reason, sum(point.counts.values()), point.processes, point.own_process)
        yield from (point.elapsed_s, point.rel_error)
    environment = findings.environments.get(build)
    yield environment and environment.torch_version
    yield findings.commit(build)
    if environment is None:
        yield from [None] * 4
    else:
        yield from (environment.python_version, environment.cuda, environment.backend, environment.lock_hash)


def _safe(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = clean(value)
    return f"'{text}" if text.startswith(_FORMULA) else text

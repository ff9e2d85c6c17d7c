"""The observations of a real run (20 public bugs on 15 releases) are kept: judged again they must mean the same.

Made by ``bisect-torch run *.py --from 2.4.1 --to 2.14.0 --python 3.11 --timeout 90`` on an x86_64 with AVX-512; paths
of the machine were taken out.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from bisect_torch import analysis
from bisect_torch.model import Point
from bisect_torch.results import ResultsFile

DATA = Path(__file__).parent.parent / "data"
STORED = json.loads((DATA / "real_series.json").read_text())
BUILDS: list[str] = STORED["builds"]
EXPECTED: dict[str, list[str]] = {
    name: [word for span in spans for word in [span.split()[0]] * int(span.split()[1])]
    for name, spans in STORED.items()
    if name not in ("builds", "transitions")
}
HANGS_ELSEWHERE = "linalg_solve_two_threads_batched"
"""A timeout on processors with AMX; on the one that this run was made on torch raises instead."""


def meaning(point: Point) -> str:
    if point.flaky:
        return "flaky"
    return "absent" if point.judgement.api_absent else point.judgement.signature


def test_every_series_is_the_verified_one_and_every_transition_is_confirmed() -> None:
    observations = ResultsFile.open(DATA / "real_cases_matrix.parquet").observations()
    series = analysis.build_series(observations, BUILDS)

    assert sorted(row.instance for row in series) == sorted(EXPECTED)
    for row in series:
        assert all(point is not None for point in row.points)
        found = [meaning(point) for point in row.points if point is not None]
        expected = EXPECTED[row.instance]
        if row.instance == HANGS_ELSEWHERE:
            assert found == ["error:RuntimeError"] * len(BUILDS)
            continue
        assert (row.instance, found) == (row.instance, expected)
        edges = [(BUILDS[place], BUILDS[place + 1]) for place, (a, b) in enumerate(pairwise(expected)) if a != b]
        transitions = analysis.transitions(row)
        assert [(each.before.build, each.after.build) for each in transitions] == edges
        assert all(each.confirmed for each in transitions)

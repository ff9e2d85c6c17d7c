"""What earlier runs saw of a cell, as far as it still says something: the results that need not be run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from bisect_torch import analysis, environments, results
from bisect_torch.analysis.columns import telling
from bisect_torch.engine.beside import FilesBeside
from bisect_torch.engine.plan import CellRun, Place
from bisect_torch.engine.request import RunRequest
from bisect_torch.model import Build, BuildKind, Observation, Verdict

_SAYS_NOTHING = frozenset({Verdict.INFRA, Verdict.BROKEN, Verdict.UNINSTALLABLE})
"""Verdicts that say nothing about the build: a later run tries such a cell again. By then there may be a compiler."""


class Known:
    """Looks cells up in the results file of a run.

    Args:
        request: The run.
    """

    def __init__(self, request: RunRequest) -> None:
        self._file = request.file
        runs = self._file.runs
        self._present = {planned.build.name: planned.present for planned in request.plan.environments}
        self._whole: dict[str, bool] = {}
        self._superseded = _superseded(runs)
        self._run_places = {str(run["run_id"]): place for place, run in enumerate(runs)}
        self._fresh_runs: list[tuple[int, Mapping[str, Any]]] = [
            (place, run) for place, run in enumerate(runs) if run.get("fresh")
        ]
        self._cut_off = {run["run_id"] for run in runs if run.get("ended_at") is None}
        self._beside = FilesBeside(self._file.private)
        self.outlived: set[Place] = set()
        """Cells of which there are results, and newer ones of another text, other data or another machine."""

    @property
    def edited(self) -> tuple[str, ...]:
        """Files that are not what cells that were looked up here have read beside their case files."""
        return tuple(sorted(self._beside.edited))

    def of(self, cell: CellRun, key: str) -> tuple[str, list[Observation]]:
        """The key under which results of a cell are kept as its files are now, and the observations under it.

        A cell is known by the files that it reads, too, and which these are only its observations tell. Where one was
        edited, its key goes on with what the files are now.

        What does not stand in a series any more is not given: after an edit that was taken back the cell runs again.
        Else this run would show what it was before the edit, and whoever reads the file what it was last.

        Args:
            key: Of everything that is known of the cell before it was ever run.
        """
        while True:
            known = [each for each in self._since_fresh(cell, self._file.lookup(key)) if self._counts(cell, each)]
            edited = self._beside.now(cell.instance.case.file, known)
            if edited is None:
                if known and self._in_series is not None and key not in self._in_series:
                    self.outlived.add(cell.place)
                    known = []
                return key, known
            key = results.further_key(key, edited)

    @cached_property
    def _in_series(self) -> frozenset[str] | None:
        """Keys of what stands in a series when this run begins; None where that is all there is, as after one run."""
        if len(self._file.runs) < 2:
            return None
        return frozenset(each.key for each in telling(analysis.counted(self._file.observations()), ("key",)))

    def _counts(self, cell: CellRun, observation: Observation) -> bool:
        """Whether what an earlier run saw of a cell still says something about the build."""
        name = self._file.private.redact(cell.build.name)
        if (observation.run_id, name, cell.instance.case.file.sha256) in self._superseded:
            return False
        verdict = analysis.judge(observation).verdict
        return verdict not in _SAYS_NOTHING and not (verdict.bad and self._unproven(cell.build, observation))

    def _since_fresh(self, cell: CellRun, known: Sequence[Observation]) -> list[Observation]:
        """Without what was seen before the last ``--fresh`` after which the cell was seen again.

        Else the repeats that only the old results have would stand beside the new ones.
        """
        # A run that is not there yet is this one.
        places = [self._run_places.get(observation.run_id, len(self._run_places)) for observation in known]
        name = self._file.private.redact(cell.build.name)
        case_file = cell.instance.case.file.sha256
        began = max(
            (
                place
                for place, run in self._fresh_runs
                if place <= max(places, default=-1) and name in run["builds"] and case_file in run["case_files"]
            ),
            default=-1,
        )
        return [observation for observation, place in zip(known, places, strict=True) if place >= began]

    def _unproven(self, build: Build, observation: Observation) -> bool:
        """Whether the run never came to see that the environment was still whole when it had blamed the build.

        A run sweeps at its end. If it did not come to that, an environment that is as it was made tells the same.
        """
        if build.kind is BuildKind.LOCAL or observation.run_id not in self._cut_off:
            return False
        if build.name not in self._whole:
            present = self._present[build.name]
            self._whole[build.name] = present is not None and environments.whole(present)
        return not self._whole[build.name]


def _superseded(runs: Sequence[Mapping[str, Any]]) -> frozenset[tuple[str, str, str]]:
    """Run, build and case file whose results a later ``--fresh`` was to replace when it was cut off.

    What goes on from there must not fill in what the user wanted run again.
    """
    found = set()
    for place, run in enumerate(runs):
        if run.get("fresh") and run.get("ended_at") is None:
            for earlier in runs[:place]:
                for build in run["builds"]:
                    found |= {(earlier["run_id"], build, digest) for digest in run["case_files"]}
    return frozenset(found)

"""What the text of a test says of its failure, noted when it fails: of a project's tests no text is kept."""

from __future__ import annotations

import dataclasses
import json

from bisect_torch import cases
from bisect_torch.analysis.unreached import NOTED, stands_behind
from bisect_torch.model import CaseFile, CaseKind, Observation, Outcome


def noted(file: CaseFile, seen: Observation) -> Observation:
    """The same, with the measurement :data:`NOTED` where the line that failed stands behind a condition on torch."""
    if file.kind is not CaseKind.PYTEST or seen.outcome != Outcome.RAISED.value:
        return seen
    why = stands_behind(seen, cases.text_of(file) or "")
    return dataclasses.replace(seen, measurements=json.dumps({**seen.measured, NOTED: why})) if why else seen

"""The words of the tool as frozen types. Every room imports this package; it imports none of them.

Only the standard library is used.
"""

from bisect_torch.model.beside import Beside, FileRead, beside
from bisect_torch.model.builds import (
    CANDIDATE_SUFFIX,
    TODAY,
    Build,
    BuildKind,
    BuildProgress,
    Environment,
    Variant,
    is_variant_name,
)
from bisect_torch.model.cases import DEFAULT_TIMEOUT_S, Case, CaseFile, CaseKind, Instance, Limits, Scalar
from bisect_torch.model.observations import (
    ASSERTION,
    BAD_OUTPUT,
    FACT_FIELDS,
    STRICT_XFAIL,
    UNEXPECTED_SUCCESS,
    Isolation,
    Judgement,
    Observation,
    Outcome,
    Verdict,
)
from bisect_torch.model.series import Boundary, Point, Series, Transition, TransitionKind

__all__ = [
    "ASSERTION",
    "BAD_OUTPUT",
    "CANDIDATE_SUFFIX",
    "DEFAULT_TIMEOUT_S",
    "FACT_FIELDS",
    "STRICT_XFAIL",
    "TODAY",
    "UNEXPECTED_SUCCESS",
    "Beside",
    "Boundary",
    "Build",
    "BuildKind",
    "BuildProgress",
    "Case",
    "CaseFile",
    "CaseKind",
    "Environment",
    "FileRead",
    "Instance",
    "Isolation",
    "Judgement",
    "Limits",
    "Observation",
    "Outcome",
    "Point",
    "Scalar",
    "Series",
    "Transition",
    "TransitionKind",
    "Variant",
    "Verdict",
    "beside",
    "is_variant_name",
]

"""What observations mean. Pure: no input, no output, no clock."""

from bisect_torch.analysis.confirm import Confirmation, Wanted, wanted_repeats
from bisect_torch.analysis.judge import Tolerances, judge
from bisect_torch.analysis.normalise import normalise
from bisect_torch.analysis.ordering import PlannedOrder, never_begun, planned
from bisect_torch.analysis.series import Row, alike, build_series, counted
from bisect_torch.analysis.transitions import confirmed, flaky_repeats, fold, transition_kind, transitions

__all__ = [
    "Confirmation",
    "PlannedOrder",
    "Row",
    "Tolerances",
    "Wanted",
    "alike",
    "build_series",
    "confirmed",
    "counted",
    "flaky_repeats",
    "fold",
    "judge",
    "never_begun",
    "normalise",
    "planned",
    "transition_kind",
    "transitions",
    "wanted_repeats",
]

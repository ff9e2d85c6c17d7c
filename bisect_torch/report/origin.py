"""Whether the error at an end of a transition comes from a package that changed along with torch. Pure."""

from __future__ import annotations

import re
import shlex

from bisect_torch.cases.distributions import DISTRIBUTIONS
from bisect_torch.model import Observation, Transition, Verdict
from bisect_torch.report.differences import Difference, differences
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import clean

_NAMES_MODULE = (
    re.compile(r"module '([\w.]+)' has no attribute"),
    re.compile(r"cannot import name '[^']+' from (?:partially initialized module )?'([\w.]+)'"),
    re.compile(r"No module named '([\w.]+)'"),
)
"""Messages that say whose name is missing."""

_OTHERS = frozenset({"numpy", "numpy.testing", "other"})


def from_a_dependency(transition: Transition, findings: Findings) -> str | None:
    """What to say of a transition to or from an error: which package this comes from, that it differs between the ends,
    and the command that tells whether it is that. None where it comes from something else, or from one that is alike.
    """
    before, after = transition.before, transition.after
    old, new = (findings.environments.get(end.build) for end in (before, after))
    raising = next((end for end in (after, before) if end.judgement.verdict is Verdict.ERROR), None)
    if raising is None or old is None or new is None:
        return None
    changed = {each.name: each for each in differences(old, new)}
    for seen in findings.observed(transition.series, raising.build):
        for module in _modules(seen):
            difference = changed.get(_package(module))
            if difference is not None:
                return _said(difference, transition, findings)
    return None


def _modules(seen: Observation) -> list[str]:
    """Whose name is missing, and whose code raised it."""
    message = seen.root_message or seen.message or ""
    named = [found[1] for pattern in _NAMES_MODULE if (found := pattern.search(message))]
    return [*named, *([seen.frame.partition(":")[0]] if seen.frame and seen.frame_origin in _OTHERS else [])]


def _package(module: str) -> str:
    top = module.partition(".")[0]
    return DISTRIBUTIONS.get(top, top).lower().replace("_", "-")


def _said(difference: Difference, transition: Transition, findings: Findings) -> str:
    results = str(findings.results) if findings.results is not None else "RESULTS"
    words = ["bisect-torch", "attribute", results, transition.series.instance]
    if sum(each.series is transition.series for each in findings.transitions) > 1:
        words += ["--before", transition.before.build, "--after", transition.after.build]
    return f"{difference}, which changed along with torch: `{clean(shlex.join(words))}` tells which of them it is"

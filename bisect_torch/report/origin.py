"""Whether what is seen may come from a package beside torch: one that raised it, or that the case imports. Pure."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Container, Iterable, Mapping, Sequence

from bisect_torch.analysis.python_text import tree_of
from bisect_torch.cases.distributions import DISTRIBUTIONS
from bisect_torch.model import Environment, Observation, Series, Transition, Verdict
from bisect_torch.report.differences import Difference, differences, versions
from bisect_torch.report.excerpt import imported_roots
from bisect_torch.report.findings import Findings
from bisect_torch.report.retyped import shell_line, typed
from bisect_torch.report.text import clean, listed

_NAMES_MODULE = (
    re.compile(r"module '([\w.]+)' has no attribute"),
    re.compile(r"cannot import name '[^']+' from (?:partially initialized module )?'([\w.]+)'"),
    re.compile(r"No module named '([\w.]+)'"),
)
"""Messages that say whose name is missing."""

_FACTS = ("root_message", "message", "frame", "frame_origin")

_OTHERS = frozenset({"numpy", "numpy.testing", "other"})


def from_a_dependency(group: Sequence[Transition], findings: Findings) -> str | None:
    """What to say of a transition to or from an error that all of ``group`` share: which package this comes from, that
    it differs between the ends, and the command that tells whether it is that. None where it comes from something else,
    from one that is alike, or not from the same one in all of them.
    """
    first = group[0]
    raising = next((end for end in (first.after, first.before) if end.judgement.verdict is Verdict.ERROR), None)
    changed = _changed(first, findings) if raising is not None else {}
    if raising is None or not changed:
        return None
    found = {_first_of(changed, _packages(each.series, raising.build, findings)) for each in group}
    name = found.pop()
    if name is None or found:
        return None
    return f"{changed[name]}, which changed along with torch: `{_attribute(first, findings)}` tells which of them it is"


def imported_too(transition: Transition, findings: Findings) -> str | None:
    """What to say where the case's own text imports packages that differ between the ends, too; None where it does not,
    or where it is a name of torch that came or went."""
    if transition.before.judgement.api_absent or transition.after.judgement.api_absent:
        return None
    changed = _changed(transition, findings)
    texts = findings.facts(transition.series, transition.after.build, ("case_file_hash",)) if changed else []
    modules = {name for (text,) in texts for name in _imported(findings.sources.get(str(text), ""))}
    names = [clean(name) for name in changed if name in set(map(_package, modules))]
    if not names:
        return None
    differ = "differs" if len(names) == 1 else "differ"
    command = _attribute(transition, findings)
    return f"the case imports {listed(names)}, which {differ} too: `{command}` tells which it is"


def from_a_package(series: Sequence[Series], builds: Sequence[str], findings: Findings) -> str | None:
    """What to say of rows that raise the same on all builds: which package beside torch this comes from, with its
    version on the first and the last of them. None where it comes from torch, from the case, from what has no version,
    or not from the same one in all of them.

    Args:
        builds: The first and the last that were judged.
    """
    installed = {build: _beside_torch(findings.environments.get(build)) for build in builds}
    names = {_first_of(installed[build], _packages(each, build, findings)) for build in builds for each in series}
    name = names.pop()
    if name is None or names:
        return None
    told = {build: packages[name] for build, packages in installed.items()}
    if len(set(told.values())) == 1:
        return f"{clean(name)} {clean(told[builds[-1]])}: {BESIDE_TORCH}"
    return f"{clean(name)} {listed([f'{clean(each)} on {clean(on)}' for on, each in told.items()])}: {BESIDE_TORCH}"


BESIDE_TORCH = "a package beside torch, so this may not be torch's fault"


def raising_package(seen: Iterable[Observation], environment: Environment | None) -> tuple[str, str] | None:
    """Name and version of the package beside torch of which a name is missing, or whose code raised; None for torch,
    for the case itself, and where the environment has no such package."""
    installed = _beside_torch(environment)
    modules = (name for each in seen for name in _modules(*(getattr(each, fact) for fact in _FACTS)))
    name = _first_of(installed, map(_package, modules))
    return None if name is None else (name, installed[name])


def _beside_torch(environment: Environment | None) -> Mapping[str, str]:
    """Package to version."""
    packages = {} if environment is None else versions(environment.packages)
    return {name: version for name, version in packages.items() if name != "torch"}


def _first_of(known: Container[str], packages: Iterable[str]) -> str | None:
    return next((name for name in packages if name in known), None)


def _packages(series: Series, build: str, findings: Findings) -> list[str]:
    """Of which packages a name is missing in a cell, or whose code raised there."""
    facts = dict.fromkeys(findings.facts(series, build, _FACTS))
    return [_package(module) for each in facts for module in _modules(*each)]


def _changed(transition: Transition, findings: Findings) -> Mapping[str, Difference]:
    """Package to how it differs between the ends; empty where that is not known."""
    old, new = (findings.environments.get(end.build) for end in (transition.before, transition.after))
    return {} if old is None or new is None else {each.name: each for each in differences(old, new)}


def _modules(root_message: object, message: object, frame: object, frame_origin: object) -> list[str]:
    """Whose name is missing, and whose code raised it."""
    text = str(root_message or message or "")
    named = [found[1] for pattern in _NAMES_MODULE if (found := pattern.search(text))]
    return [*named, *([str(frame).partition(":")[0]] if frame and frame_origin in _OTHERS else [])]


def _package(module: str) -> str:
    top = module.partition(".")[0]
    return DISTRIBUTIONS.get(top, top).lower().replace("_", "-")


@functools.lru_cache(maxsize=64)  # many rows have one text
def _imported(text: str) -> frozenset[str]:
    """Modules that a text imports; none where it is no Python, as of a command."""
    tree = tree_of(text)
    nodes = () if tree is None else ast.walk(tree)
    imports = (node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)))
    return frozenset(root for node in imports for root in imported_roots(node))


def _attribute(transition: Transition, findings: Findings) -> str:
    """The command that tells whether it is torch or a package, as it can be typed."""
    series = transition.series
    results = typed(str(findings.results)) if findings.results is not None else "RESULTS"
    words = ["bisect-torch", "attribute", results, findings.name_of(series)]
    if sum(each.series is series for each in findings.transitions) > 1:
        words += ["--before", transition.before.build, "--after", transition.after.build]
    if findings.several_devices:
        words += ["--device", series.device]
    return shell_line(words)

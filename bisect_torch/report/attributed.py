"""What made a difference, in few words: what ``attribute`` has just found, and what results keep of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bisect_torch.analysis.attribution import Cause
from bisect_torch.model import Transition
from bisect_torch.report.differences import Difference, is_nvidia
from bisect_torch.report.findings import Findings
from bisect_torch.report.text import clean, listed, plural
from bisect_torch.results.attributed import PYTHON, Attributed, attributed_in


def cause_words(cause: Cause, packages: Sequence[Difference], torch: str, bound: Sequence[str]) -> str:
    """The answer without its evidence, for a cause that was found. What cannot be taken apart from torch is never left
    to a bracket: whoever quotes the first words must not blame torch alone.

    Args:
        packages: The dependencies that matter.
        torch: Version of the newer build's torch.
        bound: Names of what cannot be separated from it.
    """
    these = listed(list(map(str, packages)), most=12)
    if cause is Cause.DEPENDENCY:
        return f"{these}, not torch"
    if cause is Cause.TORCH:
        return f"torch, or what cannot be separated from it: {_short(bound)}" if bound else "torch itself"
    new = f"torch {clean(torch)}" + (f" or what cannot be separated from it ({_short(bound)})," if bound else "")
    if cause is Cause.TOGETHER:
        return f"only both together, {new} and {these}: neither alone changes it"
    return f"each alone is enough: {new.rstrip(',')}, and {these}"


def named(name: str, old: str | None, new: str | None) -> Difference:
    """A difference with the name that a reader knows."""
    return Difference("Python" if name == PYTHON else name, old, new)


def attributed_words(group: Sequence[Transition], findings: Findings) -> str:
    """What ``attribute`` found of a transition that all of ``group`` share; empty where it was not asked.

    An answer counts where row, both builds and the text of the case are those of the transition.
    """
    kept = {each.place: each for each in attributed_in(findings.runs)}
    if not kept:
        return ""
    answers: dict[str, list[str]] = {}
    for each in group:
        series, ends = each.series, (each.before.build, each.after.build)
        texts = {text for end in ends for (text,) in findings.facts(series, end, ("case_file_hash",))}
        text = str(texts.pop()) if len(texts) == 1 else ""
        found = kept.get((series.case_file, text, series.instance, series.device, *ends))
        if found is not None:
            answers.setdefault(_words(found), []).append(clean(series.instance))
    return "; ".join(f"{words} (`bisect-torch attribute`{_of(names, len(group))})" for words, names in answers.items())


def _words(found: Attributed) -> str:
    return cause_words(found.cause, [named(*each) for each in found.packages], found.torch, found.bound)


def _of(names: Iterable[str], number: int) -> str:
    """Of which instances, where it was not asked of all."""
    names = list(names)
    return "" if len(names) == number else f" of {listed(names, most=3)}"


def _short(names: Sequence[str]) -> str:
    """Packages with NVIDIA's many as one number."""
    nvidia = [name for name in names if is_nvidia(name)]
    words = [clean(name) for name in names if name not in nvidia]
    words += [plural(len(nvidia), "nvidia package")] if nvidia else []
    return listed(words, most=8)

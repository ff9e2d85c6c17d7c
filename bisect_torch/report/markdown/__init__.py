"""A bug report for GitHub, in the two fields of PyTorch's form. A pure function of what was found."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from bisect_torch.analysis import alike
from bisect_torch.analysis.causes import Cause
from bisect_torch.model import Verdict
from bisect_torch.report.beside import unlike_words
from bisect_torch.report.dependencies import dependency_drifts
from bisect_torch.report.doubts import variable_words
from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown.headline import headline
from bisect_torch.report.markdown.history import history, name_of, seen_in_matrix
from bisect_torch.report.markdown.section import described, environments
from bisect_torch.report.markdown.shortening import ROOM, Cuts, Detail, steps
from bisect_torch.report.markdown.syntax import marked, prose
from bisect_torch.report.remarks import remarks
from bisect_torch.report.text import clean, listed, plural
from bisect_torch.report.unchecked import unchecked
from bisect_torch.report.unjudged import unjudged
from bisect_torch.report.upshot import judged_points

__all__ = ["markdown", "nothing_found"]

_DESCRIBE = "### 🐛 Describe the bug"
_VERSIONS = "### Versions"
_KNOWN = "In the form of `torch.utils.collect_env`, as far as the results file tells."
_MOST_UNCLEAR = 5
_MOST_REMARKS = 5
_FOUND_WITH = (
    "*Found with `bisect-torch`, which runs the same code in an isolated, locked environment of each release. In a "
    "checkout of it, `pip install .` installs it.*"
)


def nothing_found(findings: Findings) -> list[str]:
    """Why there is nothing to report, and what no verdict tells, a text each; none where there is something."""
    if findings.causes:
        return []
    judged = {point.build for each, _ in alike(findings.series) for point in judged_points(each)}
    left = listed([str(each) for each in unjudged(findings)], most=3)
    if not judged:
        return [f"nothing could be judged: {left}" if left else "there are no results for it"]
    builds = [name for name in findings.build_names if name in judged]
    where = clean(builds[0]) if len(builds) == 1 else f"{clean(builds[0])} to {clean(builds[-1])}"
    ok = sum(number for each, number in alike(findings.series) if judged_points(each))
    text = f"{plural(ok, 'instance')} ok on every version that was judged, {where}"
    text += f"; not judged: {left}" if left else ""
    text += f"; {not_run}" if (not_run := _never_run(findings)) else ""
    ran = unchecked(findings)
    which = "it" if ok == 1 else f"{len(ran)} of them"
    text += f"; nothing was checked in {which}" if ran else ""
    text += "; only newer dependencies change something" if dependency_drifts(findings) else ""
    return [text, *map(clean, remarks(findings)[:_MOST_REMARKS])]


def markdown(findings: Findings) -> str:
    """The report, always shorter than GitHub's limit; empty where :func:`nothing_found` says why.

    It is shortened in the order of :func:`bisect_torch.report.markdown.shortening.steps`, and says what was left out.
    """
    found = findings.causes
    if not found:
        return ""
    told = [headline(cause, findings) for cause in found]
    matrix = functools.cache(lambda rows: history(findings, rows))
    unlike = [*unlike_words(findings), *variable_words(findings)]
    besides = [*_not_judged(findings), *_beside(findings), *map(prose, unlike)]
    text = ""
    for detail in steps(len(found)):
        cuts = Cuts()
        bug = _findings(told, found, findings, detail, cuts)
        bug[1:1] = [matrix(detail.rows), *besides]
        versions = _versions(found[: detail.full], findings, detail, cuts)
        text = "\n\n".join([_DESCRIBE, *bug, _FOUND_WITH, *cuts.told(), _VERSIONS, _KNOWN, *versions]) + "\n"
        if len(text.encode("utf-8", "backslashreplace")) <= ROOM:
            break
    return text


def _findings(told: Sequence[str], found: Sequence[Cause], findings: Findings, detail: Detail, cuts: Cuts) -> list[str]:
    """The sentences, then what supports them."""
    if len(found) > detail.full:
        cuts.note(f"all but the sentence of the last {plural(len(found) - detail.full, 'finding')}")
    if len(found) == 1:
        above = seen_in_matrix(findings)
        return [told[0], *([described(found[0], findings, detail, cuts, seen_above=above)] if detail.full else [])]
    lines = [f"{number}. {text}" for number, text in enumerate(told[: detail.rows], start=1)]
    if len(found) > detail.rows:
        cuts.note(f"the sentences of {len(found) - detail.rows} findings")
    parts = [f"{len(found)} findings, the most severe first.\n\n" + "\n".join(lines)]
    for number, cause in enumerate(found[: detail.full], start=1):
        parts += [f"#### {number}. {name_of(cause.series, findings)}", told[number - 1]]
        parts.append(described(cause, findings, detail, cuts, seen_above=False))
    return parts


def _not_judged(findings: Findings) -> list[str]:
    unclear = [marked(str(each)) for each in unjudged(findings) if each.verdict is not Verdict.SKIP]
    said = [f"Not judged: {'; '.join(unclear[:_MOST_UNCLEAR])}."] if unclear else []
    return [*said, *([f"Cut off: {not_run}."] if (not_run := _never_run(findings)) else [])]


def _never_run(findings: Findings) -> str:
    """That rows ran on no build, where there are such."""
    number = sum(count for each, count in alike(findings.series) if not any(each.answers))
    return f"{plural(number, 'instance')} {'was' if number == 1 else 'were'} not run" if number else ""


def _beside(findings: Findings) -> list[str]:
    """What no verdict tells, the first few of it."""
    said = [f"- {marked(each)}" for each in remarks(findings)]
    left = [f"- and {len(said) - _MOST_REMARKS} more of this kind"] if len(said) > _MOST_REMARKS else []
    return ["\n".join([*said[:_MOST_REMARKS], *left])] if said else []


def _versions(found: Sequence[Cause], findings: Findings, detail: Detail, cuts: Cuts) -> list[str]:
    """Each environment once."""
    versions: dict[str, str] = {}
    for cause in found:
        for build, text in environments(cause, findings, detail, cuts):
            versions.setdefault(build, text)
    return list(versions.values())

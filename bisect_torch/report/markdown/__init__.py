"""A bug report for GitHub, in the two fields of PyTorch's form. A pure function of what was found."""

from __future__ import annotations

from collections.abc import Sequence

from bisect_torch.analysis.causes import Cause
from bisect_torch.model import Verdict
from bisect_torch.report.dependencies import dependency_drifts
from bisect_torch.report.findings import Findings
from bisect_torch.report.markdown.headline import headline
from bisect_torch.report.markdown.history import history, name_of
from bisect_torch.report.markdown.section import described, environments
from bisect_torch.report.markdown.shortening import ROOM, Cuts, Detail, steps
from bisect_torch.report.markdown.syntax import prose
from bisect_torch.report.text import clean, listed, plural
from bisect_torch.report.unjudged import unjudged

__all__ = ["markdown", "nothing_found"]

_DESCRIBE = "### 🐛 Describe the bug"
_VERSIONS = "### Versions"


def nothing_found(findings: Findings) -> str | None:
    """Why there is nothing to report, in one line; None where there is something."""
    if findings.causes:
        return None
    judged = [
        point
        for each in findings.series
        for point in each.points
        if point is not None and point.judgement.verdict.judged
    ]
    left = listed([str(each) for each in unjudged(findings)], most=3)
    if not judged:
        return f"nothing could be judged ({left})" if left else "there are no results for it"
    builds = [name for name in findings.build_names if any(point.build == name for point in judged)]
    where = clean(builds[0]) if len(builds) == 1 else f"{clean(builds[0])} to {clean(builds[-1])}"
    text = f"{plural(len(findings.series), 'instance')} ok on every version that was judged, {where}"
    text += f"; not judged: {left}" if left else ""
    return text + ("; only newer dependencies change something" if dependency_drifts(findings) else "")


def markdown(findings: Findings) -> str:
    """The report, always shorter than GitHub's limit; empty where :func:`nothing_found` says why.

    It is shortened in the order of :func:`bisect_torch.report.markdown.shortening.steps`, and says what was left out.
    """
    found = findings.causes
    if not found:
        return ""
    text = ""
    for detail in steps(len(found)):
        text = _written(found, findings, detail)
        if len(text.encode("utf-8", "backslashreplace")) <= ROOM:
            break
    return text


def _written(found: Sequence[Cause], findings: Findings, detail: Detail) -> str:
    cuts = Cuts()
    bug = [*_findings(found, findings, detail, cuts)]
    versions: dict[str, str] = {}
    for cause in found[: detail.full]:
        for build, text in environments(cause, findings, detail, cuts):
            versions.setdefault(build, text)
    if cuts.words:
        bug.append(f"*Left out to fit GitHub's limit: {'; '.join(cuts.words)}. The results file has all of it.*")
    known = "In the form of `torch.utils.collect_env`, as far as the results file tells."
    return "\n\n".join([_DESCRIBE, *bug, _VERSIONS, known, *versions.values()]) + "\n"


def _findings(found: Sequence[Cause], findings: Findings, detail: Detail, cuts: Cuts) -> list[str]:
    matrix = history(findings, detail.rows)
    unclear = [prose(str(each)) for each in unjudged(findings) if each.verdict is not Verdict.SKIP]
    notes = [f"Not judged: {'; '.join(unclear[:5])}."] if unclear else []
    if len(found) == 1:
        body = [described(found[0], findings, detail, cuts)] if detail.full else _bare(cuts, 1)
        return [headline(found[0], findings), matrix, *notes, *body]
    parts = [f"{len(found)} findings, the most severe first.", _contents(found, findings, detail, cuts), matrix, *notes]
    for number, cause in enumerate(found[: detail.full], start=1):
        parts += [f"#### {number}. {name_of(cause.series, findings)}", headline(cause, findings)]
        parts.append(described(cause, findings, detail, cuts))
    if len(found) > detail.full:
        parts += _bare(cuts, len(found) - detail.full)
    return parts


def _contents(found: Sequence[Cause], findings: Findings, detail: Detail, cuts: Cuts) -> str:
    lines = [f"{number}. {headline(cause, findings)}" for number, cause in enumerate(found[: detail.rows], start=1)]
    if len(found) > detail.rows:
        cuts.note(f"the sentences of {len(found) - detail.rows} findings")
    return "\n".join(lines)


def _bare(cuts: Cuts, number: int) -> list[str]:
    cuts.note(f"all but the sentence of the last {plural(number, 'finding')}")
    return []
